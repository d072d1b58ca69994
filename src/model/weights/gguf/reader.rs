//! Values off the front of a GGUF file, in the order of the format.

use std::collections::HashMap;
use std::path::Path;

use rlx_gguf::MetaValue;

use super::entry::RawEntry;
use super::metadata::Metadata;
use crate::model::{ModelError, TensorProblem};

/// Takes values off the front of a header; every length is checked against what is left.
pub(super) struct Reader<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(path: &'a Path, bytes: &'a [u8]) -> Self {
        Self { path, bytes, at: 0 }
    }

    /// Bytes taken so far.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Magic and version.
    pub(super) fn magic(&mut self) -> Result<(), ModelError> {
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
    pub(super) fn count(&mut self, what: &str, least: usize) -> Result<usize, ModelError> {
        let count = self.u64(what)?;
        let left = self.bytes.len() - self.at;
        usize::try_from(count).ok().filter(|&count| count <= left / least).ok_or_else(|| {
            let expected = format!("at most {}, which fit the {left} bytes left", left / least);
            ModelError::key(self.path, what, count, expected)
        })
    }

    pub(super) fn metadata(&mut self, count: usize) -> Result<Metadata, ModelError> {
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

    /// One row of the table of tensors.
    pub(super) fn entry(&mut self) -> Result<RawEntry, ModelError> {
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
