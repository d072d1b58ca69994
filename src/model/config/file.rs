//! `config.json`, in the older and the newer spelling.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::rope_table::{RopeTable, is_partial};
use super::{Architecture, Config, Rope};
use crate::model::ModelError;

/// The keys we read of `config.json`; the rest does not change the computation.
#[derive(Deserialize)]
struct ConfigFile {
    #[serde(default)]
    architectures: Option<Vec<String>>,
    #[serde(default)]
    model_type: Option<String>,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    rms_norm_eps: Option<f64>,
    rope_theta: Option<f64>,
    rope_scaling: Option<Map<String, Value>>,
    rope_parameters: Option<Map<String, Value>>,
    partial_rotary_factor: Option<f64>,
    tie_word_embeddings: Option<bool>,
    max_position_embeddings: usize,
    hidden_act: Option<String>,
    /// Absent and null differ for Mistral.
    #[serde(default, deserialize_with = "present")]
    sliding_window: Option<Option<usize>>,
    use_sliding_window: Option<bool>,
    max_window_layers: Option<usize>,
    layer_types: Option<Vec<String>>,
    bos_token_id: Option<u32>,
    eos_token_id: Option<TokenIds>,
    quantization_config: Option<Value>,
}

/// The keys we read of `generation_config.json`.
#[derive(Default, Deserialize)]
struct GenerationFile {
    bos_token_id: Option<u32>,
    eos_token_id: Option<TokenIds>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a token id or a list of them")]
enum TokenIds {
    One(u32),
    Several(Vec<u32>),
}

impl TokenIds {
    fn into_vec(self) -> Vec<u32> {
        match self {
            Self::One(id) => vec![id],
            Self::Several(ids) => ids,
        }
    }
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<usize>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Reads `config.json`, and `generation_config.json` where there is one.
///
/// # Errors
/// A file that cannot be read, a key that is missing, of the wrong type or unknown in meaning, sizes that do
/// not fit each other.
pub(crate) fn read(directory: &Path) -> Result<Config, ModelError> {
    let path = directory.join("config.json");
    let file: ConfigFile = json(&path)?;
    let generation_path = directory.join("generation_config.json");
    let generation =
        if generation_path.is_file() { json(&generation_path)? } else { GenerationFile::default() };
    file.resolve(generation, &path)?.checked(&path)
}

fn json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ModelError> {
    let bytes = std::fs::read(path).map_err(ModelError::read(path))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        ModelError::file(path, format!("does not parse: {error}"), "a model's configuration")
    })
}

impl ConfigFile {
    fn resolve(self, generation: GenerationFile, path: &Path) -> Result<Config, ModelError> {
        let architecture = self.architecture(path)?;
        self.refuse_what_we_do_not_compute(path)?;
        let rope = self.rope(path)?;
        let sliding_window = self.windows(architecture, path)?;
        let heads = self.num_attention_heads;
        let eos = generation.eos_token_id.or(self.eos_token_id);
        Ok(Config {
            architecture,
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            num_hidden_layers: self.num_hidden_layers,
            num_attention_heads: heads,
            num_key_value_heads: self.num_key_value_heads.unwrap_or(heads),
            head_dim: match self.head_dim {
                Some(head_dim) => head_dim,
                None => default_head_dim(architecture, self.hidden_size, heads, path)?,
            },
            vocab_size: self.vocab_size,
            rms_norm_eps: self.rms_norm_eps.unwrap_or(1e-6),
            rope,
            tie_word_embeddings: self.tie_word_embeddings.unwrap_or(false),
            max_position_embeddings: self.max_position_embeddings,
            sliding_window,
            bos_token_id: self.bos_token_id.or(generation.bos_token_id),
            eos_token_ids: eos.map(TokenIds::into_vec).unwrap_or_default(),
        })
    }

    fn architecture(&self, path: &Path) -> Result<Architecture, ModelError> {
        let listed = self.architectures.as_deref().and_then(<[String]>::first);
        let (key, name) = match (listed, &self.model_type) {
            (Some(name), _) => ("architectures", name.as_str()),
            (None, Some(name)) => ("model_type", name.as_str()),
            (None, None) => ("architectures", ""),
        };
        match name {
            "LlamaForCausalLM" | "llama" => Ok(Architecture::Llama),
            "MistralForCausalLM" | "mistral" => Ok(Architecture::Mistral),
            "Qwen2ForCausalLM" | "qwen2" => Ok(Architecture::Qwen2),
            "Qwen3ForCausalLM" | "qwen3" => Ok(Architecture::Qwen3),
            _ => {
                let expected = format!("one of {}", Architecture::KNOWN);
                Err(ModelError::key(path, key, format!("`{name}`"), expected))
            }
        }
    }

    fn refuse_what_we_do_not_compute(&self, path: &Path) -> Result<(), ModelError> {
        let activation = self.hidden_act.as_deref().unwrap_or("silu");
        if !["silu", "swish"].contains(&activation) {
            return Err(ModelError::key(path, "hidden_act", format!("`{activation}`"), "`silu`"));
        }
        if let Some(quantized) = &self.quantization_config {
            let method = quantized.get("quant_method").and_then(Value::as_str).unwrap_or("set");
            let expected = "absent: weights in f32, f16 or bf16, or a GGUF file";
            return Err(ModelError::key(path, "quantization_config", format!("`{method}`"), expected));
        }
        match self.partial_rotary_factor {
            Some(factor) if is_partial(factor) => {
                Err(ModelError::key(path, "partial_rotary_factor", factor, "1: all channels of a head turn"))
            }
            _ => Ok(()),
        }
    }

    fn rope(&self, path: &Path) -> Result<Rope, ModelError> {
        let (prefix, table) = match (&self.rope_parameters, &self.rope_scaling) {
            (Some(parameters), _) => ("rope_parameters", parameters.clone()),
            (None, Some(scaling)) => ("rope_scaling", scaling.clone()),
            (None, None) => ("rope_parameters", Map::new()),
        };
        let table = RopeTable { path, prefix, table };
        table.refuse_partial()?;
        let theta = table.number("rope_theta")?.or(self.rope_theta).unwrap_or(10_000.0);
        Ok(Rope { theta, scaling: table.scaling(self.max_position_embeddings)? })
    }

    /// The window of each layer, by the rules of each family's class in transformers.
    fn windows(&self, architecture: Architecture, path: &Path) -> Result<Vec<Option<usize>>, ModelError> {
        let layers = self.num_hidden_layers.min(1 << 16);
        // Both classes take 4096 where the key is absent.
        let window = self.sliding_window.unwrap_or(Some(4096));
        match architecture {
            Architecture::Llama => Ok(vec![None; layers]),
            Architecture::Mistral => Ok(vec![window; layers]),
            Architecture::Qwen2 | Architecture::Qwen3 => {
                let window = window.filter(|_| self.use_sliding_window.unwrap_or(false));
                match &self.layer_types {
                    Some(types) => listed_windows(types, layers, window, path),
                    None => {
                        let full = self.max_window_layers.unwrap_or(28);
                        Ok((0..layers).map(|layer| window.filter(|_| layer >= full)).collect())
                    }
                }
            }
        }
    }
}

fn default_head_dim(
    architecture: Architecture,
    hidden_size: usize,
    heads: usize,
    path: &Path,
) -> Result<usize, ModelError> {
    if architecture == Architecture::Qwen3 {
        return Ok(128); // What its class takes where the key is absent.
    }
    if heads == 0 || !hidden_size.is_multiple_of(heads) {
        let expected = format!("a divisor of `hidden_size` {hidden_size}, or `head_dim` given");
        return Err(ModelError::key(path, "num_attention_heads", heads, expected));
    }
    Ok(hidden_size / heads)
}

fn listed_windows(
    types: &[String],
    layers: usize,
    window: Option<usize>,
    path: &Path,
) -> Result<Vec<Option<usize>>, ModelError> {
    if types.len() != layers {
        let found = format!("a list of {}", types.len());
        return Err(ModelError::key(
            path,
            "layer_types",
            found,
            format!("one entry for each of {layers} layers"),
        ));
    }
    let one = |kind: &String| match (kind.as_str(), window) {
        ("full_attention", _) => Ok(None),
        ("sliding_attention", Some(window)) => Ok(Some(window)),
        ("sliding_attention", None) => Err(ModelError::key(
            path,
            "sliding_window",
            "not in use",
            "a window: `layer_types` names sliding layers",
        )),
        _ => {
            let expected = "`full_attention` or `sliding_attention`";
            Err(ModelError::key(path, "layer_types", format!("`{kind}`"), expected))
        }
    };
    types.iter().map(one).collect()
}
