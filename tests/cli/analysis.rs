use std::path::Path;

use super::{folder, kvtune, outcome, tiny};

/// What an analysis writes whichever heads it draws.
const RESULTS: [&str; 6] =
    ["analysis.yaml", "heads.csv", "heads.svg", "channels.csv", "lemma.csv", "knockout.csv"];

/// A folder with a finished job in `out`.
fn calibrated() -> tempfile::TempDir {
    let folder = folder();
    tiny::write(folder.path());
    let shown = outcome(kvtune(folder.path()).args(["-qq", "calibrate", "job.yaml"]));
    assert!(shown.starts_with("exit 0"), "{shown}");
    folder
}

fn analyze(folder: &Path, options: &[&str]) -> String {
    outcome(kvtune(folder).args(["analyze", "out", "--no-progress"]).args(options))
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join("out").join(name)).expect("a result")
}

fn rows(folder: &Path, name: &str) -> Vec<Vec<String>> {
    let text = read(folder, name);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.records().map(|row| row.expect("a row").iter().map(str::to_owned).collect()).collect()
}

/// Standard error alone, after the exit code was checked.
fn failed(code: u8, shown: &str) -> String {
    let start = format!("exit {code}\n--- stdout\n--- stderr\n");
    shown.strip_prefix(&start).unwrap_or_else(|| panic!("expected exit {code}: {shown}")).to_owned()
}

#[test]
fn an_analysis_says_what_it_found_and_is_the_same_on_any_number_of_threads() {
    let folder = calibrated();
    let shown = analyze(folder.path(), &["-j", "1", "--heads", "0.1,1.0,0.1"]);
    assert!(shown.starts_with("exit 0\n--- stdout\nout/analysis.yaml\nout/heads.csv\n"), "{shown}");
    for said in [
        "4 heads: ",
        "rank correlation of e_o at K2V8",
        "made queries: one key over 0.99",
        "noise of 8-bit keys",
        "0 of 4000 queries moved further",
        "key channels: ",
    ] {
        assert!(shown.contains(said), "{said} is missing from {shown}");
    }
    assert!(shown.contains("documents of the select split, exploratory"), "{shown}");
    let reported = outcome(kvtune(folder.path()).args(["report", "out"]));
    assert!(reported.starts_with("exit 0"), "{reported}");
    let page = read(folder.path(), "report.html");
    for said in
        ["4 heads: ", "0 of 4000 queries moved further", "Heads that lose most", "26 more rows are in"]
    {
        assert!(page.contains(said), "{said} is missing from the page");
    }
    let heads = rows(folder.path(), "heads.csv");
    assert_eq!(heads.len(), 2 * 2 * 9, "layers, heads and pairs");
    for row in &heads {
        let mass: f64 = row[5].parse::<f64>().expect("first") + row[6].parse::<f64>().expect("recent");
        assert!(mass > 0.0 && mass < 1.0 + 1e-6, "{row:?}");
        assert_eq!(row[8] == "streaming", mass > 0.9, "{row:?}");
    }
    assert_eq!(rows(folder.path(), "channels.csv").len(), 2 * 8, "layers and channels");
    for head in ["0.1", "1.0"] {
        let png = std::fs::read(folder.path().join(format!("out/attention-{head}.png"))).expect("a figure");
        assert!(png.starts_with(b"\x89PNG"));
    }
    let before: Vec<String> = RESULTS.iter().map(|name| read(folder.path(), name)).collect();
    assert!(analyze(folder.path(), &["-j", "2", "--heads", "0.1,1.0"]).starts_with("exit 0"));
    for (name, before) in RESULTS.iter().zip(before) {
        assert!(read(folder.path(), name) == before, "{name} differs");
    }
}

#[test]
fn errors_that_are_not_there_are_measured_to_the_same_numbers() {
    let folder = calibrated();
    assert!(analyze(folder.path(), &[]).starts_with("exit 0"));
    let before = read(folder.path(), "heads.csv");
    assert!(read(folder.path(), "analysis.yaml").contains("errors_from_file: true"));
    std::fs::remove_file(folder.path().join("out/sensitivity-heads.csv")).expect("removed");
    assert!(analyze(folder.path(), &[]).starts_with("exit 0"));
    assert!(read(folder.path(), "analysis.yaml").contains("errors_from_file: false"));
    assert!(read(folder.path(), "heads.csv") == before);
}

#[test]
fn a_lowered_map_differs_in_one_side_of_one_group() {
    let folder = calibrated();
    let map = "0: {nbits_key: 8, nbits_value: 4}\n1: {nbits_key: 2, nbits_value: 8}\n";
    std::fs::write(folder.path().join("out/precision.yaml"), map).expect("written");
    let shown = analyze(folder.path(), &["--split", "search"]);
    assert!(shown.contains("3 sides of groups a step lower on 2 documents of the search split"), "{shown}");
    let mut lowered: Vec<String> =
        rows(folder.path(), "knockout.csv").into_iter().map(|row| row[row.len() - 1].clone()).collect();
    lowered.sort();
    assert_eq!(lowered, ["0 K8V2, 1 K2V8", "0 K8V4, 1 K2V4", "0 KV4, 1 K2V8"]);
    let ranks: Vec<Vec<String>> =
        rows(folder.path(), "knockout.csv").into_iter().map(|row| row[13..16].to_vec()).collect();
    assert_eq!(ranks[0][0], "1", "the worst first: {ranks:?}");
    assert!(ranks.iter().all(|row| !row[2].is_empty()), "errors of these pairs are known: {ranks:?}");
}

/// The example in `analysis.yaml`.
fn example(folder: &Path) -> serde_yaml::Value {
    serde_yaml::from_str::<serde_yaml::Value>(&read(folder, "analysis.yaml")).expect("YAML")["example"]
        .clone()
}

#[test]
fn the_first_changed_token_is_shown_with_what_follows_on_either_side() {
    let folder = calibrated();
    let shown = analyze(folder.path(), &[]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    let found = example(folder.path());
    let text = |at: &serde_yaml::Value| at.as_str().expect("a text").to_owned();
    let (full, quantized) = (&found["full"], &found["quantized"]);
    assert_ne!(text(&full["token"]), text(&quantized["token"]), "{shown}");
    assert!(text(&full["text"]).chars().count() <= 200 && text(&found["before"]).chars().count() <= 60);
    let (agreed, position) = (found["agreed"].as_u64().expect("a count"), found["position"].as_u64());
    assert!(agreed < 16 && position.expect("a place") >= 64 + agreed, "{shown}");
    assert!(found["document"].as_str().expect("a name").starts_with("search-"), "never a test document");
    // The token that full precision writes is the one it holds likeliest.
    assert!(found["logit_gap"].as_f64().expect("a gap") > -1e-3, "{shown}");
    assert!(shown.contains("  full precision \"") && shown.contains("  the map        \""), "{shown}");
    let page = outcome(kvtune(folder.path()).args(["report", "out"]));
    assert!(page.starts_with("exit 0"), "{page}");
    let page = read(folder.path(), "report.html");
    assert!(page.contains("id=\"example\"") && page.contains("changes a token within the recorded length"));
}

#[test]
fn a_chosen_map_that_changes_nothing_gives_way_to_the_next_of_the_front() {
    let folder = calibrated();
    let full = "0: {nbits_key: 16, nbits_value: 16}\n1: {nbits_key: 16, nbits_value: 16}\n";
    std::fs::write(folder.path().join("out/precision.yaml"), full).expect("written");
    let shown = analyze(folder.path(), &[]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert!(
        shown.contains("free-running, the chosen map (16.00 bits)")
            && shown.contains("changed no token of any"),
        "{shown}"
    );
    let found = example(folder.path());
    assert_eq!(found["unchanged"][0], "the chosen map (16.00 bits)");
    assert_ne!(found["origin"], "chosen");
    assert!(found["equivalent_bits"].as_f64().expect("bits") < 16.0);
    // Without a front the uniform map of fewest bits comes next.
    std::fs::remove_file(folder.path().join("out/pareto.csv")).expect("removed");
    assert!(analyze(folder.path(), &[]).starts_with("exit 0"));
    assert_eq!(example(folder.path())["map"], "0-1 KV2");
}

#[test]
fn a_job_without_a_map_is_analyzed_as_far_as_it_goes() {
    let folder = folder();
    tiny::write(folder.path());
    let shown = outcome(kvtune(folder.path()).args(["-qq", "trace", "job.yaml"]));
    assert!(shown.starts_with("exit 0"), "{shown}");
    let shown = analyze(folder.path(), &[]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert!(shown.contains("no map was lowered: the folder has no `precision.yaml`"), "{shown}");
    assert!(!folder.path().join("out/knockout.csv").exists());
    assert!(read(folder.path(), "analysis.yaml").contains("knockout: null"));
}

#[test]
fn a_folder_that_holds_no_trace_or_no_job_is_named() {
    let folder = folder();
    tiny::write(folder.path());
    insta::assert_snapshot!(failed(1, &analyze(folder.path(), &[])), @"
    error: `out` is no job's folder: it has no `job.yaml`

    hint: name a folder that `kvtune calibrate` wrote, such as `runs/smollm2-135m/kivi`
    ");
    std::fs::create_dir(folder.path().join("out")).expect("a folder");
    std::fs::copy(folder.path().join("job.yaml"), folder.path().join("out/job.yaml")).expect("copied");
    insta::assert_snapshot!(failed(1, &analyze(folder.path(), &[])), @"
    error: `out` has no `trace.safetensors`

    hint: record one with `kvtune trace out/job.yaml`
    ");
}

#[test]
fn files_of_another_model_or_of_other_layers_are_refused() {
    let folder = calibrated();
    let other = folder.path().join("other");
    std::fs::create_dir(&other).expect("a folder");
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::copy(folder.path().join("tiny").join(name), other.join(name)).expect("copied");
    }
    let mut weights = std::fs::read(other.join("model.safetensors")).expect("weights");
    let last = weights.len() - 4;
    weights[last..].copy_from_slice(&0.25_f32.to_le_bytes());
    std::fs::write(other.join("model.safetensors"), weights).expect("written");
    let shown = failed(1, &analyze(folder.path(), &["-m", "./other"]));
    assert!(shown.starts_with("error: trace `out/trace.safetensors` was recorded with `./tiny`"), "{shown}");
    assert!(shown.contains("but `./other` has sha256"), "{shown}");

    let layers = |count: usize| -> String {
        (0..count).map(|layer| format!("{layer}: {{nbits_key: 4, nbits_value: 4}}\n")).collect()
    };
    std::fs::write(folder.path().join("out/precision.yaml"), layers(3)).expect("written");
    insta::assert_snapshot!(failed(1, &analyze(folder.path(), &[])), @"
    error: `out/precision.yaml`: the precision map has 3 layers, but the model has 2

    hint: a map is for one model: find this one's with `kvtune calibrate -m MODEL`
    ");
    std::fs::write(folder.path().join("out/precision.yaml"), layers(2)).expect("written");
    let errors = folder.path().join("out/sensitivity-heads.csv");
    let text = std::fs::read_to_string(&errors).expect("rows");
    let without: Vec<&str> = text.lines().filter(|line| !line.starts_with("1,1,0,KV4,")).collect();
    std::fs::write(&errors, without.join("\n")).expect("written");
    insta::assert_snapshot!(failed(1, &analyze(folder.path(), &["-q"])), @"error: `out/sensitivity-heads.csv`: no row for layer 1, head 1 at KV4, which the job names");
    std::fs::write(&errors, "layer,head\n0,x\n").expect("written");
    let shown = failed(1, &analyze(folder.path(), &["-q"]));
    assert!(shown.starts_with("error: `out/sensitivity-heads.csv`, line 2"), "{shown}");
}

#[test]
fn a_head_that_is_none_is_the_users_to_mend() {
    let folder = calibrated();
    insta::assert_snapshot!(failed(2, &analyze(folder.path(), &["--heads", "1.1,2.0"])), @"error: there is no head 2.0: the model has layers 0 to 1, each with heads 0 to 1");
    let shown = failed(2, &analyze(folder.path(), &["--heads", "1"]));
    assert!(shown.contains("`1` is not a head, expected layer and head from 0"), "{shown}");
    assert!(
        failed(2, &analyze(folder.path(), &["--split", "test"]))
            .contains("[possible values: search, select]")
    );
    assert!(!folder.path().join("out/analysis.yaml").exists());
}

#[test]
fn a_trace_too_short_to_tell_heads_apart_is_refused() {
    let folder = folder();
    tiny::write(folder.path());
    let text: String = (0..40).map(|line| format!("Line {line} of many.\n")).collect();
    std::fs::write(folder.path().join("text.txt"), text).expect("written");
    let job = "{model: ./tiny, out: out, trace: {task: plain-text, path: text.txt, min_tokens: 16, max_new_tokens: 4, \
               documents: {search: 2, select: 2, test: 2}}}";
    std::fs::write(folder.path().join("job.yaml"), job).expect("written");
    let shown = outcome(kvtune(folder.path()).args(["-qq", "trace", "job.yaml"]));
    assert!(shown.starts_with("exit 0"), "{shown}");
    let shown = failed(1, &analyze(folder.path(), &[]));
    assert!(
        shown.contains("tokens, but attention on first and recent ones says something only beyond 68"),
        "{shown}"
    );
    assert!(shown.contains("hint: record a trace with a larger `trace.min_tokens`"), "{shown}");
}
