//! Files that lie, in every way we could think of: each is one error that names file and key.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::*;
use super::read_all;
use crate::model::test_data::{
    Tensor, tiny_config, tiny_directory, tiny_tensors, write_config, write_safetensors,
};

/// What opening the model and reading all of it says.
fn error_of(folder: &Path) -> String {
    let opened = Checkpoint::open(folder).and_then(|checkpoint| read_all(&checkpoint));
    opened.expect_err("a damaged model").to_string()
}

fn edited(edit: impl FnOnce(&mut Vec<Tensor>)) -> String {
    error_of(tiny_directory(edit).path())
}

/// A whole model whose weight file is changed byte by byte.
fn with_bytes(edit: impl FnOnce(&mut Vec<u8>)) -> String {
    let folder = tiny_directory(|_| ());
    let path = folder.path().join("model.safetensors");
    let mut bytes = fs::read(&path).expect("bytes");
    edit(&mut bytes);
    fs::write(&path, bytes).expect("a file");
    error_of(folder.path())
}

/// A whole model whose header text is changed; its length follows.
fn with_header(edit: impl FnOnce(String) -> String) -> String {
    with_bytes(|bytes| {
        let length = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
        let header = edit(String::from_utf8(bytes[8..8 + length].to_vec()).expect("text"));
        let data = bytes.split_off(8 + length);
        *bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.into_bytes());
        bytes.extend(data);
    })
}

#[test]
fn an_undamaged_model_gives_its_values() {
    let folder = tiny_directory(|_| ());
    let checkpoint = Checkpoint::open(folder.path()).expect("a model");
    let norm = checkpoint.tensor("model.norm.weight", &[8]).expect("a norm");
    assert_eq!(norm, [0.0, 0.015625, 0.03125, 0.046875, 0.0625, 0.078125, 0.09375, 0.109375]);
    let absent = checkpoint.optional_tensor("model.layers.0.self_attn.q_proj.bias", &[8]);
    assert_eq!(absent.expect("no error"), None);
}

#[test]
fn a_header_longer_than_the_file_is_refused() {
    for length in [u64::MAX, 1 << 62, 99_000_000, 5_000] {
        let message = with_bytes(|bytes| bytes[..8].copy_from_slice(&length.to_le_bytes()));
        assert!(
            message.contains("model.safetensors` of ") && message.contains("header"),
            "{length}: {message}"
        );
    }
}

#[test]
fn a_file_cut_off_or_grown_is_refused() {
    let cut = with_bytes(|bytes| bytes.truncate(bytes.len() - 1));
    assert!(cut.contains("a safetensors file whose header covers it exactly"), "{cut}");
    let grown = with_bytes(|bytes| bytes.push(0));
    assert!(grown.contains("a safetensors file whose header covers it exactly"), "{grown}");
    let short = with_bytes(|bytes| bytes.truncate(3));
    assert!(short.contains("of 3 bytes"), "{short}");
    assert!(with_bytes(Vec::clear).contains("the file is empty"));
}

#[test]
fn a_header_that_is_no_json_or_repeats_a_name_is_refused() {
    assert!(with_header(|_| "{".into()).contains("invalid JSON"));
    let repeated = with_header(|header| {
        let entry = r#"{"dtype":"F32","shape":[8],"data_offsets":[0,32]}"#;
        header.replacen('{', &format!("{{\"lm_head.weight\":{entry},"), 1)
    });
    assert!(repeated.contains("model.safetensors`"), "{repeated}");
}

#[test]
fn a_name_twice_with_the_same_bytes_is_refused() {
    let repeated = with_header(|header| {
        let start = header.find("\"model.norm.weight\"").expect("the norm");
        let end = start + header[start..].find('}').expect("its end") + 1;
        let entry = header[start..end].to_owned();
        header.replacen('{', &format!("{{{entry},"), 1)
    });
    assert!(repeated.contains("key `model.norm.weight` twice"), "{repeated}");
}

#[test]
fn offsets_that_overlap_or_overflow_are_refused() {
    let replaced = |from: &'static str, to: &'static str| with_header(|header| header.replacen(from, to, 1));
    assert!(replaced("\"data_offsets\":[0,", "\"data_offsets\":[4,").contains("model.safetensors`"));
    assert!(replaced("\"shape\":[6,8]", "\"shape\":[6,9223372036854775807]").contains("overflow"));
}

#[test]
fn a_weight_that_is_not_finite_is_named_with_its_place() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let message = edited(|tensors| tensors[2].2[5] = bad);
        let expected = format!("tensor `model.layers.0.self_attn.q_proj.weight` holds {bad} at element 5");
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn a_missing_tensor_and_a_wrong_shape_are_named() {
    let missing = edited(|tensors| tensors.retain(|(name, ..)| name != "model.norm.weight"));
    assert!(missing.contains("tensor `model.norm.weight` is missing"), "{missing}");
    let turned = edited(|tensors| tensors[8].1 = vec![12, 8]);
    assert!(turned.contains("down_proj.weight` has shape [12, 8], expected [8, 12]"), "{turned}");
}

#[test]
fn a_tensor_that_we_would_leave_out_is_refused() {
    for name in [
        "model.layers.0.self_attn.sinks",
        "model.layers.0.self_attn.q_norm.weight",
        "model.layers.0.mlp.experts.0.up_proj.weight",
        "score.weight",
    ] {
        let message = edited(|tensors| tensors.push((name.into(), vec![1], vec![1.0])));
        assert!(message.contains(&format!("tensor `{name}` has no place in a Llama model")), "{message}");
    }
    let name = "model.layers.1.self_attn.q_proj.weight";
    let message = edited(|tensors| tensors.push((name.into(), vec![1], vec![1.0])));
    assert!(message.contains("has no place in a model of 1 layers"), "{message}");
}

#[test]
fn a_table_of_rotary_frequencies_may_be_there() {
    let name = "model.layers.0.self_attn.rotary_emb.inv_freq".to_owned();
    let folder = tiny_directory(|tensors| tensors.push((name, vec![2], vec![1.0, 0.01])));
    Checkpoint::open(folder.path()).expect("an older file");
}

#[test]
fn integers_are_no_weights() {
    let message = with_header(|header| header.replace("\"F32\"", "\"I32\""));
    assert!(message.contains("is stored as I32, expected F32, F16, BF16"), "{message}");
}

/// The tiny model in two shards, and its index with `changes`.
fn shards(change: impl FnOnce(&mut serde_json::Value)) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    write_config(folder.path(), &tiny_config());
    let tensors = tiny_tensors();
    let mut map = serde_json::Map::new();
    for (number, part) in [(1, &tensors[..6]), (2, &tensors[6..])] {
        let file = format!("model-0000{number}-of-00002.safetensors");
        write_safetensors(&folder.path().join(&file), part);
        map.extend(part.iter().map(|(name, ..)| (name.clone(), file.clone().into())));
    }
    let mut index = serde_json::json!({"metadata": {}, "weight_map": map});
    change(&mut index);
    fs::write(folder.path().join("model.safetensors.index.json"), index.to_string()).expect("an index");
    let path = folder.path().to_path_buf();
    (folder, path)
}

#[test]
fn shards_read_as_one_and_their_fingerprint_sees_each() {
    let (_folder, path) = shards(|_| ());
    let checkpoint = Checkpoint::open(&path).expect("a model");
    assert_eq!(read_all(&checkpoint).expect("all tensors"), 600);
    let before = checkpoint.fingerprint().expect("a sum");
    let mut tensors = tiny_tensors().split_off(6);
    tensors[0].2[0] = 2.0;
    write_safetensors(&path.join("model-00002-of-00002.safetensors"), &tensors);
    let after = Checkpoint::open(&path).expect("a model").fingerprint().expect("a sum");
    assert_ne!(before, after);
}

#[test]
fn a_shard_that_is_absent_lacks_a_tensor_or_lies_elsewhere_is_named() {
    let (_folder, path) = shards(|_| ());
    fs::remove_file(path.join("model-00002-of-00002.safetensors")).expect("removed");
    let absent = error_of(&path);
    assert!(
        absent
            .contains("index.json`: `weight_map` is `model-00002-of-00002.safetensors`, which is not there")
    );

    let (_folder, path) = shards(|index| {
        index["weight_map"]["model.extra.weight"] = "model-00001-of-00002.safetensors".into();
    });
    assert!(error_of(&path).contains("00001-of-00002.safetensors`: tensor `model.extra.weight` is missing"));

    let (_folder, path) =
        shards(|index| index["weight_map"]["model.norm.weight"] = "../x.safetensors".into());
    assert!(error_of(&path).contains("`../x.safetensors`"));
}

#[test]
fn a_directory_without_weights_or_configuration_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = Checkpoint::open(folder.path()).expect_err("nothing there");
    assert!(error.to_string().contains("config.json"));
    assert!(error.hint().expect("a hint").contains("kvtune model list"));
    write_config(folder.path(), &tiny_config());
    assert!(error_of(folder.path()).contains("holds no weights, expected `model.safetensors`"));
}
