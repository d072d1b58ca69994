//! What the decoder must know, with nothing left open.

mod file;
mod gguf;
mod rope;
mod rope_table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;

use super::ModelError;
use crate::cache::HeadShape;

pub use rope::{Rope, Scaling};

pub(super) use file::read as read_directory;
pub(super) use gguf::read as read_gguf;

/// The families whose computation the decoder does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Llama 1 to 3.2, SmolLM2 and everything of their form.
    Llama,
    /// Mistral: Llama with an optional sliding window.
    Mistral,
    /// Qwen2 and 2.5: biases on q, k and v.
    Qwen2,
    /// Qwen3: RMS norms on the heads of q and k.
    Qwen3,
}

impl Architecture {
    /// All of them, for messages.
    pub const KNOWN: &str = "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM (llama, qwen2, qwen3 in GGUF)";

    /// Whether q and k heads are normalized before the rotary embedding.
    pub fn normalizes_heads(self) -> bool {
        self == Self::Qwen3
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Sizes and constants of a model, resolved from `config.json` or GGUF metadata.
///
/// Whether a projection has a bias is told by the weights, not here.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The family.
    pub architecture: Architecture,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the MLP.
    pub intermediate_size: usize,
    /// Decoder layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; divides the query heads.
    pub num_key_value_heads: usize,
    /// Channels per head, even; not always `hidden_size / num_attention_heads`.
    pub head_dim: usize,
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// Added to the mean square in RMS norms.
    pub rms_norm_eps: f64,
    /// Rotary position embedding.
    pub rope: Rope,
    /// Whether the head is the embedding's transpose.
    pub tie_word_embeddings: bool,
    /// Longest context the model is made for, tokens.
    pub max_position_embeddings: usize,
    /// Per layer, how many of the latest tokens attention sees, itself included; `None` sees all.
    pub sliding_window: Vec<Option<usize>>,
    /// Token that begins a text, where there is one.
    pub bos_token_id: Option<u32>,
    /// Tokens that end a generation; may be empty.
    pub eos_token_ids: Vec<u32>,
}

/// No file can be as large as a configuration can say.
fn saturated(elements: u128) -> u64 {
    u64::try_from(elements).unwrap_or(u64::MAX)
}

impl Config {
    /// Heads of every layer.
    pub fn head_shape(&self) -> HeadShape {
        HeadShape {
            n_heads: self.num_attention_heads,
            n_kv_heads: self.num_key_value_heads,
            head_dim: self.head_dim,
        }
    }

    /// Elements of the matrices of one layer.
    pub fn layer_elements(&self) -> u64 {
        let wide = |size: usize| size as u128;
        let attention = 2 * wide(self.hidden_size) * (wide(self.query_size()) + wide(self.key_value_size()));
        let mlp = 3 * wide(self.hidden_size) * wide(self.intermediate_size);
        saturated(attention + mlp)
    }

    /// Elements of embedding and head, which may be one.
    pub fn embedding_elements(&self) -> u64 {
        let matrices = if self.tie_word_embeddings { 1 } else { 2 };
        saturated(matrices * self.vocab_size as u128 * self.hidden_size as u128)
    }

    /// Elements of all weight matrices.
    pub fn weight_elements(&self) -> u64 {
        let layers = u128::from(self.layer_elements()) * self.num_hidden_layers as u128;
        saturated(layers + u128::from(self.embedding_elements()))
    }

    /// Width of all query heads together.
    pub fn query_size(&self) -> usize {
        self.head_shape().q_width()
    }

    /// Width of all key heads together, and of all value heads.
    pub fn key_value_size(&self) -> usize {
        self.head_shape().kv_width()
    }

    /// Checks what serde cannot: sizes that fit each other, numbers that make sense.
    fn checked(self, path: &Path) -> Result<Self, ModelError> {
        // Upper limits far above any model, so that products and tables of sizes stay small.
        let sizes = [
            ("hidden_size", self.hidden_size, 1 << 24),
            ("intermediate_size", self.intermediate_size, 1 << 24),
            ("num_hidden_layers", self.num_hidden_layers, 1 << 16),
            ("num_attention_heads", self.num_attention_heads, 1 << 16),
            ("num_key_value_heads", self.num_key_value_heads, 1 << 16),
            ("head_dim", self.head_dim, 1 << 16),
            ("vocab_size", self.vocab_size, 1 << 28),
            ("max_position_embeddings", self.max_position_embeddings, 1 << 32),
        ];
        for (key, size, limit) in sizes {
            if size == 0 || size > limit {
                return Err(ModelError::key(path, key, size, format!("a number in 1..={limit}")));
            }
        }
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            let expected = format!("a divisor of the {} attention heads", self.num_attention_heads);
            return Err(ModelError::key(path, "num_key_value_heads", self.num_key_value_heads, expected));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(ModelError::key(path, "head_dim", self.head_dim, "an even number"));
        }
        self.check_numbers(path)?;
        Ok(self)
    }

    fn check_numbers(&self, path: &Path) -> Result<(), ModelError> {
        if !(self.rms_norm_eps > 0.0 && self.rms_norm_eps < 1.0) {
            return Err(ModelError::key(path, "rms_norm_eps", self.rms_norm_eps, "a small positive number"));
        }
        let (frequencies, scale) = self.rope.inverse_frequencies(self.head_dim);
        let usable = |number: f32| number.is_finite() && number > 0.0;
        if frequencies.len() != self.head_dim / 2 || !usable(scale) || !frequencies.into_iter().all(usable) {
            let expected = "parameters that give finite positive frequencies, one for each pair of channels";
            return Err(ModelError::key(path, "rope_parameters", format!("{:?}", self.rope), expected));
        }
        if self.sliding_window.contains(&Some(0)) {
            return Err(ModelError::key(path, "sliding_window", 0, "1 or more, or null"));
        }
        Ok(())
    }
}
