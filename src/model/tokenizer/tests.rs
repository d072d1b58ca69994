use super::*;
use crate::model::test_data::{golden, real_model};

#[test]
fn every_reference_case_gives_its_ids_and_its_text_back() {
    for model in ["smollm2", "qwen2.5-coder-0.5b"] {
        let file = if model == "smollm2" { "smollm2-135m" } else { model };
        let (Some(path), Some(golden)) = (real_model(file), golden(&format!("tokenizer-{model}.json")))
        else {
            continue;
        };
        let tokenizer = Tokenizer::load(&Checkpoint::open(&path).expect("a model")).expect("a tokenizer");
        let cases = golden["cases"].as_array().expect("cases");
        assert!(!cases.is_empty());
        for case in cases {
            let text = case["text"].as_str().expect("a text");
            let ids = tokenizer.encode(text).expect("ids");
            assert_eq!(serde_json::json!(ids), case["ids"], "{model}: {text:?}");
            assert_eq!(tokenizer.decode_with_special(&ids).expect("text"), text, "{model}");
        }
    }
}

#[test]
fn bos_stands_once_and_only_where_the_policy_wants_it() {
    let Some(path) = real_model("smollm2-135m") else { return };
    let tokenizer = Tokenizer::load(&Checkpoint::open(&path).expect("a model")).expect("a tokenizer");
    let ids = |text, policy| tokenizer.encode_from_start(text, policy).expect("ids");
    let plain = tokenizer.encode("Hello").expect("ids");
    assert_eq!(ids("Hello", BosPolicy::Auto), plain, "the file says add_bos_token false");
    assert_eq!(ids("Hello", BosPolicy::Never), plain);
    assert_eq!(ids("Hello", BosPolicy::Always), [&[1], plain.as_slice()].concat());
    assert_eq!(ids("<|im_start|>Hello", BosPolicy::Always), [&[1], plain.as_slice()].concat());
}
