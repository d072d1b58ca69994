//! The same configuration from a GGUF file's metadata.

use super::rope::yarn_attention_factor;
use super::{Architecture, Config, Rope, Scaling};
use crate::model::ModelError;
use crate::model::weights::gguf::Gguf;

/// Reads the configuration of a GGUF file.
///
/// # Errors
/// A key that is missing, of the wrong type or unknown in meaning, sizes that do not fit each other.
pub(crate) fn read(gguf: &Gguf) -> Result<Config, ModelError> {
    let architecture = architecture(gguf)?;
    let keys = Keys { gguf, prefix: gguf.architecture()? };
    let hidden_size = keys.size("embedding_length")?;
    let heads = keys.size("attention.head_count")?;
    let head_dim = head_dim(&keys, hidden_size, heads)?;
    let layers = keys.size("block_count")?.min(1 << 16);
    let window = keys.optional_size("attention.sliding_window")?;
    let metadata = gguf.metadata();
    let config = Config {
        architecture,
        hidden_size,
        intermediate_size: keys.size("feed_forward_length")?,
        num_hidden_layers: layers,
        num_attention_heads: heads,
        num_key_value_heads: keys.optional_size("attention.head_count_kv")?.unwrap_or(heads),
        head_dim,
        vocab_size: gguf.rows("token_embd.weight")?,
        rms_norm_eps: metadata.number(&keys.name("attention.layer_norm_rms_epsilon"))?.unwrap_or(1e-6),
        rope: rope(&keys, head_dim)?,
        tie_word_embeddings: !gguf.contains("output.weight"),
        max_position_embeddings: keys.size("context_length")?,
        sliding_window: vec![window; layers],
        bos_token_id: token_id(gguf, "tokenizer.ggml.bos_token_id")?,
        eos_token_ids: token_id(gguf, "tokenizer.ggml.eos_token_id")?.into_iter().collect(),
    };
    config.checked(gguf.path())
}

fn architecture(gguf: &Gguf) -> Result<Architecture, ModelError> {
    match gguf.architecture()? {
        "llama" => Ok(Architecture::Llama),
        "qwen2" => Ok(Architecture::Qwen2),
        "qwen3" => Ok(Architecture::Qwen3),
        unknown => {
            let expected = format!("one of {}", Architecture::KNOWN);
            Err(ModelError::key(gguf.path(), "general.architecture", format!("`{unknown}`"), expected))
        }
    }
}

fn head_dim(keys: &Keys<'_>, hidden_size: usize, heads: usize) -> Result<usize, ModelError> {
    let head_dim = match keys.optional_size("attention.key_length")? {
        Some(length) => length,
        None if heads > 0 && hidden_size.is_multiple_of(heads) => hidden_size / heads,
        None => return Err(keys.wrong("attention.head_count", heads, format!("a divisor of {hidden_size}"))),
    };
    for key in ["attention.value_length", "rope.dimension_count"] {
        if let Some(length) = keys.optional_size(key)?.filter(|&length| length != head_dim) {
            return Err(keys.wrong(key, length, format!("the {head_dim} channels of a key head")));
        }
    }
    Ok(head_dim)
}

fn rope(keys: &Keys<'_>, head_dim: usize) -> Result<Rope, ModelError> {
    let theta = keys.number("rope.freq_base")?.unwrap_or(10_000.0);
    let scaling = scaling(keys)?;
    if !keys.gguf.contains(FACTORS) {
        return Ok(Rope { theta, scaling });
    }
    match scaling {
        Scaling::Default => {
            let factors = keys.gguf.tensor(FACTORS, &[head_dim / 2])?;
            Ok(Rope { theta, scaling: Scaling::Factors(factors) })
        }
        _ => Err(keys.wrong("rope.scaling.type", "set", format!("`none` beside the tensor `{FACTORS}`"))),
    }
}

/// Divisors of each frequency, as the conversion of Llama 3 models leaves them.
const FACTORS: &str = "rope_freqs.weight";

fn scaling(keys: &Keys<'_>) -> Result<Scaling, ModelError> {
    let name = keys.name("rope.scaling.type");
    let older = keys.number("rope.scale_linear")?;
    match keys.gguf.metadata().text(&name)? {
        None => Ok(older.map_or(Scaling::Default, |factor| Scaling::Linear { factor })),
        Some("none") => Ok(Scaling::Default),
        Some("linear") => Ok(Scaling::Linear { factor: keys.factor()? }),
        Some("yarn") => yarn(keys),
        Some(unknown) => {
            let expected = "one of none, linear, yarn";
            Err(ModelError::key(keys.gguf.path(), &name, format!("`{unknown}`"), expected))
        }
    }
}

fn yarn(keys: &Keys<'_>) -> Result<Scaling, ModelError> {
    let factor = keys.factor()?;
    let scale = keys.number("rope.scaling.attn_factor")?.unwrap_or(1.0);
    Ok(Scaling::Yarn {
        factor,
        original_max_position_embeddings: keys.size("rope.scaling.original_context_length")?,
        beta_fast: keys.number("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
        beta_slow: keys.number("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
        truncate: true,
        attention_factor: scale * yarn_attention_factor(factor, None, None),
    })
}

fn token_id(gguf: &Gguf, key: &str) -> Result<Option<u32>, ModelError> {
    let id = gguf.metadata().size(key)?;
    id.map(|id| u32::try_from(id).map_err(|_| ModelError::key(gguf.path(), key, id, "a token id")))
        .transpose()
}

/// Keys under the architecture's prefix.
struct Keys<'a> {
    gguf: &'a Gguf,
    prefix: &'a str,
}

impl Keys<'_> {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.prefix)
    }

    fn size(&self, key: &str) -> Result<usize, ModelError> {
        self.optional_size(key)?.ok_or_else(|| self.wrong(key, "missing", "a number"))
    }

    fn optional_size(&self, key: &str) -> Result<Option<usize>, ModelError> {
        self.gguf.metadata().size(&self.name(key))
    }

    fn number(&self, key: &str) -> Result<Option<f64>, ModelError> {
        self.gguf.metadata().number(&self.name(key))
    }

    fn factor(&self) -> Result<f64, ModelError> {
        let key = "rope.scaling.factor";
        match self.number(key)? {
            Some(factor) if factor >= 1.0 => Ok(factor),
            Some(factor) => Err(self.wrong(key, factor, "1 or more")),
            None => Err(self.wrong(key, "missing", "a number")),
        }
    }

    fn wrong(&self, key: &str, found: impl std::fmt::Display, expected: impl Into<String>) -> ModelError {
        ModelError::key(self.gguf.path(), &self.name(key), found, expected)
    }
}
