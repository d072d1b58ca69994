//! A file's bytes without reading them first.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// A read-only map of a whole file; derefs to its bytes.
#[derive(Debug)]
pub struct Mapped(memmap2::Mmap);

impl Mapped {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// Whatever opening or mapping says; an empty file is [`io::ErrorKind::UnexpectedEof`].
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is empty"));
        }
        // SAFETY: the map is read-only and outlives the file handle by design of mmap. Another process that
        // truncates the file while we read it can fault us; weights are not written while they are in use,
        // and every loader of this kind accepts that risk.
        Ok(Self(unsafe { memmap2::Mmap::map(&file)? }))
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
