//! A GGUF file: metadata, and tensors that are dequantized on reading.
//!
//! The dequantizers are `rlx-gguf`'s. Its header reader is not used: it divides by an alignment of 0, lets
//! products of dimensions wrap, keeps the last of two equal keys and casts bytes without regard to alignment.

mod entry;
mod header;
mod metadata;
mod names;
mod reader;

use std::path::{Path, PathBuf};

use kvtune_kernels::mmap::Mapped;
use rlx_gguf::GgmlType;

use super::element::{Element, finite};
use crate::model::config::{Architecture, Config};
use crate::model::{ModelError, TensorProblem};

pub(crate) use metadata::Metadata;
pub(super) use names::{file_name, model_name};

use header::{Header, TensorEntry};

/// An opened GGUF file.
#[derive(Debug)]
pub(crate) struct Gguf {
    path: PathBuf,
    bytes: Mapped,
    header: Header,
}

impl Gguf {
    /// Maps a file and reads its header.
    pub(super) fn open(path: &Path) -> Result<Self, ModelError> {
        let bytes = Mapped::open(path).map_err(ModelError::read(path))?;
        let header = Header::parse(path, &bytes)?;
        if let Some(parts) = header.metadata.size("split.count")?.filter(|&parts| parts > 1) {
            let expected = "1: one file, merged from its parts";
            return Err(ModelError::key(path, "split.count", parts, expected));
        }
        Ok(Self { path: path.to_path_buf(), bytes, header })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.header.metadata
    }

    /// `general.architecture`.
    pub(crate) fn architecture(&self) -> Result<&str, ModelError> {
        self.metadata().required_text("general.architecture")
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.header.tensors.contains_key(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.header.tensors.keys().map(String::as_str)
    }

    /// Outermost dimension of a tensor.
    pub(crate) fn rows(&self, name: &str) -> Result<usize, ModelError> {
        let entry = self.header.tensors.get(name).and_then(|entry| entry.shape.first());
        entry.copied().ok_or_else(|| ModelError::tensor(&self.path, name, TensorProblem::Missing))
    }

    /// A tensor by its Hugging Face name, rows in Hugging Face's order; `None` where the file has none.
    pub(super) fn model_tensor(
        &self,
        model_name: &str,
        shape: &[usize],
        config: &Config,
    ) -> Result<Option<Vec<f32>>, ModelError> {
        let name = file_name(model_name);
        if !self.contains(&name) {
            return Ok(None);
        }
        let weights = self.tensor(&name, shape)?;
        let permuted = config.architecture == Architecture::Llama && names::is_permuted(model_name);
        Ok(Some(if permuted { names::unpermute(&weights, shape, config.head_dim) } else { weights }))
    }

    /// A tensor by the name it has in the file.
    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        let wrong = |problem| ModelError::tensor(&self.path, name, problem);
        let entry = self.header.tensors.get(name).ok_or_else(|| wrong(TensorProblem::Missing))?;
        if entry.shape != shape {
            let (found, expected) = (entry.shape.clone(), shape.to_vec());
            return Err(wrong(TensorProblem::Shape { found, expected }));
        }
        self.decode(entry).and_then(finite).map_err(wrong)
    }

    fn decode(&self, entry: &TensorEntry) -> Result<Vec<f32>, TensorProblem> {
        let out_of_file =
            || TensorProblem::OutOfFile { end: entry.bytes.end.to_string(), file: self.bytes.len() };
        let bytes = self.bytes.get(entry.bytes.clone()).ok_or_else(out_of_file)?;
        let element = match entry.dtype {
            GgmlType::F32 => Element::F32,
            GgmlType::F16 => Element::F16,
            GgmlType::BF16 => Element::Bf16,
            quantized => {
                let elements = entry.shape.iter().product();
                return rlx_gguf::dequant_typed(quantized, bytes, elements, "").map_err(|error| {
                    TensorProblem::Header { found: error.to_string(), expected: "whole blocks".into() }
                });
            }
        };
        Ok(element.decode(bytes))
    }
}
