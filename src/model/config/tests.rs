use serde_json::{Value, json};

use super::*;
use crate::model::test_data::{conformance, tiny_config, write_config};

/// The configuration read from the tiny one with some keys set anew; null removes.
fn read_with(changes: Value) -> Result<Config, ModelError> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = tiny_config();
    for (key, value) in changes.as_object().expect("a map") {
        config[key] = value.clone();
    }
    write_config(folder.path(), &config);
    read_directory(folder.path())
}

fn error_with(changes: Value) -> String {
    read_with(changes).expect_err("a bad configuration").to_string()
}

#[test]
fn both_spellings_of_the_rope_give_the_same() {
    let new = json!({"rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", "factor": 2.0}});
    let old = json!({"rope_parameters": null, "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}});
    let rope = read_with(new).expect("the newer spelling").rope;
    assert_eq!(rope, Rope { theta: 5e5, scaling: Scaling::Linear { factor: 2.0 } });
    assert_eq!(read_with(old).expect("the older spelling").rope, rope);
}

#[test]
fn an_unknown_rope_names_itself_and_the_known() {
    let message = error_with(json!({"rope_parameters": {"rope_theta": 1e4, "rope_type": "spiral"}}));
    assert!(message.contains("`rope_parameters.rope_type` is `spiral`"), "{message}");
    assert!(message.contains("one of default, linear, llama3, yarn"), "{message}");
    let untyped = error_with(json!({"rope_parameters": null, "rope_scaling": {"factor": 2.0}}));
    assert!(untyped.contains("`rope_scaling.rope_type` is missing"), "{untyped}");
}

#[test]
fn an_unknown_architecture_or_activation_names_the_known() {
    let message = error_with(json!({"architectures": ["GemmaForCausalLM"]}));
    assert!(message.contains("`architectures` is `GemmaForCausalLM`"), "{message}");
    assert!(message.contains("Qwen3ForCausalLM"), "{message}");
    assert!(error_with(json!({"hidden_act": "gelu"})).contains("`hidden_act` is `gelu`, expected `silu`"));
    assert!(error_with(json!({"quantization_config": {"quant_method": "awq"}})).contains("is `awq`"));
}

#[test]
fn sizes_that_do_not_fit_each_other_are_errors() {
    assert!(
        error_with(json!({"num_attention_heads": 3, "head_dim": 4, "num_key_value_heads": 2}))
            .contains("divisor")
    );
    assert!(error_with(json!({"head_dim": 5})).contains("`head_dim` is 5, expected an even number"));
    assert!(error_with(json!({"num_attention_heads": 3})).contains("a divisor of `hidden_size` 8"));
    assert!(error_with(json!({"hidden_size": 0, "head_dim": 4})).contains("`hidden_size` is 0"));
    assert!(error_with(json!({"num_attention_heads": 0})).contains("`num_attention_heads` is 0"));
    assert!(error_with(json!({"num_hidden_layers": 1u64 << 60})).contains("`num_hidden_layers`"));
    assert!(error_with(json!({"head_dim": 1u64 << 60})).contains("`head_dim`"));
    assert!(error_with(json!({"rms_norm_eps": 0.0})).contains("`rms_norm_eps`"));
}

#[test]
fn a_rope_without_usable_frequencies_is_an_error() {
    for theta in [0.0, -1.0, 1e-300] {
        let message = error_with(json!({"rope_parameters": {"rope_theta": theta, "rope_type": "default"}}));
        assert!(message.contains("`rope_parameters`"), "{theta}: {message}");
    }
}

#[test]
fn a_config_that_does_not_parse_names_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("config.json"), "{\"hidden_size\": 8").expect("a file");
    let message = read_directory(folder.path()).expect_err("cut off").to_string();
    assert!(message.contains("config.json` does not parse: EOF"), "{message}");
    assert!(error_with(json!({"vocab_size": "six"})).contains("invalid type: string \"six\""));
}

#[test]
fn generation_config_decides_which_tokens_end() {
    let folder = tempfile::tempdir().expect("a folder");
    write_config(folder.path(), &tiny_config());
    assert_eq!(read_directory(folder.path()).expect("a config").eos_token_ids, [2, 3]);
    std::fs::write(folder.path().join("generation_config.json"), r#"{"eos_token_id": 5}"#).expect("a file");
    assert_eq!(read_directory(folder.path()).expect("a config").eos_token_ids, [5]);
}

#[test]
fn windows_follow_each_family() {
    let windows = |changes| read_with(changes).map(|config| config.sliding_window);
    assert_eq!(windows(json!({"sliding_window": 4})).expect("Llama has none"), [None]);
    let mistral = |window: Value| json!({"architectures": ["MistralForCausalLM"], "sliding_window": window});
    assert_eq!(windows(mistral(json!(4))).expect("Mistral"), [Some(4)]);
    assert_eq!(windows(mistral(Value::Null)).expect("Mistral without"), [None]);
    assert_eq!(
        windows(json!({"architectures": ["MistralForCausalLM"]})).expect("Mistral's own"),
        [Some(4096)]
    );
    let qwen = |changes: Value| {
        let mut config = json!({
            "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 3, "sliding_window": 4,
            "max_window_layers": 1
        });
        config.as_object_mut().expect("a map").extend(changes.as_object().expect("a map").clone());
        config
    };
    assert_eq!(windows(qwen(json!({}))).expect("not in use"), [None; 3]);
    let used = json!({"use_sliding_window": true});
    assert_eq!(windows(qwen(used)).expect("from layer 1"), [None, Some(4), Some(4)]);
    let types = json!({"use_sliding_window": true,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]});
    assert_eq!(windows(qwen(types)).expect("as listed"), [Some(4), None, Some(4)]);
    let short = json!({"layer_types": ["full_attention"]});
    assert!(
        windows(qwen(short)).expect_err("too short").to_string().contains("`layer_types` is a list of 1")
    );
    let unknown = json!({"layer_types": ["chunked_attention", "full_attention", "full_attention"]});
    assert!(windows(qwen(unknown)).expect_err("unknown").to_string().contains("`chunked_attention`"));
}

#[test]
fn every_conformance_config_gives_its_values() {
    for folder in conformance() {
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let config = read_directory(&folder).expect("a config");
        assert_eq!((config.hidden_size, config.num_hidden_layers, config.vocab_size), (64, 3, 320), "{name}");
        assert_eq!(
            (config.bos_token_id, config.eos_token_ids.as_slice()),
            (Some(1), [2].as_slice()),
            "{name}"
        );
        let shape =
            (config.architecture, config.head_dim, config.num_attention_heads, config.num_key_value_heads);
        use Architecture::{Llama, Mistral, Qwen2, Qwen3};
        let (expected, theta, tied) = match name.as_str() {
            "llama-head80" => ((Llama, 80, 2, 1), 1e4, false),
            "llama-linear" => ((Llama, 16, 4, 4), 2e4, false),
            "llama-sharded-bf16" => ((Llama, 16, 4, 2), 1e4, false),
            "llama-tied" => ((Llama, 16, 4, 2), 1e4, true),
            "llama3-rope" => ((Llama, 16, 4, 2), 5e5, false),
            "mistral-window" => ((Mistral, 24, 4, 2), 1e4, false),
            "qwen2-key-bias" => ((Qwen2, 16, 4, 2), 1e6, false),
            "qwen2-yarn-two" => ((Qwen2, 16, 4, 2), 1e6, true),
            "qwen3-qk-norm" => ((Qwen3, 32, 4, 2), 1e6, false),
            _ => continue,
        };
        assert_eq!((shape, config.tie_word_embeddings), (expected, tied), "{name}");
        assert!((config.rope.theta - theta).abs() < 1e-9, "{name}");
        let window = (name == "mistral-window").then_some(48);
        assert_eq!(config.sliding_window, [window; 3], "{name}");
        check_scaling(&name, &config.rope.scaling);
    }
}

fn check_scaling(name: &str, scaling: &Scaling) {
    let expected = match name {
        "llama-linear" => Scaling::Linear { factor: 4.0 },
        "llama3-rope" => Scaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 64,
        },
        "qwen2-yarn-two" => Scaling::Yarn {
            factor: 2.0,
            original_max_position_embeddings: 128,
            beta_fast: 32.0,
            beta_slow: 1.0,
            truncate: true,
            attention_factor: 0.1 * 2f64.ln() + 1.0,
        },
        _ => Scaling::Default,
    };
    assert_eq!(*scaling, expected, "{name}");
}
