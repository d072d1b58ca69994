use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::model::ModelError;

/// sha256 that says which weights were used; prints as 64 hexadecimal digits, `{:#}` as the first 12.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// sha256 of one file, as `sha256sum` gives it.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of_file(path: &Path) -> Result<Self, ModelError> {
        let mut hasher = Sha256::new();
        stream(path, &mut hasher).map_err(ModelError::read(path))?;
        Ok(Self(hasher.finalize().into()))
    }

    /// sha256 over the names and sha256 of several files, in their order.
    pub(super) fn of_files<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<Self, ModelError> {
        let mut hasher = Sha256::new();
        for path in paths {
            let name = path.file_name().unwrap_or_default();
            hasher.update(format!("{}\0{}\n", name.to_string_lossy(), Self::of_file(path)?));
        }
        Ok(Self(hasher.finalize().into()))
    }
}

fn stream(path: &Path, hasher: &mut Sha256) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if f.alternate() { 6 } else { 32 };
        self.0[..shown].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_sum_that_sha256sum_prints() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").expect("a file");
        let sum = Fingerprint::of_file(&path).expect("a sum");
        assert_eq!(sum.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(format!("{sum:#}"), "ba7816bf8f01");
    }

    #[test]
    fn several_files_count_with_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        std::fs::write(&one, "same").expect("a file");
        std::fs::write(&two, "same").expect("a file");
        let of = |paths: [&Path; 2]| Fingerprint::of_files(paths.into_iter()).expect("a sum");
        assert_ne!(of([&one, &two]), of([&two, &one]));
    }
}
