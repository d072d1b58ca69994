//! Tensor names and row orders of GGUF against Hugging Face's.

/// GGUF module → Hugging Face module, outside the layers.
const TOP: [(&str, &str); 3] =
    [("token_embd", "model.embed_tokens"), ("output_norm", "model.norm"), ("output", "lm_head")];

/// GGUF module → Hugging Face module, within a layer.
const LAYER: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// `blk.3.attn_q.weight` → `model.layers.3.self_attn.q_proj.weight`; a name without a counterpart stays.
pub(in crate::model::weights) fn model_name(name: &str) -> String {
    translate(name, "blk.", "model.layers.", |module, (gguf, hf)| (module == gguf).then_some(hf))
}

/// The way back.
pub(in crate::model::weights) fn file_name(name: &str) -> String {
    translate(name, "model.layers.", "blk.", |module, (gguf, hf)| (module == hf).then_some(gguf))
}

fn translate(
    name: &str,
    from: &str,
    to: &str,
    other: impl Fn(&str, (&'static str, &'static str)) -> Option<&'static str>,
) -> String {
    let Some((module, kind)) = name.rsplit_once('.') else { return name.into() };
    let in_layer = module.strip_prefix(from).and_then(|rest| rest.split_once('.'));
    let translated = match in_layer {
        Some((layer, module)) => LAYER
            .iter()
            .find_map(|&pair| other(module, pair))
            .map(|found| format!("{to}{layer}.{found}.{kind}")),
        None => TOP.iter().find_map(|&pair| other(module, pair)).map(|found| format!("{found}.{kind}")),
    };
    translated.unwrap_or_else(|| name.into())
}

/// Whether the conversion of Llama models reorders this tensor's rows.
pub(super) fn is_permuted(model_name: &str) -> bool {
    model_name.contains(".q_proj.") || model_name.contains(".k_proj.")
}

/// Puts the rows of each head back: GGUF's 2j + s is Hugging Face's j + s · head_dim / 2.
///
/// llama.cpp turns neighboring channels into each other, Hugging Face channels half a head apart; the conversion
/// reorders the rows of q and k instead of the rotation.
pub(super) fn unpermute<W: Copy>(weights: &[W], shape: &[usize], head_dim: usize) -> Vec<W> {
    let width: usize = shape.iter().skip(1).product();
    let half = head_dim / 2;
    let rows = shape.first().copied().unwrap_or(0);
    let mut restored = Vec::with_capacity(weights.len());
    for row in 0..rows {
        let (head, channel) = (row / head_dim, row % head_dim);
        let source = head * head_dim + 2 * (channel % half) + channel / half;
        restored.extend_from_slice(&weights[source * width..(source + 1) * width]);
    }
    restored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for (gguf, hf) in [
            ("blk.12.attn_q.bias", "model.layers.12.self_attn.q_proj.bias"),
            ("blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
            ("token_embd.weight", "model.embed_tokens.weight"),
            ("output.weight", "lm_head.weight"),
        ] {
            assert_eq!(model_name(gguf), hf);
            assert_eq!(file_name(hf), gguf);
        }
    }

    #[test]
    fn a_name_without_counterpart_stays() {
        assert_eq!(model_name("blk.0.attn_sinks.weight"), "blk.0.attn_sinks.weight");
        assert_eq!(model_name("odd"), "odd");
    }

    #[test]
    fn interleaved_rows_return_to_halves() {
        // Two heads of four channels, width 1: each row holds its place in Hugging Face's order.
        let interleaved = [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0];
        let restored = unpermute(&interleaved, &[8, 1], 4);
        assert_eq!(restored, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    }
}
