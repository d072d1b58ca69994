//! A small GGUF model, written with the same library that dequantizes.

use std::path::PathBuf;

use rlx_gguf::{GgmlType, GgufWriter, MetaValue, quantize};

/// Metadata of a Llama with one layer, two heads of 32 channels and four tokens.
pub(crate) fn writer() -> GgufWriter {
    let mut writer = GgufWriter::new();
    writer.set_arch("llama");
    for (key, value) in [
        ("block_count", 1),
        ("context_length", 64),
        ("embedding_length", 256),
        ("feed_forward_length", 256),
        ("attention.head_count", 8),
        ("attention.head_count_kv", 8),
    ] {
        writer.set_meta(format!("llama.{key}"), MetaValue::U32(value));
    }
    writer.set_meta("llama.attention.layer_norm_rms_epsilon", MetaValue::F32(1e-5));
    writer.set_meta("tokenizer.ggml.eos_token_id", MetaValue::U32(2));
    writer
}

/// Adds a tensor; `shape` is outermost dimension first.
pub(crate) fn add(writer: &mut GgufWriter, name: &str, shape: &[usize], dtype: GgmlType, values: &[f32]) {
    let shape = shape.iter().rev().copied().collect();
    writer.add_tensor_bytes(name, shape, dtype, quantize(values, dtype).expect("coded")).expect("added");
}

/// A ramp over −1..1 in every row.
pub(crate) fn ramp(rows: usize) -> Vec<f32> {
    (0..rows * 256).map(|i| (i % 256) as f32 / 128.0 - 1.0).collect()
}

/// Adds all tensors, the matrices in one format.
pub(crate) fn add_model(writer: &mut GgufWriter, dtype: GgmlType) {
    add(writer, "token_embd.weight", &[4, 256], dtype, &ramp(4));
    add(writer, "output_norm.weight", &[256], GgmlType::F32, &ramp(1));
    for norm in ["attn_norm", "ffn_norm"] {
        add(writer, &format!("blk.0.{norm}.weight"), &[256], GgmlType::F32, &ramp(1));
    }
    for module in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"] {
        add(writer, &format!("blk.0.{module}.weight"), &[256, 256], dtype, &ramp(256));
    }
}

/// Writes `model.gguf` in a folder of its own.
pub(crate) fn write(writer: &GgufWriter) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    writer.write_to_path(&path).expect("a file");
    (folder, path)
}
