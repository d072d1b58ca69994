//! Where tests find models, and small models that they write themselves.

pub(crate) mod gguf;

use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use serde_json::{Value, json};

/// Folders of the conformance models: `$KVTUNE_CONFORMANCE`, else beside the repository; none for most users.
pub(crate) fn conformance() -> Vec<PathBuf> {
    let root = std::env::var_os("KVTUNE_CONFORMANCE").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/conformance")),
        PathBuf::from,
    );
    let folders = std::fs::read_dir(&root).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = folders.filter(|path| path.join("config.json").is_file()).collect();
    folders.sort();
    if folders.is_empty() {
        skip(&format!("no conformance models in {}", root.display()));
    }
    folders
}

/// A file of reference values beside the repository.
pub(crate) fn golden(name: &str) -> Option<Value> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/golden")).join(name);
    let Ok(bytes) = std::fs::read(&path) else {
        skip(&format!("no reference values {}", path.display()));
        return None;
    };
    Some(serde_json::from_slice(&bytes).expect("reference values in JSON"))
}

/// A real model: in `$KVTUNE_TEST_MODELS`, else in the user's cache.
pub(crate) fn real_model(name: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/kvtune"));
    let folder = std::env::var_os("KVTUNE_TEST_MODELS").map(PathBuf::from).or(cache)?;
    let path = folder.join(format!("{name}.gguf"));
    if path.is_file() {
        return Some(path);
    }
    skip(&format!("{} is not there: scripts/fetch-test-models.sh fetches it", path.display()));
    None
}

#[expect(clippy::print_stderr, reason = "a test that could not run must say so")]
fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// `config.json` of a Llama with one layer, two heads of four channels and six tokens.
pub(crate) fn tiny_config() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "intermediate_size": 12,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 6,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 32, "hidden_act": "silu",
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "bos_token_id": 1, "eos_token_id": [2, 3]
    })
}

/// A tensor of a file to be written: name, shape, f32 values.
pub(crate) type Tensor = (String, Vec<usize>, Vec<f32>);

/// All tensors of the tiny Llama, filled by a counter.
pub(crate) fn tiny_tensors() -> Vec<Tensor> {
    let layer = [
        ("input_layernorm", vec![8]),
        ("post_attention_layernorm", vec![8]),
        ("self_attn.q_proj", vec![8, 8]),
        ("self_attn.k_proj", vec![4, 8]),
        ("self_attn.v_proj", vec![4, 8]),
        ("self_attn.o_proj", vec![8, 8]),
        ("mlp.gate_proj", vec![12, 8]),
        ("mlp.up_proj", vec![12, 8]),
        ("mlp.down_proj", vec![8, 12]),
    ];
    let top = [("model.embed_tokens", vec![6, 8]), ("model.norm", vec![8]), ("lm_head", vec![6, 8])];
    let in_layer = layer.into_iter().map(|(module, shape)| (format!("model.layers.0.{module}"), shape));
    let all = in_layer.chain(top.into_iter().map(|(module, shape)| (module.to_owned(), shape)));
    all.map(|(module, shape)| {
        let values = (0..shape.iter().product()).map(|i: usize| i as f32 / 64.0).collect();
        (format!("{module}.weight"), shape, values)
    })
    .collect()
}

/// Writes `config.json` alone.
pub(crate) fn write_config(folder: &Path, config: &Value) {
    std::fs::write(folder.join("config.json"), config.to_string()).expect("a config file");
}

/// Writes one safetensors file.
pub(crate) fn write_safetensors(path: &Path, tensors: &[Tensor]) {
    let little_endian = |values: &Vec<f32>| values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let bytes: Vec<Vec<u8>> = tensors.iter().map(|(.., values)| little_endian(values)).collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
        (name, TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes).expect("a view"))
    });
    std::fs::write(path, safetensors::serialize(views, None).expect("a header")).expect("a file");
}

/// Writes the tiny Llama in Hugging Face layout, its tensors changed by `edit`.
pub(crate) fn tiny_directory(edit: impl FnOnce(&mut Vec<Tensor>)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut tensors = tiny_tensors();
    edit(&mut tensors);
    write_config(folder.path(), &tiny_config());
    write_safetensors(&folder.path().join("model.safetensors"), &tensors);
    folder
}
