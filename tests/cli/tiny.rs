//! A Llama of two layers with random weights and one token a byte: a whole job on it takes a second.

use std::path::Path;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Map, Value, json};

const HIDDEN: usize = 16;
const MLP: usize = 24;
const KV_WIDTH: usize = 8;
const VOCAB: usize = 256;

/// Writes model and job into `folder`: `tiny/` and `job.yaml`, results in `out/`.
pub(super) fn write(folder: &Path) {
    let model = folder.join("tiny");
    std::fs::create_dir_all(&model).expect("a folder");
    write_config(&model, &config());
    std::fs::write(model.join("tokenizer.json"), tokenizer().to_string()).expect("written");
    std::fs::write(model.join("model.safetensors"), weights(1)).expect("written");
    write_job(folder, "", "");
}

/// The same with other weights.
pub(super) fn write_other(folder: &Path) {
    write(folder);
    std::fs::write(folder.join("tiny/model.safetensors"), weights(2)).expect("written");
}

/// Writes `job.yaml`, with more fields of the scheme and of the search.
pub(super) fn write_job(folder: &Path, scheme: &str, search: &str) {
    let job = format!(
        "model: ./tiny
trace: {{documents: {{search: 2, select: 2, test: 2}}, min_tokens: 64, max_new_tokens: 16}}
search_space: {{scheme: {{name: kivi, key: {{group: 8, residual: 8}}, value: {{group: 8}}{scheme}}}}}
search: {{evaluations: 20, max_loss: 1{search}}}
out: out
"
    );
    std::fs::write(folder.join("job.yaml"), job).expect("written");
}

/// Writes `config.json`.
pub(super) fn write_config(model: &Path, config: &Value) {
    std::fs::write(model.join("config.json"), config.to_string()).expect("written");
}

/// The configuration of the weights.
pub(super) fn config() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN, "intermediate_size": MLP,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
        "vocab_size": VOCAB, "rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "hidden_act": "silu",
        "rope_theta": 10000.0, "bos_token_id": 0, "eos_token_id": 255
    })
}

fn weights(seed: u64) -> Vec<u8> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut values = |name: &str, shape: &[usize]| -> Vec<u8> {
        let count: usize = shape.iter().product();
        let value = |_| if name.contains("norm") { 1.0_f32 } else { random.random_range(-0.8..0.8) };
        (0..count).map(value).flat_map(f32::to_le_bytes).collect()
    };
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = shapes()
        .into_iter()
        .map(|(name, shape)| {
            let bytes = values(&name, &shape);
            (name, shape, bytes)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (name, TensorView::new(Dtype::F32, shape.clone(), bytes).expect("bytes of the shape"))
    });
    safetensors::serialize(views, None).expect("a file")
}

fn shapes() -> Vec<(String, Vec<usize>)> {
    let layer = [
        ("input_layernorm", vec![HIDDEN]),
        ("post_attention_layernorm", vec![HIDDEN]),
        ("self_attn.q_proj", vec![HIDDEN, HIDDEN]),
        ("self_attn.k_proj", vec![KV_WIDTH, HIDDEN]),
        ("self_attn.v_proj", vec![KV_WIDTH, HIDDEN]),
        ("self_attn.o_proj", vec![HIDDEN, HIDDEN]),
        ("mlp.gate_proj", vec![MLP, HIDDEN]),
        ("mlp.up_proj", vec![MLP, HIDDEN]),
        ("mlp.down_proj", vec![HIDDEN, MLP]),
    ];
    let top = [
        ("model.embed_tokens", vec![VOCAB, HIDDEN]),
        ("model.norm", vec![HIDDEN]),
        ("lm_head", vec![VOCAB, HIDDEN]),
    ];
    let named = |prefix: String| move |(name, shape)| (format!("{prefix}{name}.weight"), shape);
    let layers =
        (0..2).flat_map(|index| layer.clone().into_iter().map(named(format!("model.layers.{index}."))));
    top.into_iter().map(named(String::new())).chain(layers).collect()
}

/// Byte-level BPE without merges.
fn tokenizer() -> Value {
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let vocab: Map<String, Value> =
        byte_letters().into_iter().enumerate().map(|(id, letter)| (letter.to_string(), json!(id))).collect();
    json!({
        "version": "1.0", "added_tokens": [], "pre_tokenizer": bytes, "decoder": bytes,
        "model": {"type": "BPE", "vocab": vocab, "merges": [], "fuse_unk": false, "byte_fallback": false}
    })
}

/// The letter that stands for each byte: itself where it prints, else one from U+0100 on.
fn byte_letters() -> Vec<char> {
    let mut spare = 0x100..;
    let letter = |byte: u8| match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
        _ => spare.next().and_then(char::from_u32).expect("a letter"),
    };
    (0..=255).map(letter).collect()
}
