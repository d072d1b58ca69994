use std::path::Path;

use serde_json::{Value, json};

use super::{folder, kvtune, outcome, tiny};

fn bench(folder: &Path, options: &[&str]) -> String {
    outcome(kvtune(folder).args(["-qq", "bench", "-m", "./tiny"]).args(options))
}

fn model() -> tempfile::TempDir {
    let folder = folder();
    tiny::write(folder.path());
    folder
}

#[test]
fn every_configuration_has_a_row_in_every_cell() {
    let folder = model();
    let options = ["--cells", "1x64,3x256", "--rounds", "1", "--steps", "2", "--format", "json"];
    let shown = bench(folder.path(), &options);
    let text = shown.strip_prefix("exit 0\n--- stdout\n").and_then(|rest| rest.strip_suffix("--- stderr\n"));
    let table: Value = serde_json::from_str(text.expect("only data")).expect("JSON");
    let rows = table["cells"].as_array().expect("rows");
    let names = ["full", "KV8", "KV4", "K4V2"];
    let expected = ["1x64", "3x256"].into_iter().flat_map(|cell| names.map(|name| (cell, name)));
    for (row, (cell, name)) in rows.iter().zip(expected) {
        assert_eq!((&row["cell"], &row["configuration"]), (&json!(cell), &json!(name)));
        for figure in ["prefill_tokens_per_s", "step_ms", "decode_tokens_per_s", "speedup", "cache_mib"] {
            assert!(row[figure].as_f64().is_some_and(|x| x > 0.0 && x.is_finite()), "{figure}: {row}");
        }
    }
    assert_eq!(rows.len(), 8);
    let bits = |row: usize| rows[row]["storage_bits"].as_f64().expect("bits");
    assert!(bits(4) >= 32.0 && bits(4) > bits(5) && bits(5) > bits(6) && bits(6) > bits(7), "{rows:?}");
}

#[test]
fn what_cannot_be_timed_is_refused() {
    let folder = model();
    insta::assert_snapshot!(bench(folder.path(), &["--cells", "8by64"]), @"
    exit 2
    --- stdout
    --- stderr
    error: invalid value '8by64' for '--cells <BATCHxLENGTH>': cell `8by64` is not a batch and a length, each from 1 to 16777216

    hint: write it like `8x4096`

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(bench(folder.path(), &["--cells", "1x4090"]), @"
    exit 1
    --- stdout
    --- stderr
    error: the longest cell has 4102 tokens once all steps are made, but `./tiny` is made for 4096

    hint: choose shorter cells, or time them all the same with `--beyond`
    ");
    insta::assert_snapshot!(bench(folder.path(), &["--steps", "18446744073709551615"]), @"
    exit 2
    --- stdout
    --- stderr
    error: invalid value '18446744073709551615' for '--steps <N>': expected a whole number from 1 to 1048576

    For more information, try '--help'.
    ");
}

#[cfg(target_os = "linux")]
#[test]
fn cells_larger_than_memory_are_refused_with_the_figures() {
    let folder = model();
    let shown = bench(folder.path(), &["--cells", "16777216x4000", "--uniform", "KV8"]);
    let start = "exit 1\n--- stdout\n--- stderr\nerror: the caches of the largest cell take ";
    assert!(shown.starts_with(start) && shown.contains("hint: choose smaller cells"), "{shown}");
}
