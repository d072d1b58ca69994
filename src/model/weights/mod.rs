//! Weights by their Hugging Face names, from either kind of file, in the type that they shall be held in.

mod element;
mod fingerprint;
pub(super) mod gguf;
mod known;
mod matrix;
mod safetensors;
#[cfg(test)]
mod tests;
mod weight_type;

use std::path::{Path, PathBuf};

use super::config::{self, Config};
use super::{ModelError, TensorProblem};

pub use fingerprint::Fingerprint;
pub use matrix::HalfMatrix;
pub use weight_type::{UnknownWeightType, WeightType};

pub(super) use element::Weight;

use gguf::Gguf;
use safetensors::Shards;

/// An opened model: its configuration, and its weights mapped into memory.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    config: Config,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Directory(Shards),
    Gguf(Gguf),
}

impl Checkpoint {
    /// Opens a directory in Hugging Face layout, or a `.gguf` file.
    ///
    /// Headers are read and checked against the files' sizes; weights are read by [`Self::tensor`].
    ///
    /// # Errors
    /// What is missing, damaged or not computed by this program, with file and key.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let (config, source) = if path.is_dir() {
            (config::read_directory(path)?, Source::Directory(Shards::open(path)?))
        } else {
            let gguf = Gguf::open(path)?;
            (config::read_gguf(&gguf)?, Source::Gguf(gguf))
        };
        let checkpoint = Self { path: path.to_path_buf(), config, source };
        checkpoint.refuse_unknown_tensors()?;
        Ok(checkpoint)
    }

    /// Sizes and constants.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where the model lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A tensor in row-major order; `shape` is outermost dimension first, `[out, in]` for a projection.
    ///
    /// # Errors
    /// A tensor that is missing, of another shape, of a format that is not read, cut off, or not finite.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        self.optional_tensor(name, shape)?.ok_or_else(|| self.missing(name))
    }

    /// A tensor that some models have, a bias or a norm; `None` where the file has none.
    ///
    /// # Errors
    /// As [`Self::tensor`], a missing one apart.
    pub fn optional_tensor(&self, name: &str, shape: &[usize]) -> Result<Option<Vec<f32>>, ModelError> {
        let mut weights = Vec::new();
        Ok(self.append_optional(name, shape, &mut weights)?.then_some(weights))
    }

    /// Appends a tensor to `out` as weights of a type, the nearest ones of it.
    ///
    /// # Errors
    /// As [`Self::tensor`], and a weight that the type cannot hold.
    pub(super) fn append<W: Weight>(
        &self,
        name: &str,
        shape: &[usize],
        out: &mut Vec<W>,
    ) -> Result<(), ModelError> {
        if self.append_optional(name, shape, out)? { Ok(()) } else { Err(self.missing(name)) }
    }

    fn append_optional<W: Weight>(
        &self,
        name: &str,
        shape: &[usize],
        out: &mut Vec<W>,
    ) -> Result<bool, ModelError> {
        match &self.source {
            Source::Directory(shards) => shards.append(name, shape, out),
            Source::Gguf(gguf) => gguf.append_model(name, shape, &self.config, out),
        }
    }

    /// Looks for a tensor of this shape without reading it.
    ///
    /// # Errors
    /// As [`Self::tensor`], but for what only its numbers show.
    pub(super) fn check(&self, name: &str, shape: &[usize]) -> Result<(), ModelError> {
        let found = match &self.source {
            Source::Directory(shards) => shards.check(name, shape),
            Source::Gguf(gguf) => gguf.check_model(name, shape),
        };
        if found? { Ok(()) } else { Err(self.missing(name)) }
    }

    /// The type that a tensor is stored in; `None` where it is missing or in blocks.
    pub(super) fn stored(&self, name: &str) -> Option<WeightType> {
        match &self.source {
            Source::Directory(shards) => shards.stored(name),
            Source::Gguf(gguf) => gguf.stored(name),
        }
    }

    fn missing(&self, name: &str) -> ModelError {
        ModelError::tensor(&self.path, &self.file_name(name), TensorProblem::Missing)
    }

    /// Whether the file has a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        match &self.source {
            Source::Directory(shards) => shards.contains(name),
            Source::Gguf(gguf) => gguf.contains(&self.file_name(name)),
        }
    }

    /// sha256 over everything that decides the computation; reads all of it.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn fingerprint(&self) -> Result<Fingerprint, ModelError> {
        match &self.source {
            Source::Directory(shards) => {
                let config = self.path.join("config.json");
                Fingerprint::of_files(std::iter::once(config.as_path()).chain(shards.paths()))
            }
            Source::Gguf(gguf) => Fingerprint::of_file(gguf.path()),
        }
    }

    /// The opened file, when it is a GGUF file.
    pub(super) fn gguf(&self) -> Option<&Gguf> {
        match &self.source {
            Source::Directory(_) => None,
            Source::Gguf(gguf) => Some(gguf),
        }
    }

    /// The name that the file gives to a tensor of this Hugging Face name.
    fn file_name(&self, name: &str) -> String {
        match &self.source {
            Source::Directory(_) => name.into(),
            Source::Gguf(_) => gguf::file_name(name),
        }
    }

    fn refuse_unknown_tensors(&self) -> Result<(), ModelError> {
        let names: Vec<(&str, String)> = match &self.source {
            Source::Directory(shards) => shards.names().map(|name| (name, name.to_owned())).collect(),
            Source::Gguf(gguf) => gguf.names().map(|name| (name, gguf::model_name(name))).collect(),
        };
        for (name, model_name) in names {
            if let Some(model) = known::misfit(&model_name, &self.config) {
                return Err(ModelError::tensor(&self.path, name, TensorProblem::Unexpected { model }));
            }
        }
        Ok(())
    }
}
