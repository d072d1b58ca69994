//! Files → configuration, weights, tokenizer.
//!
//! A model is a directory in Hugging Face layout or one `.gguf` file. [`Checkpoint::open`] accepts either and
//! checks what can be checked before a number is computed: sizes, headers, shards, and that no tensor is there
//! that our computation would leave out.

mod chat;
mod config;
mod decoder;
mod device;
mod error;
pub mod generate;
mod ops;
mod registry;
pub mod restore;
mod rope;
mod sampling;
mod special;
#[cfg(test)]
pub(crate) mod test_data;
mod tokenizer;
mod weights;

pub use chat::{ChatTemplate, Message, Role};
pub use config::{Architecture, Config, Rope, Scaling};
pub(crate) use decoder::batches;
pub use decoder::{Decoder, LayerWork, OpenLayer, Prefilled, Projected};
#[cfg(any(feature = "flex", feature = "cuda"))]
pub(crate) use device::on_device;
pub use device::{Device, UnknownDevice};
pub use error::{ModelError, TensorProblem};
pub use ops::{Batch, DecoderBackend, WeightMatrix, from_host, to_host};
pub use registry::{Hub, KNOWN_MODELS, KnownModel, Registry, Resolved, Source};
pub use rope::Angles;
pub use sampling::{Sampler, Sampling};
pub use tokenizer::{BosPolicy, Tokenizer};
pub use weights::{Checkpoint, Fingerprint, HalfMatrix, UnknownWeightType, WeightType};

/// A matrix on a backend.
pub type Tensor2<B> = burn::Tensor<B, 2>;
