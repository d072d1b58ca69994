//! The header of a GGUF file, read without trusting a number in it.
//!
//! Source of the layout: the GGUF specification of the ggml project, versions 2 and 3.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use rlx_gguf::GgmlType;

use super::entry::RawEntry;
use super::metadata::Metadata;
use super::reader::Reader;
use crate::model::{ModelError, TensorProblem};

/// Metadata and the table of tensors.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) metadata: Metadata,
    pub(super) tensors: HashMap<String, TensorEntry>,
}

/// One tensor: its bytes lie inside the file and are as many as shape and format need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TensorEntry {
    /// Outermost dimension first, the reverse of the file's order.
    pub(super) shape: Vec<usize>,
    pub(super) dtype: GgmlType,
    /// Where it lies in the file.
    pub(super) bytes: Range<usize>,
}

impl Header {
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ModelError> {
        let mut reader = Reader::new(path, bytes);
        reader.magic()?;
        // The least a tensor takes in the table: name length, rank, format, offset; and a key: length, type, value.
        let tensor_count = reader.count("tensor_count", 24)?;
        let key_count = reader.count("metadata_kv_count", 13)?;
        let metadata = reader.metadata(key_count)?;
        let entries = (0..tensor_count).map(|_| reader.entry()).collect::<Result<Vec<_>, _>>()?;
        let data = data_start(&metadata, path, reader.position())?;
        let tensors = place(path, bytes.len(), data, entries)?;
        Ok(Self { metadata, tensors })
    }
}

/// Where tensor data begins: the next multiple of the alignment.
fn data_start(metadata: &Metadata, path: &Path, header_end: usize) -> Result<usize, ModelError> {
    let key = "general.alignment";
    let alignment = metadata.size(key)?.unwrap_or(32);
    if !alignment.is_power_of_two() || alignment > 1 << 20 {
        return Err(ModelError::key(path, key, alignment, "a power of two up to 1048576"));
    }
    Ok(header_end.next_multiple_of(alignment))
}

fn place(
    path: &Path,
    file: usize,
    data: usize,
    entries: Vec<RawEntry>,
) -> Result<HashMap<String, TensorEntry>, ModelError> {
    let mut tensors = HashMap::with_capacity(entries.len());
    for raw in entries {
        let wrong = |problem| ModelError::tensor(path, &raw.name, problem);
        let entry = raw.resolve(file, data).map_err(wrong)?;
        if tensors.contains_key(&raw.name) {
            return Err(wrong(TensorProblem::Duplicate));
        }
        tensors.insert(raw.name, entry);
    }
    Ok(tensors)
}
