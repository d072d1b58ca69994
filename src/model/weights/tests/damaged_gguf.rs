//! GGUF files: what quantized tensors give, and files that lie.

use std::fs;

use rlx_gguf::{GgmlType, GgufWriter, MetaValue};

use super::super::*;
use super::read_all;
use crate::model::config::{Architecture, Rope, Scaling};
use crate::model::test_data::gguf::{add, add_model, ramp, write, writer};

fn error_of(writer: &GgufWriter) -> String {
    let (_folder, path) = write(writer);
    let opened = Checkpoint::open(&path).and_then(|checkpoint| read_all(&checkpoint));
    opened.expect_err("a damaged file").to_string()
}

/// A whole file changed byte by byte.
fn with_bytes(edit: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut writer = writer();
    add_model(&mut writer, GgmlType::Q8_0);
    let (_folder, path) = write(&writer);
    let mut bytes = fs::read(&path).expect("bytes");
    edit(&mut bytes);
    fs::write(&path, bytes).expect("a file");
    let opened = Checkpoint::open(&path).and_then(|checkpoint| read_all(&checkpoint));
    opened.expect_err("a damaged file").to_string()
}

#[test]
fn every_format_gives_its_weights_within_half_a_step() {
    // Steps of each format over a range of 2, with room for its coarser scales.
    for (dtype, tolerance) in [
        (GgmlType::F32, 0.0),
        (GgmlType::F16, 0.001),
        (GgmlType::BF16, 0.004),
        (GgmlType::Q8_0, 0.005),
        (GgmlType::Q8K, 0.01),
        (GgmlType::Q6K, 0.04),
        (GgmlType::Q5_0, 0.07),
        (GgmlType::Q5_1, 0.04),
        (GgmlType::Q5K, 0.04),
        (GgmlType::Q4_0, 0.15),
        (GgmlType::Q4_1, 0.08),
        (GgmlType::Q4K, 0.08),
        (GgmlType::Q3K, 0.3),
        (GgmlType::Q2K, 0.4),
    ] {
        let mut writer = writer();
        add_model(&mut writer, dtype);
        let (_folder, path) = write(&writer);
        let checkpoint = Checkpoint::open(&path).expect("a model");
        let found = checkpoint.tensor("model.layers.0.mlp.up_proj.weight", &[256, 256]).expect("a tensor");
        let worst = found.iter().zip(ramp(256)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= tolerance, "{dtype}: {worst}");
        // Half the spread itself would pass nothing but a real decoding.
        assert!(found.iter().any(|&w| w > 0.6) && found.iter().any(|&w| w < -0.6), "{dtype}");
    }
}

#[test]
fn metadata_gives_the_configuration() {
    let mut writer = writer();
    writer.set_meta("llama.rope.freq_base", MetaValue::F32(5e5));
    add_model(&mut writer, GgmlType::F16);
    let (_folder, path) = write(&writer);
    let config = Checkpoint::open(&path).expect("a model").config().clone();
    assert_eq!(config.architecture, Architecture::Llama);
    assert_eq!((config.vocab_size, config.head_dim, config.num_key_value_heads), (4, 32, 8));
    assert_eq!(config.rope, Rope { theta: 5e5, scaling: Scaling::Default });
    assert!(config.tie_word_embeddings, "there is no output.weight");
    assert_eq!((config.bos_token_id, config.eos_token_ids), (None, vec![2]));
}

#[test]
fn rope_factors_and_scalings_are_read() {
    let scaling = |edit: &dyn Fn(&mut GgufWriter)| {
        let mut writer = writer();
        edit(&mut writer);
        add_model(&mut writer, GgmlType::F16);
        let (_folder, path) = write(&writer);
        Checkpoint::open(&path).map(|checkpoint| checkpoint.config().rope.scaling.clone())
    };
    let factors = scaling(&|writer| add(writer, "rope_freqs.weight", &[16], GgmlType::F32, &[2.0; 16]));
    assert_eq!(factors.expect("factors"), Scaling::Factors(vec![2.0; 16]));
    let kind = |kind: &str, writer: &mut GgufWriter| {
        writer.set_meta("llama.rope.scaling.type", MetaValue::String(kind.into()));
        writer.set_meta("llama.rope.scaling.factor", MetaValue::F32(4.0));
    };
    assert_eq!(scaling(&|w| kind("linear", w)).expect("linear"), Scaling::Linear { factor: 4.0 });
    let unknown = scaling(&|w| kind("longrope", w)).expect_err("unknown").to_string();
    assert!(unknown.contains("`llama.rope.scaling.type` is `longrope`, expected one of none, linear, yarn"));
    let short = scaling(&|writer| add(writer, "rope_freqs.weight", &[8], GgmlType::F32, &[2.0; 8]));
    assert!(short.expect_err("too few").to_string().contains("has shape [8], expected [16]"));
}

#[test]
fn a_projection_of_llama_gets_its_rows_back_and_one_of_qwen_keeps_them() {
    for (architecture, second_row) in [("llama", 2.0), ("qwen2", 1.0)] {
        let mut writer = writer();
        for key in ["block_count", "context_length", "embedding_length", "feed_forward_length"] {
            let value = if key == "block_count" { 1 } else { 256 };
            writer.set_meta(format!("qwen2.{key}"), MetaValue::U32(value));
        }
        writer.set_meta("qwen2.attention.head_count", MetaValue::U32(8));
        writer.set_arch(architecture);
        add_model(&mut writer, GgmlType::F32);
        let rows: Vec<f32> = (0..256).map(|row| row as f32).collect();
        add(&mut writer, "blk.0.attn_q.bias", &[256], GgmlType::F32, &rows);
        let (_folder, path) = write(&writer);
        let checkpoint = Checkpoint::open(&path).expect("a model");
        let bias = checkpoint.tensor("model.layers.0.self_attn.q_proj.bias", &[256]).expect("a bias");
        assert_eq!(bias[..2], [0.0, second_row], "{architecture}");
    }
}

#[test]
fn counts_beyond_the_file_are_refused_before_anything_is_allocated() {
    for count in [u64::MAX, 1 << 40, 1 << 20] {
        let tensors = with_bytes(|bytes| bytes[8..16].copy_from_slice(&count.to_le_bytes()));
        assert!(tensors.contains(&format!("`tensor_count` is {count}, expected at most")));
        let keys = with_bytes(|bytes| bytes[16..24].copy_from_slice(&count.to_le_bytes()));
        assert!(keys.contains(&format!("`metadata_kv_count` is {count}, expected at most")));
    }
    // One more than there are: the next bytes are padding, no entry.
    let one_more = with_bytes(|bytes| bytes[8] += 1);
    assert!(one_more.contains("model.gguf`"), "{one_more}");
}

#[test]
fn a_string_or_list_longer_than_the_file_is_refused() {
    let message = with_bytes(|bytes| bytes[24..32].copy_from_slice(&u64::MAX.to_le_bytes()));
    assert!(message.contains("`metadata key` is 18446744073709551615"), "{message}");
}

#[test]
fn another_magic_version_or_alignment_is_refused() {
    assert!(with_bytes(|bytes| bytes[0] = b'X').contains("begins with [88, 71, 85, 70]"));
    assert!(
        with_bytes(|bytes| bytes[4] = 9).contains("has version 9, expected a GGUF file of version 2 or 3")
    );
    assert!(with_bytes(|bytes| bytes.truncate(6)).contains("ends inside its header, at `version`"));
    for alignment in [0, 3, 1 << 31] {
        let mut writer = writer();
        writer.set_meta("general.alignment", MetaValue::U32(alignment));
        add_model(&mut writer, GgmlType::F16);
        let (_folder, path) = write(&writer);
        let message = Checkpoint::open(&path).expect_err("no alignment").to_string();
        assert!(message.contains(&format!("`general.alignment` is {alignment}")), "{message}");
    }
}

#[test]
fn a_file_cut_off_anywhere_is_an_error_and_no_panic() {
    let mut writer = writer();
    add_model(&mut writer, GgmlType::Q8_0);
    let (_folder, path) = write(&writer);
    let whole = fs::read(&path).expect("bytes");
    let header = 1600;
    for length in (1..header).step_by(7).chain([whole.len() - 1]) {
        fs::write(&path, &whole[..length]).expect("a file");
        let error = Checkpoint::open(&path).expect_err("cut off").to_string();
        assert!(error.contains("model.gguf`"), "{length}: {error}");
    }
}

#[test]
fn any_byte_of_the_header_may_be_wrong_without_a_panic() {
    let mut writer = writer();
    add_model(&mut writer, GgmlType::Q8_0);
    let (_folder, path) = write(&writer);
    let whole = fs::read(&path).expect("bytes");
    for at in 0..1600 {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        fs::write(&path, bytes).expect("a file");
        // Some changes only rename a key: what counts is that none brings the program down.
        let _opened = Checkpoint::open(&path).and_then(|checkpoint| read_all(&checkpoint));
    }
}

#[test]
fn what_has_no_place_is_named_as_the_file_names_it() {
    let with = |edit: &dyn Fn(&mut GgufWriter)| {
        let mut writer = writer();
        add_model(&mut writer, GgmlType::F16);
        edit(&mut writer);
        error_of(&writer)
    };
    let sinks = with(&|w| add(w, "blk.0.attn_sinks.weight", &[8], GgmlType::F32, &[0.0; 8]));
    assert!(sinks.contains("tensor `blk.0.attn_sinks.weight` has no place in a Llama model"), "{sinks}");
    let twice = with(&|w| add(w, "output_norm.weight", &[256], GgmlType::F32, &ramp(1)));
    assert!(twice.contains("tensor `output_norm.weight` stands twice"), "{twice}");
    let dtype = with(&|w| add(w, "blk.0.ffn_up.bias", &[256], GgmlType::IQ4NL, &ramp(1)));
    assert!(dtype.contains("tensor `blk.0.ffn_up.bias` is stored as IQ4_NL"), "{dtype}");
    let nan = with(&|w| add(w, "blk.0.ffn_up.bias", &[256], GgmlType::F32, &[f32::NAN; 256]));
    assert!(nan.contains("tensor `blk.0.ffn_up.bias` holds NaN at element 0"), "{nan}");
    let shape = with(&|w| add(w, "blk.0.ffn_up.bias", &[128], GgmlType::F32, &[0.0; 128]));
    assert!(shape.contains("has shape [128], expected [256]"), "{shape}");
}

#[test]
fn metadata_that_is_unknown_missing_or_split_is_named() {
    let with = |key: &str, value: MetaValue| {
        let mut writer = writer();
        writer.set_meta(key, value);
        add_model(&mut writer, GgmlType::F16);
        error_of(&writer)
    };
    let unknown = with("general.architecture", MetaValue::String("gemma3".into()));
    assert!(unknown.contains("`general.architecture` is `gemma3`, expected one of"), "{unknown}");
    let split = with("split.count", MetaValue::U16(3));
    assert!(split.contains("`split.count` is 3, expected 1"), "{split}");
    let typed = with("llama.block_count", MetaValue::String("one".into()));
    assert!(typed.contains("`llama.block_count` is `one`, expected a number"), "{typed}");
    let partial = with("llama.rope.dimension_count", MetaValue::U32(16));
    assert!(partial.contains("`llama.rope.dimension_count` is 16"), "{partial}");
    let tensors = with("llama.block_count", MetaValue::U32(2));
    assert!(tensors.contains("tensor `blk.1.attn_norm.weight` is missing"), "{tensors}");
}
