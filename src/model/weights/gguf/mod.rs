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
use rayon::prelude::*;
use rlx_gguf::GgmlType;

use super::WeightType;
use super::element::{Element, Weight, append, not_finite, refuse};
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

    /// Appends a tensor by its Hugging Face name, rows in Hugging Face's order; `false` where the file has none.
    pub(super) fn append_model<W: Weight>(
        &self,
        model_name: &str,
        shape: &[usize],
        config: &Config,
        out: &mut Vec<W>,
    ) -> Result<bool, ModelError> {
        let name = file_name(model_name);
        if !self.contains(&name) {
            return Ok(false);
        }
        let start = out.len();
        self.append(&name, shape, out)?;
        if config.architecture == Architecture::Llama && names::is_permuted(model_name) {
            let restored = names::unpermute(&out[start..], shape, config.head_dim);
            out[start..].copy_from_slice(&restored);
        }
        Ok(true)
    }

    /// Whether a tensor of this Hugging Face name and shape is there; `false` where the file has none.
    pub(super) fn check_model(&self, model_name: &str, shape: &[usize]) -> Result<bool, ModelError> {
        let name = file_name(model_name);
        if !self.contains(&name) {
            return Ok(false);
        }
        self.find(&name, shape).map(|_| true).map_err(|problem| self.wrong(&name, problem))
    }

    /// The type that a tensor of this Hugging Face name is stored in, if that is one that weights are held in.
    pub(super) fn stored(&self, model_name: &str) -> Option<WeightType> {
        match self.header.tensors.get(&file_name(model_name))?.dtype {
            GgmlType::F32 => Some(WeightType::F32),
            GgmlType::F16 => Some(WeightType::F16),
            GgmlType::BF16 => Some(WeightType::Bf16),
            _ => None,
        }
    }

    /// A tensor by the name it has in the file.
    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        let mut weights = Vec::new();
        self.append(name, shape, &mut weights).map(|()| weights)
    }

    fn append<W: Weight>(&self, name: &str, shape: &[usize], out: &mut Vec<W>) -> Result<(), ModelError> {
        let wrong = |problem| self.wrong(name, problem);
        let (entry, bytes) = self.find(name, shape).map_err(wrong)?;
        let start = out.len();
        decode(entry, bytes, out).map_err(wrong)?;
        let Some(index) = not_finite(&out[start..]) else { return Ok(()) };
        let mut wide: Vec<f32> = Vec::new();
        decode(entry, bytes, &mut wide).map_err(wrong)?;
        Err(wrong(refuse::<W>(index, wide[index])))
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<(&TensorEntry, &[u8]), TensorProblem> {
        let entry = self.header.tensors.get(name).ok_or(TensorProblem::Missing)?;
        if entry.shape != shape {
            let (found, expected) = (entry.shape.clone(), shape.to_vec());
            return Err(TensorProblem::Shape { found, expected });
        }
        let out_of_file =
            || TensorProblem::OutOfFile { end: entry.bytes.end.to_string(), file: self.bytes.len() };
        let bytes = self.bytes.get(entry.bytes.clone()).ok_or_else(out_of_file)?;
        Ok((entry, bytes))
    }

    fn wrong(&self, name: &str, problem: TensorProblem) -> ModelError {
        ModelError::tensor(&self.path, name, problem)
    }
}

fn decode<W: Weight>(entry: &TensorEntry, bytes: &[u8], out: &mut Vec<W>) -> Result<(), TensorProblem> {
    match entry.dtype {
        GgmlType::F32 => Element::F32.decode(bytes, out),
        GgmlType::F16 => Element::F16.decode(bytes, out),
        GgmlType::BF16 => Element::Bf16.decode(bytes, out),
        quantized => return decode_blocks(quantized, entry, bytes, out),
    }
    Ok(())
}

/// Row by row: no block spans two.
fn decode_blocks<W: Weight>(
    dtype: GgmlType,
    entry: &TensorEntry,
    bytes: &[u8],
    out: &mut Vec<W>,
) -> Result<(), TensorProblem> {
    let elements: usize = entry.shape.iter().product();
    let width = entry.shape.last().copied().unwrap_or(1).max(1);
    let row_bytes = bytes.len() / (elements / width).max(1);
    let header = |error: String| TensorProblem::Header { found: error, expected: "whole blocks".into() };
    append(elements, out, |out| {
        let rows = out.par_chunks_mut(width).zip(bytes.par_chunks(row_bytes.max(1)));
        rows.try_for_each(|(out, bytes)| {
            let wide = rlx_gguf::dequant_typed(dtype, bytes, width, "")
                .map_err(|error| header(error.to_string()))?;
            if wide.len() != out.len() {
                return Err(header(format!("{} elements in a row of {width}", wide.len())));
            }
            W::round(&wide, out);
            Ok(())
        })
    })
}
