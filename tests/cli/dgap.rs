use std::path::Path;

use super::{folder, kvtune, outcome, tiny};

/// A made model with a recorded trace.
pub(super) fn traced() -> tempfile::TempDir {
    let folder = folder();
    tiny::write(folder.path());
    let shown = outcome(kvtune(folder.path()).args(["-qq", "trace", "job.yaml"]));
    assert!(shown.starts_with("exit 0"), "{shown}");
    folder
}

fn dgap(folder: &Path, verb: &str, options: &[&str]) -> String {
    outcome(kvtune(folder).args(["-q", "dgap", verb, "out", "--uniform", "KV1"]).args(options))
}

/// Small and quick.
const QUICK: [&str; 6] = ["--epochs", "3", "--width", "8", "--top-k", "8"];

pub(super) fn train(folder: &Path, options: &[&str]) -> String {
    dgap(folder, "train", &[&QUICK, options].concat())
}

pub(super) const HEADS: &str = "out/dgap/KV1/dgap.safetensors";

#[test]
fn heads_are_trained_judged_and_drawn() {
    let folder = traced();
    let shown = train(folder.path(), &[]);
    assert!(shown.starts_with(&format!("exit 0\n--- stdout\n{HEADS}\nout/dgap/KV1/dgap.yaml\n")), "{shown}");
    let shown = dgap(folder.path(), "eval", &[]);
    assert!(shown.starts_with("exit 0\n--- stdout\nout/dgap.csv\n"), "{shown}");
    let (_, notes) = shown.split_once("--- stderr\n").expect("both streams");
    // The oracles bound the rest, so they stand first.
    let first: Vec<&str> = notes.lines().filter(|line| line.starts_with("KV1 ")).take(3).collect();
    assert!(first[0].contains("none") && first[1].contains("oracle-order"), "{notes}");
    assert!(first[2].contains("oracle-mass"), "{notes}");
    let rows = std::fs::read_to_string(folder.path().join("out/dgap.csv")).expect("rows");
    for head in ["temperature", "token-bias", "c0", "c1", "c2", "c3", "detector-mlp"] {
        assert!(rows.contains(&format!("KV1,KV1,{head},")), "{head}: {rows}");
    }
    let shown = outcome(kvtune(folder.path()).args(["plot", "out/dgap.csv"]));
    assert_eq!(shown, "exit 0\n--- stdout\nout/dgap.svg\n--- stderr\n");
    let svg = std::fs::read_to_string(folder.path().join("out/dgap.svg")).expect("a figure");
    assert!(svg.contains("Drift with DGAP") && svg.contains("oracle-order"));
}

#[test]
fn heads_are_the_same_bytes_on_any_number_of_threads() {
    let folder = traced();
    let mut found = Vec::new();
    for threads in ["1", "2"] {
        let shown = train(folder.path(), &["-j", threads, "--layers", "0"]);
        assert!(shown.starts_with("exit 0"), "{shown}");
        let shown = dgap(folder.path(), "eval", &["-j", threads]);
        assert!(shown.starts_with("exit 0"), "{shown}");
        let names = [HEADS, "out/dgap/KV1/dgap.yaml", "out/dgap/KV1/trace-0.safetensors", "out/dgap.csv"];
        found.push(names.map(|name| std::fs::read(folder.path().join(name)).expect("a file")));
        std::fs::remove_dir_all(folder.path().join("out/dgap")).expect("removed");
    }
    assert!(found[0] == found[1]);
}

#[test]
fn generation_and_evaluation_take_heads_of_their_own_cache_alone() {
    let folder = traced();
    assert!(train(folder.path(), &["--layers", "0"]).starts_with("exit 0"));
    let scheme = "search_space: {scheme: {name: kivi, key: {group: 8, residual: 8}, value: {group: 8}}}";
    let space = scheme.strip_prefix("search_space: ").expect("a space");
    std::fs::write(folder.path().join("space.yaml"), space).expect("written");
    let generate = |options: &[&str]| {
        let prompt = "words and words and words and more of them";
        let mut command = kvtune(folder.path());
        command.args(["-qq", "generate", "-m", "./tiny", prompt, "-n", "12", "--scheme", "space.yaml"]);
        outcome(command.args(options))
    };
    let plain = generate(&["--uniform", "KV1"]);
    assert!(plain.starts_with("exit 0"), "{plain}");
    // No risk is above 1, so nothing is corrected, to the bit.
    assert_eq!(generate(&["--uniform", "KV1", "--dgap", HEADS, "--risk", "2"]), plain);
    for cache in ["packed", "simulated"] {
        let shown = generate(&["--uniform", "KV1", "--dgap", HEADS, "--risk", "0", "--cache", cache]);
        assert!(shown.starts_with("exit 0"), "{shown}");
    }
    std::fs::create_dir(folder.path().join("other")).expect("a folder");
    tiny::write_other(&folder.path().join("other"));
    let other = ["-qq", "generate", "-m", "./other/tiny", "a", "--uniform", "KV1", "--dgap", HEADS];
    let shown = outcome(kvtune(folder.path()).args(other));
    assert!(shown.starts_with("exit 1"), "{shown}");
    assert!(
        shown.contains("were trained for `./tiny` (sha256") && shown.contains("`./other/tiny`"),
        "{shown}"
    );
    let shown = generate(&["--uniform", "KV2", "--dgap", HEADS]);
    assert!(shown.starts_with("exit 1"), "{shown}");
    assert!(
        shown.contains("were trained for KV1 (0-1 KV1, kivi), but the cache is KV2 (0-1 KV2, kivi)"),
        "{shown}"
    );

    std::fs::write(folder.path().join("text.txt"), "words and more words ".repeat(20)).expect("written");
    let eval = ["-qq", "eval", "-m", "./tiny", "text.txt", "--window", "64", "--scheme", "space.yaml"];
    let shown = outcome(kvtune(folder.path()).args(eval).args([
        "--uniform",
        "KV2,KV1",
        "--dgap",
        HEADS,
        "--corrector",
        "c1",
    ]));
    assert!(shown.starts_with("exit 0") && shown.contains("\nKV1 + c1 "), "{shown}");
    assert!(!shown.contains("KV2 +"), "{shown}");
}

#[test]
fn many_prompts_with_heads_write_what_each_writes_alone() {
    let folder = traced();
    assert!(train(folder.path(), &["--layers", "0"]).starts_with("exit 0"));
    std::fs::write(
        folder.path().join("space.yaml"),
        "{scheme: {name: kivi, key: {group: 8, residual: 8}, value: {group: 8}}}",
    )
    .expect("written");
    std::fs::write(folder.path().join("prompts.txt"), "one prompt\nanother, longer prompt\nthird\n")
        .expect("written");
    let many = |lanes: &str| {
        let mut command = kvtune(folder.path());
        command.args(["-qq", "generate", "-m", "./tiny", "--prompts", "prompts.txt", "-n", "10"]);
        command.args(["--scheme", "space.yaml", "--uniform", "KV1", "--dgap", HEADS, "--risk", "0"]);
        outcome(command.args(["--lanes", lanes]))
    };
    let alone = many("1");
    assert!(alone.starts_with("exit 0"), "{alone}");
    assert_eq!(many("3"), alone);
}

#[test]
fn what_cannot_be_trained_or_used_is_named() {
    let folder = folder();
    tiny::write(folder.path());
    let shown = dgap(folder.path(), "train", &[]);
    assert!(shown.starts_with("exit 1") && shown.contains("out/job.yaml"), "{shown}");
    assert!(outcome(kvtune(folder.path()).args(["-qq", "trace", "job.yaml"])).starts_with("exit 0"));
    let shown = dgap(folder.path(), "train", &["--top-k", "65"]);
    assert!(shown.starts_with("exit 2"), "{shown}");
    assert!(shown.contains("`--top-k` is 65, but it must lie in 2..=64"), "{shown}");
    let shown = dgap(folder.path(), "train", &["--layers", "2"]);
    assert!(shown.starts_with("exit 1") && shown.contains("there is no layer 2"), "{shown}");
    let shown = train(folder.path(), &["--missed-drift", "0.001"]);
    assert!(shown.starts_with("exit 0") && shown.contains("are too few to miss at most 0.001"), "{shown}");
    std::fs::write(folder.path().join(HEADS), b"not heads").expect("written");
    let shown = dgap(folder.path(), "eval", &[]);
    assert!(shown.starts_with("exit 1") && shown.contains("dgap.safetensors"), "{shown}");
}

#[test]
fn the_control_experiment_tells_order_from_size() {
    let folder = traced();
    let shown = dgap(folder.path(), "control", &[]);
    let files = "exit 0\n--- stdout\nout/dgap-control.csv\nout/dgap-inversions.csv\n";
    assert!(shown.starts_with(files), "{shown}");
    let rows = std::fs::read_to_string(folder.path().join("out/dgap-control.csv")).expect("rows");
    let shifted = rows.lines().find(|line| line.contains(",full-plus-4,")).expect("a row");
    let flips = shifted.split(',').nth(5).expect("flips");
    assert_eq!(flips, "0.0", "{rows}");
}

#[test]
fn more_positions_a_front_times_and_an_export_come_from_the_same_job() {
    let folder = folder();
    tiny::write(folder.path());
    assert!(outcome(kvtune(folder.path()).args(["-qq", "calibrate", "job.yaml"])).starts_with("exit 0"));
    let shown = train(folder.path(), &["--prompts", "--own-text"]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    assert!(folder.path().join("out/dgap/KV1/trace-prompts-own.safetensors").exists());
    let yaml = std::fs::read_to_string(folder.path().join("out/dgap/KV1/dgap.yaml")).expect("a description");
    let positions = yaml.split_once("\npositions:\n- ").expect("positions").1;
    let trained: usize = positions.lines().next().and_then(|line| line.parse().ok()).expect("a number");
    // Two documents of at most 16 tokens, the same again from the quantized model, and their prompts.
    assert!(trained > 2 * 2 * 16, "{trained}");
    let shown = dgap(folder.path(), "eval", &["--speed", "--front", "out/pareto.csv"]);
    assert!(shown.starts_with("exit 0\n--- stdout\nout/dgap.csv\nout/dgap-front.csv\n"), "{shown}");
    assert!(shown.contains(" µs more") && shown.contains("with heads of KV1"), "{shown}");
    let shown = outcome(kvtune(folder.path()).args(["dgap", "export", HEADS]));
    assert!(shown.starts_with("exit 0\n--- stdout\nout/dgap/KV1/dgap_processor.py\n"), "{shown}");
    let shown = outcome(kvtune(folder.path()).args(["dgap", "export", HEADS, "--corrector", "c1"]));
    assert!(shown.starts_with("exit 2") && shown.contains("hold no `c1`"), "{shown}");
}
