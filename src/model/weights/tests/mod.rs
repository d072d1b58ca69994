mod damaged_gguf;
mod damaged_safetensors;

use super::*;
use crate::model::test_data::{conformance, real_model};

/// Every tensor that the decoder asks for: those that must be there, and those that may be.
pub(super) fn read_all(checkpoint: &Checkpoint) -> Result<usize, ModelError> {
    let config = checkpoint.config().clone();
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let (query, key) = (config.query_size(), config.key_value_size());
    let mut read = checkpoint.tensor("model.embed_tokens.weight", &[config.vocab_size, hidden])?.len();
    read += checkpoint.tensor("model.norm.weight", &[hidden])?.len();
    if !config.tie_word_embeddings {
        read += checkpoint.tensor("lm_head.weight", &[config.vocab_size, hidden])?.len();
    }
    for layer in 0..config.num_hidden_layers {
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            read += checkpoint.tensor(&name(&format!("{norm}.weight")), &[hidden])?.len();
        }
        for (module, rows, columns) in [
            ("self_attn.q_proj", query, hidden),
            ("self_attn.k_proj", key, hidden),
            ("self_attn.v_proj", key, hidden),
            ("self_attn.o_proj", hidden, query),
            ("mlp.gate_proj", inner, hidden),
            ("mlp.up_proj", inner, hidden),
            ("mlp.down_proj", hidden, inner),
        ] {
            read += checkpoint.tensor(&name(&format!("{module}.weight")), &[rows, columns])?.len();
            let bias = checkpoint.optional_tensor(&name(&format!("{module}.bias")), &[rows])?;
            read += bias.map_or(0, |bias| bias.len());
        }
    }
    Ok(read)
}

#[test]
fn every_conformance_model_gives_all_its_tensors() {
    for folder in conformance() {
        let checkpoint = Checkpoint::open(&folder).expect("a model");
        let read = read_all(&checkpoint).expect("all tensors");
        assert!(read > 100_000, "{}: {read}", folder.display());
    }
}

#[test]
fn the_two_real_models_give_all_their_tensors() {
    for (name, parameters) in [("smollm2-135m", 134_515_008), ("qwen2.5-coder-0.5b", 630_167_424)] {
        let Some(path) = real_model(name) else { continue };
        let checkpoint = Checkpoint::open(&path).expect("a model");
        assert_eq!(read_all(&checkpoint).expect("all tensors"), parameters, "{name}");
    }
}
