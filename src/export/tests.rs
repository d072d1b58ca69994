use super::*;
use crate::precision::PrecisionMap;
use crate::quant::KeyBias;
use crate::report::{PrecisionFile, parse_map};

fn map(text: &str) -> PrecisionMap {
    parse_map(text).expect("a map")
}

fn text(engine: Engine, of: &str) -> String {
    engine.export(&map(of), &Scheme::kivi()).expect("an export").text
}

fn given(engine: Engine, of: &str) -> String {
    let export = engine.export(&map(of), &Scheme::kivi()).expect("an export");
    export.approximation.map_or(String::from("exact"), |map| map.to_string())
}

const MIXED: &str = "0-1 KV8, 2-4 K8V4, 5-29 KV2";

#[test]
fn an_engine_is_found_by_its_name_and_another_one_answered_with_the_list() {
    for engine in Engine::ALL {
        assert_eq!(engine.name().parse(), Ok(engine));
    }
    let error = "ollama".parse::<Engine>().expect_err("no such engine").to_string();
    assert!(
        error.starts_with("`ollama` is not an engine, expected one of kvtuner, hf, llama.cpp, ik-llama,"),
        "{error}"
    );
}

#[test]
fn kvtuner_reads_integer_keys_and_nothing_else() {
    let text = text(Engine::Kvtuner, MIXED);
    let read = PrecisionFile::parse("p.yaml".as_ref(), &text).expect("a map");
    assert_eq!((read.map, read.provenance), (map(MIXED), None));
    assert!(
        text.starts_with("# FlexibleQuantizedCacheConfig(nbits_key=-1,") && text.contains("axis_key=1"),
        "{text}"
    );
    let error = Engine::Kvtuner.export(&map("0 KV4, 1 K5V4"), &Scheme::kivi()).expect_err("5 bits");
    assert_eq!(
        error.to_string(),
        "`kvtuner` cannot say K5V4 of layer 1, expected widths of 1, 2, 3, 4 or 8 bits"
    );
}

#[test]
fn a_stamp_names_the_model_and_stays_one_line() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("results/smollm2-135m/kivi/precision.yaml");
    let mut origin = PrecisionFile::read(&path).expect("a map").provenance.expect("ours");
    origin.model.id = String::from("a\nb");
    let stamped = Engine::Kvtuner.stamp("0: 1\n", &origin);
    assert!(stamped.starts_with("# kvtune 0.1.0, format 1, model a\\nb (sha256 b179c9523d0e"), "{stamped}");
    assert!(stamped.ends_with("), seed 0\n0: 1\n") && stamped.lines().count() == 2, "{stamped}");
    assert_eq!(Engine::LlamaCpp.stamp("--flag\n", &origin), "--flag\n");
}

#[test]
fn the_cache_class_holds_map_and_scheme() {
    let text = text(Engine::Hf, "0 K8V4, 1 KV16");
    assert!(text.contains("\nPAIRS = [(8, 4), (16, 16)]\n"), "{text}");
    assert!(text.contains(
        "\nSCHEME = {\"hadamard\":False,\"key\":{\"axis\":\"channel\",\"group\":32,\"residual\":32}"
    ));
    assert!(text.contains("SPDX-License-Identifier: Apache-2.0 OR MIT"));
    let per_token = Engine::Hf.export(&map("0 KV4"), &Scheme::per_token_asym()).expect("an export").text;
    assert!(per_token.contains("\"group\":None"), "{per_token}");
    let scheme = Scheme { key_bias: KeyBias::Subtract, ..Scheme::kivi() };
    let error = Engine::Hf.export(&map("0 KV4"), &scheme).expect_err("no bias there");
    assert_eq!(error.to_string(), "`hf` has no `key_bias: subtract`");
}

#[test]
fn one_setting_for_all_layers_is_the_nearest() {
    let cases = [
        (Engine::LlamaCpp, "--cache-type-k q4_0 --cache-type-v q4_0 --flash-attn on\n", "0-29 KV4"),
        (Engine::Sglang, "--kv-cache-dtype fp4_e2m1\n", "0-29 KV4"),
        (Engine::Lmdeploy, "--quant-policy 42\n", "0-29 K4V2"),
        (Engine::Mlx, "--kv-bits 2 --kv-group-size 64 --quantized-kv-start 0\n", "0-29 KV2"),
        (Engine::Exllamav3, "-cq 2,2\n", "0-29 KV2"),
        (Engine::Vllm, "--kv-cache-dtype turboquant_3bit_nc\n", "0-29 KV3"),
    ];
    for (engine, expected, widths) in cases {
        assert_eq!(text(engine, MIXED), expected);
        assert_eq!(given(engine, MIXED), widths, "{engine}");
    }
    for engine in
        [Engine::LlamaCpp, Engine::Sglang, Engine::Lmdeploy, Engine::Mlx, Engine::Exllamav3, Engine::Vllm]
    {
        assert_eq!(given(engine, "0-29 KV8"), "exact", "{engine}");
    }
}

#[test]
fn a_missing_bit_costs_twice_a_spare_one() {
    // Five layers of 8 and nine of 4: eight bits spare 36, four miss 20, which count 40.
    assert_eq!(given(Engine::Sglang, "0-4 KV8, 5-13 KV4"), "0-13 KV8");
    assert_eq!(given(Engine::Sglang, "0-4 KV8, 5-15 KV4"), "0-15 KV4");
}

#[test]
fn what_is_lost_names_layers_and_widths() {
    let export = Engine::LlamaCpp.export(&map(MIXED), &Scheme::kivi()).expect("an export");
    assert_eq!(
        export.lost[..4],
        [
            "keys of layers 5-29: 2 bits become 4",
            "keys of layers 0-4: 8 bits become 4",
            "values of layers 5-29: 2 bits become 4",
            "values of layers 0-1: 8 bits become 4",
        ]
    );
    assert_eq!(export.lost[4], "2.80 equivalent bits become 4.00");
}

#[test]
fn first_and_last_layers_of_ik_llama_are_the_best_there_are() {
    assert_eq!(
        text(Engine::IkLlama, "0-1 KV8, 2-9 K4V4, 10 K8V4, 11 K16V4"),
        "-ctk q4_0 -ctk-first q8_0,2 -ctk-last f16,1 -ctv q4_0 -ctv-first q8_0,2 -fa on\n"
    );
    assert_eq!(given(Engine::IkLlama, "0-1 KV8, 2-9 K4V4, 10-11 K8V4"), "exact");
    assert_eq!(given(Engine::IkLlama, "0 KV4, 1-5 KV8, 6 KV4"), "exact");
    assert_eq!(given(Engine::IkLlama, "0 KV2"), "0 KV4");
}

#[test]
fn vllm_skips_what_is_not_quantized() {
    let of = "0 KV16, 1-4 KV8, 5 KV16";
    assert_eq!(text(Engine::Vllm, of), "--kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 5\n");
    assert_eq!(given(Engine::Vllm, of), "exact");
    assert_eq!(text(Engine::Vllm, "0-5 KV16"), "--kv-cache-dtype auto\n");
}

#[test]
fn a_layer_map_is_written_only_where_every_layer_can_be_said() {
    let config: serde_json::Value =
        serde_json::from_str(&text(Engine::Modelopt, "0 KV8, 1 KV4")).expect("JSON");
    let of = &config["quantization"];
    assert_eq!(of["kv_cache_quant_algo"], "MIXED_PRECISION");
    assert_eq!(of["kv_cache_quantized_layers"]["model.layers.1.self_attn"]["quant_algo"], "NVFP4");
    let error =
        Engine::Modelopt.export(&map("0 KV8, 1 K8V4, 2 KV2"), &Scheme::kivi()).expect_err("K8V4").to_string();
    assert_eq!(
        error,
        "`modelopt` cannot say this map, expected KV8 (FP8) or KV4 (NVFP4) in every layer: 1 K8V4, 2 KV2"
    );
}

#[test]
fn tensorrt_takes_ranges() {
    assert_eq!(text(Engine::TensorrtLlm, MIXED), "kv_cache_config:\n  dtype: \"0-4:fp8,5-29:nvfp4\"\n");
    assert_eq!(text(Engine::TensorrtLlm, "0-3 KV8"), "kv_cache_config:\n  dtype: \"fp8\"\n");
}

#[test]
fn a_map_of_one_layer_and_of_many_goes_everywhere() {
    for layers in [1, 200] {
        for engine in Engine::ALL {
            let map = PrecisionMap::uniform(layers, "KV4".parse().expect("a pair"));
            assert!(!engine.export(&map, &Scheme::per_token_asym()).expect("an export").text.is_empty());
        }
    }
}
