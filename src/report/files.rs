use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::NamedTempFile;

/// What can go wrong with a result file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be written; what stood under its name still stands.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file cannot be read at all.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not what its name says.
    #[error("`{}`{place}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Where inside it, with a comma before: `, line 3, column "loss"`; may be empty.
        place: String,
        /// Found against expected.
        message: String,
    },
}

impl FileError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Write { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull => "free some space or choose another place with `--out`",
                _ => "choose another place with `--out`",
            },
            Self::Read { .. } | Self::Content { .. } => return None,
        };
        Some(String::from(hint))
    }

    pub(crate) fn content(path: &Path, place: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Content { path: path.to_owned(), place: place.into(), message: message.into() }
    }
}

/// Writes a file whole or not at all: into a temporary file of the same folder, then renamed.
///
/// The folder is made if it is missing. A file already there is replaced only by the rename.
///
/// # Errors
/// [`FileError::Write`] naming `path`, whatever step failed.
pub fn write_atomic(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), FileError> {
    try_write(path, fill).map_err(|source| FileError::Write { path: path.to_owned(), source })
}

/// Writes a text as [`write_atomic`] does.
///
/// # Errors
/// [`FileError::Write`].
pub fn write_text(path: &Path, text: &str) -> Result<(), FileError> {
    write_atomic(path, |file| file.write_all(text.as_bytes()))
}

fn try_write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Some(file) = folder.ancestors().find(|place| place.is_file()) {
        let message = format!("`{}` is a file, not a folder", file.display());
        return Err(io::Error::new(io::ErrorKind::NotADirectory, message));
    }
    std::fs::create_dir_all(folder)?;
    let mut file = BufWriter::new(temporary_in(folder)?);
    fill(&mut file)?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// A temporary file is private by default; a result shall be as readable as any file of the user's.
#[cfg(unix)]
fn temporary_in(folder: &Path) -> io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(".kvtune-").permissions(mode).tempfile_in(folder)
}

#[cfg(not(unix))]
fn temporary_in(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(".kvtune-").tempfile_in(folder)
}

/// Reads a text file whole.
///
/// # Errors
/// [`FileError::Read`] naming `path`.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    // Some editors begin a file with a byte-order mark.
    match text.strip_prefix('\u{feff}') {
        Some(rest) => Ok(rest.to_owned()),
        None => Ok(text),
    }
}

/// Writes a value as a YAML file.
pub(super) fn write_yaml(path: &Path, value: &impl Serialize) -> Result<(), FileError> {
    let text =
        serde_yaml::to_string(value).map_err(|error| FileError::content(path, "", error.to_string()))?;
    write_text(path, &text)
}

/// Reads a value from a YAML file.
pub(super) fn read_yaml<T: DeserializeOwned>(path: &Path) -> Result<T, FileError> {
    serde_yaml::from_str(&read_text(path)?).map_err(|error| FileError::content(path, "", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_into_a_new_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/b/file.txt");
        write_text(&path, "text").expect("written");
        assert_eq!(read_text(&path).expect("read"), "text");
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file.txt");
        write_text(&path, "old").expect("written");
        let error = write_atomic(&path, |file| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        })
        .expect_err("the disk is full");
        assert!(error.to_string().contains("file.txt"), "{error}");
        assert!(error.hint().expect("a hint").starts_with("free some space"));
        assert_eq!(read_text(&path).expect("read"), "old");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn a_folder_that_is_a_file_is_refused_by_path() {
        let file = NamedTempFile::new().expect("a file");
        let path = file.path().join("pareto.csv");
        let error = write_text(&path, "").expect_err("not a folder");
        assert!(error.to_string().starts_with("cannot write `"), "{error}");
        assert!(
            error.to_string().ends_with(
                "pareto.csv`: `{}` is a file, not a folder"
                    .replace("{}", &file.path().display().to_string())
                    .as_str()
            ),
            "{error}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_result_is_as_readable_as_other_files() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        write_text(&ours, "").expect("written");
        std::fs::write(&plain, "").expect("written");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
    }
}
