use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;

use super::super::error::folder;
use super::super::{Document, Trace, TraceError};
use super::{Description, DocumentEntry, ENTRY, check};

/// Header lengths are padded to this, so that every tensor starts where its elements may.
const ALIGN: usize = 8;

impl Trace {
    /// Writes the file under a temporary name beside `path`, then renames it: `path` is never half a trace.
    ///
    /// # Errors
    /// [`TraceError::Write`]; [`TraceError::Damaged`] if the trace breaks the rules that [`Trace::read`]
    /// holds it to.
    pub fn write(&self, path: &Path) -> Result<(), TraceError> {
        check::trace(self, path)?;
        let header = self.header().map_err(|source| TraceError::Meta { path: path.to_owned(), source })?;
        self.write_atomically(&header, path)
            .map_err(|source| TraceError::Write { path: path.to_owned(), source })
    }

    fn write_atomically(&self, header: &[u8], path: &Path) -> io::Result<()> {
        let mut file = temporary_beside(path)?;
        let mut out = BufWriter::with_capacity(1 << 20, file.as_file_mut());
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(header)?;
        self.write_tensors(&mut out)?;
        out.flush()?;
        drop(out);
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    }

    /// In the order of the header's offsets.
    fn write_tensors(&self, out: &mut impl Write) -> io::Result<()> {
        self.write_u32(out, |document| &document.tokens)?;
        self.write_u32(out, |document| &document.top_ids)?;
        self.write_f32(out, |document| &document.top_logits)?;
        self.write_f32(out, |document| &document.log_sum_exp)?;
        self.write_f32(out, |document| &document.hidden)
    }

    fn write_u32(&self, out: &mut impl Write, table: impl Fn(&Document) -> &[u32]) -> io::Result<()> {
        self.documents.iter().flat_map(table).try_for_each(|value| out.write_all(&value.to_le_bytes()))
    }

    fn write_f32(&self, out: &mut impl Write, table: impl Fn(&Document) -> &[f32]) -> io::Result<()> {
        self.documents.iter().flat_map(table).try_for_each(|value| out.write_all(&value.to_le_bytes()))
    }

    fn header(&self) -> Result<Vec<u8>, serde_json::Error> {
        let documents = self.documents.iter().map(DocumentEntry::of).collect();
        let description = Description { meta: self.meta.clone(), documents };
        let (n_positions, top) = (self.positions(), self.meta.top);
        let n_tokens = self.documents.iter().map(|document| document.tokens.len()).sum();
        let mut end = 0;
        let mut tensor = |dtype, shape: Vec<usize>| {
            let start = end;
            end += 4 * shape.iter().product::<usize>();
            TensorEntry { dtype, shape, data_offsets: [start, end] }
        };
        let header = Header {
            metadata: [(ENTRY, serde_json::to_string(&description)?)].into(),
            tokens: tensor("U32", vec![n_tokens]),
            top_ids: tensor("U32", vec![n_positions, top]),
            top_logits: tensor("F32", vec![n_positions, top]),
            log_sum_exp: tensor("F32", vec![n_positions]),
            hidden: tensor("F32", vec![n_positions, self.meta.hidden_size]),
        };
        let mut bytes = serde_json::to_vec(&header)?;
        bytes.resize(bytes.len().next_multiple_of(ALIGN), b' ');
        Ok(bytes)
    }
}

/// The safetensors header: a struct and no map, so that its order is fixed.
#[derive(Serialize)]
struct Header {
    #[serde(rename = "__metadata__")]
    metadata: BTreeMap<&'static str, String>,
    tokens: TensorEntry,
    top_ids: TensorEntry,
    top_logits: TensorEntry,
    log_sum_exp: TensorEntry,
    hidden: TensorEntry,
}

#[derive(Serialize)]
struct TensorEntry {
    dtype: &'static str,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

/// A new file in the folder of `path`, with the rights of any file that the user makes; gone if it is
/// dropped.
fn temporary_beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    let everybody: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(everybody); // less the user's umask
    builder.prefix(".trace-").tempfile_in(folder(path))
}
