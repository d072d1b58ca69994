//! Against the groups that scikit-learn finds on measured errors, and against the published ones.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use linfa::ParamGuard;
use serde_json::Value;

use super::*;
use crate::precision::PrecisionPair;

/// A reference file, or `None` (and a line on stderr) on a machine that has none.
fn reference(name: &str) -> Option<Value> {
    let path = format!("{}/../shared/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: no reference file {name}");
        return None;
    };
    Some(serde_json::from_str(&text).expect("reference files are JSON"))
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().expect("an array")
}

fn pairs(value: &Value) -> Vec<PrecisionPair> {
    let list = value.as_array().expect("an array").iter();
    let mut pairs: Vec<PrecisionPair> =
        list.map(|text| text.as_str().expect("a text").parse().expect("a pair")).collect();
    pairs.sort_by(|a, b| a.mean_bits().total_cmp(&b.mean_bits()).then(a.key.cmp(&b.key)));
    pairs
}

fn layer_ids(value: &Value) -> Vec<LayerId> {
    let list = value.as_array().expect("an array").iter();
    list.map(|layer| LayerId(layer.as_u64().expect("a number") as usize)).collect()
}

/// The layers of a sensitivity file, with the pairs of widths 2, 4 and 8 pruned.
fn measured(file: &Value) -> Vec<LayerErrors> {
    let rows = array(file, "rows").iter();
    let mut by_layer = std::collections::BTreeMap::<u64, Vec<PairError>>::new();
    for row in rows {
        let pair: PrecisionPair = row["pair"].as_str().expect("a text").parse().expect("a pair");
        if [pair.key, pair.value].iter().all(|bits| [2, 4, 8].contains(&bits.get())) {
            let e_o = row["e_o_l1"].as_f64().expect("a number");
            let layer = row["layer"].as_u64().expect("a number");
            by_layer.entry(layer).or_default().push(PairError { pair, e_o });
        }
    }
    let pruned = |(layer, points): (u64, Vec<PairError>)| {
        LayerErrors::pruned(LayerId(layer as usize), &points, PruneParams::default()).expect("errors")
    };
    by_layer.into_iter().map(pruned).collect()
}

#[test]
fn candidate_sets_and_groups_equal_the_reference() {
    let Some(space) = reference("space-smollm2.json") else { return };
    for scheme in ["per-token-asym", "kivi"] {
        let Some(file) = reference(&format!("sensitivity-smollm2-{scheme}.json")) else { return };
        let (layers, expected) = (measured(&file), &space["schemes"][scheme]);
        for (layer, set) in layers.iter().zip(array(expected, "candidates")) {
            assert_eq!(layer.candidates, pairs(set), "{scheme}, {}", layer.layer);
        }
        assert_eq!(layers.len(), array(expected, "candidates").len());
        let params = ClusterParams::default().check().expect("the defaults are valid");
        let groups = cluster(&layers, &params).expect("clusters").groups;
        let golden = array(expected, "groups");
        assert_eq!(groups.len(), golden.len(), "{scheme}");
        for (group, golden) in groups.iter().zip(golden) {
            assert_eq!(group.layers, layer_ids(&golden["layers"]), "{scheme}");
            assert_eq!(group.candidates, pairs(&golden["candidates"]), "{scheme}");
            assert_eq!(group.noise, golden["noise"].as_bool().expect("a bool"), "{scheme}");
        }
    }
}

#[test]
fn published_groupings_that_list_a_layer_twice_are_refused() {
    let Some(published) = reference("published.json") else { return };
    let mut refused = Vec::new();
    for (model, entry) in published["models"].as_object().expect("an object") {
        let n_layers = entry["layers"].as_u64().expect("a number") as usize;
        for (scheme, grouping) in entry["schemes"].as_object().expect("an object") {
            let partition =
                Partition::new(array(grouping, "groups").iter().map(layer_ids).collect(), n_layers);
            assert_eq!(partition.is_ok(), grouping["is_partition"].as_bool().expect("a bool"), "{model}");
            refused.extend(partition.err().map(|error| format!("{model} {scheme}: {error}")));
        }
    }
    let twice = "is listed twice in the groups of layers, expected once";
    let expected = [
        format!("Qwen2.5-14B-Instruct kivi: layer 25 {twice}"),
        format!("Qwen2.5-32B-Instruct kivi: layer 22 {twice}"),
    ];
    assert_eq!(refused, expected);
}

/// No published candidate set holds two pairs of which the rule could never keep both: at equal equivalent bits
/// only a tie in error keeps two, and each set must reach from the narrowest pair to the widest.
#[test]
fn published_candidate_sets_could_come_from_the_rule() {
    let Some(published) = reference("published.json") else { return };
    let mut sets = 0;
    for entry in published["models"].as_object().expect("an object").values() {
        for grouping in entry["schemes"].as_object().expect("an object").values() {
            for set in array(grouping, "candidates") {
                let candidates = pairs(&set["set"]);
                // Errors that fall as bits rise keep exactly this set; every other pair is given a worse one.
                let points: Vec<PairError> =
                    all_pairs().into_iter().map(|pair| error_of(pair, &candidates)).collect();
                let kept = prune(LayerId(0), &points, PruneParams::default()).expect("errors");
                let equal_bits =
                    |two: &[PrecisionPair]| (two[0].mean_bits() - two[1].mean_bits()).abs() < 1e-9;
                let tied = candidates.windows(2).filter(|two| equal_bits(two)).count();
                assert_eq!(kept.len() + tied, candidates.len(), "{candidates:?}");
                sets += 1;
            }
        }
    }
    assert!(sets >= 20, "{sets} sets");
}

fn all_pairs() -> Vec<PrecisionPair> {
    let texts = ["KV2", "K2V4", "K4V2", "KV4", "K2V8", "K8V2", "K4V8", "K8V4", "KV8"];
    texts.iter().map(|text| text.parse().expect("a pair")).collect()
}

fn error_of(pair: PrecisionPair, kept: &[PrecisionPair]) -> PairError {
    let rank = kept.iter().position(|&candidate| candidate == pair);
    PairError { pair, e_o: rank.map_or(10.0, |rank| 1.0 / (rank + 1) as f64) }
}
