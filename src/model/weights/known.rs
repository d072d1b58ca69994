//! Which tensors the decoder computes with; any other would be silently left out.

use crate::model::Config;

const PROJECTIONS: [&str; 7] = [
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
];

/// Tables that older files carry and that follow from the configuration.
const DERIVED: [&str; 2] = ["self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"];

/// What a tensor does not fit into, the architecture or the number of layers; `None` when it fits.
pub(super) fn misfit(name: &str, config: &Config) -> Option<String> {
    if matches!(
        name,
        "model.embed_tokens.weight" | "model.norm.weight" | "lm_head.weight" | "rope_freqs.weight"
    ) {
        return None;
    }
    let Some((layer, part)) = name.strip_prefix("model.layers.").and_then(|rest| rest.split_once('.')) else {
        let derived = name.strip_prefix("model.").is_some_and(|part| DERIVED.contains(&part));
        return (!derived).then(|| format!("a {} model", config.architecture));
    };
    match layer.parse::<usize>() {
        Ok(layer) if layer >= config.num_hidden_layers => {
            Some(format!("a model of {} layers", config.num_hidden_layers))
        }
        Ok(_) if fits_layer(part, config) => None,
        _ => Some(format!("a {} model", config.architecture)),
    }
}

fn fits_layer(part: &str, config: &Config) -> bool {
    match part {
        "input_layernorm.weight" | "post_attention_layernorm.weight" => true,
        "self_attn.q_norm.weight" | "self_attn.k_norm.weight" => config.architecture.normalizes_heads(),
        _ if DERIVED.contains(&part) => true,
        _ => part.rsplit_once('.').is_some_and(|(module, kind)| {
            PROJECTIONS.contains(&module) && ["weight", "bias"].contains(&kind)
        }),
    }
}
