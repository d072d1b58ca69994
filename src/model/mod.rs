//! Files → configuration, weights, tokenizer.
//!
//! A model is a directory in Hugging Face layout or one `.gguf` file. [`Checkpoint::open`] accepts either and
//! checks what can be checked before a number is computed: sizes, headers, shards, and that no tensor is there
//! that our computation would leave out.

mod config;
mod error;
#[cfg(test)]
mod test_data;
mod weights;

pub use config::{Architecture, Config, Rope, Scaling};
pub use error::{ModelError, TensorProblem};
pub use weights::{Checkpoint, Fingerprint};
