//! Against the maps that KVTuner published.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::PrecisionFile;
use crate::precision::{PrecisionMap, PrecisionPair, equivalent_bits};

/// The published configurations, or `None` (and a line on stderr) on a machine that has none.
fn published() -> Option<Value> {
    let root = match std::env::var_os("KVTUNE_GOLDEN") {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden"),
    };
    let Ok(text) = std::fs::read_to_string(root.join("published.json")) else {
        eprintln!("skipped: no published.json (set KVTUNE_GOLDEN)");
        return None;
    };
    Some(serde_json::from_str(&text).expect("JSON"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn number(value: &Value) -> usize {
    value.as_u64().expect("a number") as usize
}

/// The map's file as its authors write it, imported.
fn imported(preset: &Value) -> PrecisionMap {
    let layer = |(layer, pair): (usize, &Value)| {
        format!("{layer}:\n  nbits_key: {}\n  nbits_value: {}\n", pair[0], pair[1])
    };
    let text: String = list(&preset["pairs"]).iter().enumerate().map(layer).collect();
    PrecisionFile::parse(Path::new("published.yaml"), &text).expect("a map").map
}

fn scheme<'a>(published: &'a Value, preset: &Value) -> &'a Value {
    let model = preset["model"].as_str().expect("a name");
    let models = published["models"].as_object().expect("models");
    let (_, entry) = models.iter().find(|(name, _)| name.ends_with(model)).expect("the model's groups");
    &entry["schemes"][preset["scheme"].as_str().expect("a name")]
}

#[test]
fn published_maps_import_and_keep_to_their_groups_candidates_and_bits() {
    let Some(published) = published() else { return };
    let presets = list(&published["presets"]);
    for preset in presets {
        let (map, scheme) = (imported(preset), scheme(&published, preset));
        let what = format!("{} {} {}", preset["model"], preset["scheme"], preset["name"]);
        for group in list(&scheme["groups"]) {
            let pairs: BTreeSet<PrecisionPair> =
                list(group).iter().map(|layer| map.pairs()[number(layer)]).collect();
            assert_eq!(pairs.len(), 1, "{what}: one pair for group {group}");
        }
        for candidates in list(&scheme["candidates"]) {
            for layer in list(&candidates["layers"]) {
                let pair = Value::from(map.pairs()[number(layer)].to_string());
                assert!(list(&candidates["set"]).contains(&pair), "{what}, layer {layer}: {pair}");
            }
        }
        let bits = equivalent_bits(&map, &vec![1; map.n_layers()]).get();
        let expected = preset["equivalent_bits"].as_f64().expect("bits");
        // Published with four decimals.
        assert!((bits - expected).abs() <= 5.1e-5, "{what}: {bits} for {expected}");
    }
    assert_eq!(presets.len(), 32);
}

#[test]
fn a_published_map_that_lacks_or_repeats_a_layer_is_refused() {
    let Some(published) = published() else { return };
    for preset in list(&published["presets"]) {
        let text = PrecisionFile { map: imported(preset), provenance: None }.to_yaml().expect("YAML");
        let lines: Vec<&str> = text.lines().collect();
        let parse = |lines: &[&str]| PrecisionFile::parse(Path::new("p.yaml"), &lines.join("\n"));
        let without = [&lines[..5], &lines[6..]].concat();
        let error = parse(&without).expect_err("layer 5 is missing").to_string();
        assert!(error.starts_with("`p.yaml`: layer 5 is missing"), "{error}");
        let twice = [&lines[..], &lines[5..6]].concat();
        let error = parse(&twice).expect_err("layer 5 is there twice").to_string();
        assert_eq!(error, "`p.yaml`: layer 5 is listed twice, expected once");
    }
}
