//! The header of a GGUF file, read without trusting a number in it.
//!
//! Source of the layout: the GGUF specification of the ggml project, versions 2 and 3.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use rlx_gguf::{GgmlType, MetaValue};

use super::metadata::Metadata;
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

/// One tensor as the table has it.
struct RawEntry {
    name: String,
    shape: Vec<usize>,
    dtype: u32,
    offset: u64,
}

impl Header {
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ModelError> {
        let mut reader = Reader { path, bytes, at: 0 };
        reader.magic()?;
        // The least a tensor takes in the table: name length, rank, format, offset; and a key: length, type, value.
        let tensor_count = reader.count("tensor_count", 24)?;
        let key_count = reader.count("metadata_kv_count", 13)?;
        let metadata = reader.metadata(key_count)?;
        let entries = (0..tensor_count).map(|_| reader.entry()).collect::<Result<Vec<_>, _>>()?;
        let data = data_start(&metadata, path, reader.at)?;
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

impl RawEntry {
    fn resolve(&self, file: usize, data: usize) -> Result<TensorEntry, TensorProblem> {
        let dtype = self.dtype()?;
        let header =
            |found: String, expected: &str| TensorProblem::Header { found, expected: expected.into() };
        let elements = self.shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
        // No format packs more than eight elements into a byte.
        let elements = elements.filter(|&count| count / 8 <= file).ok_or_else(|| {
            header(format!("shape {:?}", self.shape), "no more elements than the file can hold")
        })?;
        let row = self.shape.last().copied().unwrap_or(1);
        // A row is the unit of storage: a block never spans two.
        let length = rlx_gguf::bytes_for_public(dtype, row)
            .and_then(|_| rlx_gguf::bytes_for_public(dtype, elements))
            .ok_or_else(|| header(format!("rows of {row} elements as {dtype}"), "whole blocks in a row"))?;
        let start = usize::try_from(self.offset).ok().and_then(|offset| data.checked_add(offset));
        let end = start.and_then(|start| start.checked_add(length));
        match (start, end) {
            (Some(start), Some(end)) if end <= file => {
                Ok(TensorEntry { shape: self.shape.clone(), dtype, bytes: start..end })
            }
            _ => {
                let end = end.map_or("beyond all numbers".into(), |end| end.to_string());
                Err(TensorProblem::OutOfFile { end, file })
            }
        }
    }

    fn dtype(&self) -> Result<GgmlType, TensorProblem> {
        use GgmlType::{BF16, F16, F32, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Q8K};
        let unknown = |found: String| TensorProblem::Dtype { found };
        match GgmlType::from_u32(self.dtype) {
            Ok(
                known @ (F32 | F16 | BF16 | Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 | Q2K | Q3K | Q4K | Q5K | Q6K
                | Q8K),
            ) => Ok(known),
            Ok(other) => Err(unknown(other.name().into())),
            Err(_) => Err(unknown(format!("format {}", self.dtype))),
        }
    }
}

/// Takes values off the front of a header; every length is checked against what is left.
struct Reader<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn magic(&mut self) -> Result<(), ModelError> {
        let expected = "a GGUF file of version 2 or 3";
        let magic = self.bytes.get(..4).unwrap_or_default();
        if magic != b"GGUF" {
            return Err(ModelError::file(self.path, format!("begins with {magic:?}"), expected));
        }
        self.at = 4;
        match self.u32("version")? {
            2 | 3 => Ok(()),
            version => Err(ModelError::file(self.path, format!("has version {version}"), expected)),
        }
    }

    /// A number of things that take at least `least` bytes each.
    fn count(&mut self, what: &str, least: usize) -> Result<usize, ModelError> {
        let count = self.u64(what)?;
        let left = self.bytes.len() - self.at;
        usize::try_from(count).ok().filter(|&count| count <= left / least).ok_or_else(|| {
            let expected = format!("at most {}, which fit the {left} bytes left", left / least);
            ModelError::key(self.path, what, count, expected)
        })
    }

    fn metadata(&mut self, count: usize) -> Result<Metadata, ModelError> {
        let mut values = HashMap::new();
        for _ in 0..count {
            let key = self.string("metadata key")?;
            let kind = self.u32(&key)?;
            let value = self.value(&key, kind)?;
            if values.contains_key(&key) {
                return Err(ModelError::key(self.path, &key, "there twice", "each key once"));
            }
            values.insert(key, value);
        }
        Ok(Metadata::new(self.path, values))
    }

    fn value(&mut self, key: &str, kind: u32) -> Result<MetaValue, ModelError> {
        match kind {
            ARRAY => {
                let kind = self.u32(key)?;
                if kind == ARRAY {
                    return Err(ModelError::key(
                        self.path,
                        key,
                        "an array of arrays",
                        "an array of single values",
                    ));
                }
                let count = self.count(key, 1)?;
                if count > LONGEST_ARRAY {
                    let expected = format!("at most {LONGEST_ARRAY}");
                    return Err(ModelError::key(self.path, key, format!("a list of {count}"), expected));
                }
                (0..count).map(|_| self.scalar(key, kind)).collect::<Result<_, _>>().map(MetaValue::Array)
            }
            kind => self.scalar(key, kind),
        }
    }

    fn scalar(&mut self, key: &str, kind: u32) -> Result<MetaValue, ModelError> {
        Ok(match kind {
            0 => MetaValue::U8(u8::from_le_bytes(self.array(key)?)),
            1 => MetaValue::I8(i8::from_le_bytes(self.array(key)?)),
            2 => MetaValue::U16(u16::from_le_bytes(self.array(key)?)),
            3 => MetaValue::I16(i16::from_le_bytes(self.array(key)?)),
            4 => MetaValue::U32(self.u32(key)?),
            5 => MetaValue::I32(i32::from_le_bytes(self.array(key)?)),
            6 => MetaValue::F32(f32::from_le_bytes(self.array(key)?)),
            7 => MetaValue::Bool(self.array::<1>(key)? != [0]),
            8 => MetaValue::String(self.string(key)?),
            10 => MetaValue::U64(self.u64(key)?),
            11 => MetaValue::I64(i64::from_le_bytes(self.array(key)?)),
            12 => MetaValue::F64(f64::from_le_bytes(self.array(key)?)),
            unknown => {
                return Err(ModelError::key(
                    self.path,
                    key,
                    format!("of type {unknown}"),
                    "a type of 0 to 12",
                ));
            }
        })
    }

    fn entry(&mut self) -> Result<RawEntry, ModelError> {
        let name = self.string("tensor name")?;
        let rank = self.u32(&name)?;
        if rank == 0 || rank > 4 {
            let problem =
                TensorProblem::Header { found: format!("{rank} dimensions"), expected: "1 to 4".into() };
            return Err(ModelError::tensor(self.path, &name, problem));
        }
        let mut shape = Vec::with_capacity(rank as usize);
        for _ in 0..rank {
            // What does not fit saturates, and is then more than the file can hold.
            shape.push(usize::try_from(self.u64(&name)?).unwrap_or(usize::MAX));
        }
        shape.reverse();
        Ok(RawEntry { shape, dtype: self.u32(&name)?, offset: self.u64(&name)?, name })
    }

    fn string(&mut self, what: &str) -> Result<String, ModelError> {
        let length = self.count(what, 1)?;
        let text = std::str::from_utf8(self.take(what, length)?);
        text.map(str::to_owned)
            .map_err(|error| ModelError::key(self.path, what, format!("not UTF-8: {error}"), "a text"))
    }

    fn u32(&mut self, what: &str) -> Result<u32, ModelError> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Result<u64, ModelError> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], ModelError> {
        let (path, taken) = (self.path, self.take(what, N)?);
        taken.try_into().map_err(|_| cut_off(path, what))
    }

    fn take(&mut self, what: &str, length: usize) -> Result<&'a [u8], ModelError> {
        let taken = self.bytes[self.at..].get(..length).ok_or_else(|| cut_off(self.path, what))?;
        self.at += length;
        Ok(taken)
    }
}

const ARRAY: u32 = 9;

/// Far above any vocabulary: a value takes more memory than its byte in the file.
const LONGEST_ARRAY: usize = 1 << 22;

fn cut_off(path: &Path, what: &str) -> ModelError {
    ModelError::file(path, format!("ends inside its header, at `{what}`"), "the whole header")
}
