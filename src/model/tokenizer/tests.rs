use rlx_gguf::{GgmlType, GgufWriter, MetaValue};
use serde_json::{Value, json};

use super::*;
use crate::model::test_data::gguf::{add_model, write, writer};
use crate::model::test_data::{golden, real_model, tiny_directory};

fn real_tokenizer(name: &str) -> Option<Tokenizer> {
    let path = real_model(name)?;
    Some(Tokenizer::load(&Checkpoint::open(&path).expect("a model")).expect("a tokenizer"))
}

#[test]
fn every_reference_case_gives_its_ids_and_its_text_back() {
    for (file, model) in [("smollm2-135m", "smollm2"), ("qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b")] {
        let golden = golden(&format!("tokenizer-{model}.json"));
        let (Some(tokenizer), Some(golden)) = (real_tokenizer(file), golden) else { continue };
        let cases = golden["cases"].as_array().expect("cases");
        assert!(!cases.is_empty());
        for case in cases {
            let text = case["text"].as_str().expect("a text");
            let ids = tokenizer.encode(text).expect("ids");
            assert_eq!(json!(ids), case["ids"], "{model}: {text:?}");
            assert_eq!(tokenizer.decode_with_special(&ids).expect("text"), text, "{model}");
        }
    }
}

#[test]
fn bos_stands_once_and_only_where_the_policy_wants_it() {
    let Some(tokenizer) = real_tokenizer("smollm2-135m") else { return };
    let ids = |text, policy| tokenizer.encode_from_start(text, policy).expect("ids");
    let plain = tokenizer.encode("Hello").expect("ids");
    assert_eq!(ids("Hello", BosPolicy::Auto), plain, "the file says add_bos_token false");
    assert_eq!(ids("Hello", BosPolicy::Never), plain);
    assert_eq!(ids("Hello", BosPolicy::Always), [&[1], plain.as_slice()].concat());
    assert_eq!(ids("<|im_start|>Hello", BosPolicy::Always), [&[1], plain.as_slice()].concat());
    assert_eq!(tokenizer.decode(&[1, 2]).expect("text"), "", "special tokens are left out");
}

#[test]
fn a_vocabulary_saved_as_tokenizer_json_reads_the_same() {
    let (Some(path), Some(golden)) = (real_model("smollm2-135m"), golden("tokenizer-smollm2.json")) else {
        return;
    };
    let checkpoint = Checkpoint::open(&path).expect("a model");
    let from_gguf = Tokenizer::load(&checkpoint).expect("a tokenizer");
    let folder = tempfile::tempdir().expect("a folder");
    from_gguf.inner.save(folder.path().join("tokenizer.json"), false).expect("saved");
    let from_json = Tokenizer::read_directory(folder.path(), checkpoint.config()).expect("a tokenizer");
    for case in golden["cases"].as_array().expect("cases") {
        let text = case["text"].as_str().expect("a text");
        assert_eq!(json!(from_json.encode(text).expect("ids")), case["ids"], "{text:?}");
    }
}

/// Six tokens for the tiny directory: `</s>` is 2, `<s>` 1, and a merge makes `ab`.
fn tokenizer_json() -> Value {
    json!({
        "version": "1.0", "truncation": {"max_length": 2, "strategy": "LongestFirst", "stride": 0,
        "direction": "Right"}, "padding": null, "normalizer": null, "pre_tokenizer": null,
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": null,
        "added_tokens": [
            {"id": 1, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
             "normalized": false, "special": true},
            {"id": 2, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false,
             "normalized": false, "special": true}],
        "model": {"type": "BPE", "vocab": {"c": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4, "ab": 5},
            "merges": [["a", "b"]]}
    })
}

/// The tiny model with this tokenizer and, unless null, this `tokenizer_config.json`.
fn directory(tokenizer: &Value, config: &Value) -> Result<Tokenizer, ModelError> {
    let folder = tiny_directory(|_| ());
    std::fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).expect("a file");
    if !config.is_null() {
        std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).expect("a file");
    }
    Tokenizer::load(&Checkpoint::open(folder.path()).expect("a model"))
}

#[test]
fn the_files_own_template_or_else_its_flag_decides_about_bos() {
    let bos =
        |config: Value| directory(&tokenizer_json(), &config).expect("a tokenizer").bos(BosPolicy::Auto);
    assert_eq!(bos(Value::Null), Some(1), "the template adds it");
    assert_eq!(bos(json!({"bos_token": {"content": "<s>"}, "add_bos_token": false})), None);
    let mut plain = tokenizer_json();
    plain["post_processor"] = Value::Null;
    let flagged =
        directory(&plain, &json!({"bos_token": "<s>", "add_bos_token": true})).expect("a tokenizer");
    assert_eq!(flagged.encode_from_start("ab", BosPolicy::Auto).expect("ids"), [1, 5]);
    assert_eq!(directory(&plain, &Value::Null).expect("a tokenizer").bos(BosPolicy::Auto), None);
}

#[test]
fn truncation_left_in_the_file_is_not_applied() {
    let tokenizer = directory(&tokenizer_json(), &Value::Null).expect("a tokenizer");
    assert_eq!(tokenizer.encode("abcab").expect("ids"), [5, 0, 5]);
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    let mut larger = tokenizer_json();
    larger["model"]["vocab"]["d"] = json!(6);
    let message = directory(&larger, &Value::Null).expect_err("seven tokens").to_string();
    assert!(message.contains("`vocabulary` is `d` with id 6, expected ids below the model's 6"), "{message}");
    let mut smaller = tokenizer_json();
    smaller["model"] = json!({"type": "BPE", "vocab": {"c": 0, "<s>": 1, "</s>": 2}, "merges": []});
    let message = directory(&smaller, &Value::Null).expect_err("no end token 3").to_string();
    assert!(message.contains("expected a token with the model's special id 3"), "{message}");
    assert!(
        directory(&json!({"version": "1.0"}), &Value::Null)
            .expect_err("no model")
            .to_string()
            .contains("parse")
    );
}

/// The error that a GGUF vocabulary with changes gives; unchanged it is a good one of four tokens.
fn gguf_error(edit: impl FnOnce(&mut GgufWriter)) -> Option<String> {
    let texts =
        |texts: &[&str]| MetaValue::Array(texts.iter().map(|&text| MetaValue::String(text.into())).collect());
    let mut writer = writer();
    writer.set_meta("tokenizer.ggml.model", MetaValue::String("gpt2".into()));
    writer.set_meta("tokenizer.ggml.pre", MetaValue::String("smollm".into()));
    writer.set_meta("tokenizer.ggml.tokens", texts(&["a", "b", "</s>", "ab"]));
    writer.set_meta("tokenizer.ggml.merges", texts(&["a b"]));
    edit(&mut writer);
    add_model(&mut writer, GgmlType::F16);
    let (_folder, path) = write(&writer);
    let loaded = Tokenizer::load(&Checkpoint::open(&path).expect("a model"));
    loaded.err().map(|error| error.to_string())
}

#[test]
fn a_gguf_vocabulary_that_cannot_be_is_named_by_its_key() {
    assert_eq!(gguf_error(|_| ()), None);
    let wrong =
        |key: &'static str, value: MetaValue| gguf_error(|w| w.set_meta(key, value)).expect("an error");
    let texts =
        |texts: &[&str]| MetaValue::Array(texts.iter().map(|&text| MetaValue::String(text.into())).collect());
    let unknown = wrong("tokenizer.ggml.pre", MetaValue::String("tekken".into()));
    assert!(unknown.contains("`tokenizer.ggml.pre` is `tekken`, expected one of `smollm`"), "{unknown}");
    let sentencepiece = wrong("tokenizer.ggml.model", MetaValue::String("llama".into()));
    assert!(sentencepiece.contains("`tokenizer.ggml.model` is `llama`, expected `gpt2`"), "{sentencepiece}");
    let few = wrong("tokenizer.ggml.tokens", texts(&["a", "b"]));
    assert!(few.contains("is a list of 2, expected one for each of the 4 rows"), "{few}");
    let twice = wrong("tokenizer.ggml.tokens", texts(&["a", "b", "a", "ab"]));
    assert!(twice.contains("a list with `a` at 0 and 2"), "{twice}");
    let merge = wrong("tokenizer.ggml.merges", texts(&["a c"]));
    assert!(merge.contains("`tokenizer.ggml.merges`"), "{merge}");
    let one = wrong("tokenizer.ggml.merges", texts(&["ab"]));
    assert!(one.contains("`ab`, expected two tokens and a space"), "{one}");
}
