//! `report`, `export`, `import` and `check` on a job of the tiny model.

use std::path::Path;

use super::{folder, kvtune, outcome, tiny};

/// A finished job in `out/`.
fn job() -> tempfile::TempDir {
    let folder = folder();
    tiny::write(folder.path());
    let shown = outcome(kvtune(folder.path()).args(["-qq", "calibrate", "job.yaml"]));
    assert!(shown.starts_with("exit 0") && shown.contains("\nout/report.html\n"), "{shown}");
    folder
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).expect("a file")
}

#[test]
fn a_job_ends_with_a_report_that_the_command_writes_again() {
    let folder = job();
    let first = read(folder.path(), "out/report.html");
    for section in ["map", "front", "sensitivity", "groups", "prompts", "search", "provenance", "reproduce"] {
        assert!(first.contains(&format!("<h2 id=\"{section}\">")), "{section} is missing");
    }
    assert!(!first.contains("This folder does not hold all files"));
    let shown = outcome(kvtune(folder.path()).args(["report", "out"]));
    assert_eq!(shown, "exit 0\n--- stdout\nout/report.html\n--- stderr\n");
    assert_eq!(read(folder.path(), "out/report.html"), first);
}

#[test]
fn a_report_does_not_depend_on_the_threads() {
    let folder = job();
    let shown = outcome(kvtune(folder.path()).args(["-qq", "calibrate", "job.yaml", "-j", "1", "-o", "one"]));
    assert!(shown.starts_with("exit 0"), "{shown}");
    let same = |text: String| text.replace("out: one", "out: out").replace("one/job.yaml", "out/job.yaml");
    assert_eq!(same(read(folder.path(), "one/report.html")), read(folder.path(), "out/report.html"));
}

#[test]
fn a_folder_of_two_models_is_refused() {
    let folder = job();
    let run = read(folder.path(), "out/run.yaml");
    let other: String = run
        .lines()
        .map(|line| {
            if line.trim_start().starts_with("sha256:") {
                "  sha256: abab\n".to_owned()
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    std::fs::write(folder.path().join("out/run.yaml"), other).expect("written");
    let shown = outcome(kvtune(folder.path()).args(["report", "out"]));
    assert!(shown.starts_with("exit 1\n--- stdout\n--- stderr\nerror: `out` mixes the files of two models: `run.yaml` is of `./tiny` (sha256 abab…), but "), "{shown}");
    assert!(shown.ends_with("hint: keep the files of one model in a folder of their own\n"), "{shown}");
}

#[test]
fn an_export_says_on_standard_error_what_is_lost() {
    let folder = folder();
    std::fs::write(
        folder.path().join("p.yaml"),
        "0: {nbits_key: 8, nbits_value: 4}\n1: {nbits_key: 2, nbits_value: 2}\n",
    )
    .expect("written");
    insta::assert_snapshot!(outcome(kvtune(folder.path()).args(["export", "-p", "p.yaml", "--to", "mlx"])), @"
    exit 0
    --- stdout
    --kv-bits 4 --kv-group-size 64 --quantized-kv-start 0
    --- stderr
    warning: keys of layer 1: 2 bits become 4
    warning: keys of layer 0: 8 bits become 4
    warning: values of layer 1: 2 bits become 4
    warning: 4.00 equivalent bits become 4.00
    warning: its groups are 64 channels of one token, for keys as well
    ");
    let shown =
        outcome(kvtune(folder.path()).args(["export", "-p", "p.yaml", "--to", "kvtuner", "-o", "k.yaml"]));
    assert!(shown.starts_with("exit 0\n--- stdout\nk.yaml\n"), "{shown}");
    let shown = outcome(kvtune(folder.path()).args(["import", "k.yaml"]));
    assert_eq!(
        shown,
        "exit 0\n--- stdout\n0: {nbits_key: 8, nbits_value: 4}\n1: {nbits_key: 2, nbits_value: 2}\n\
         --- stderr\n2 layers, 4.0000 equivalent bits: 0 K8V4, 1 KV2\n"
    );
}

#[test]
fn an_unknown_engine_is_answered_with_the_list() {
    let folder = folder();
    let shown = outcome(kvtune(folder.path()).args(["export", "-p", "p.yaml", "--to", "ollama"]));
    assert!(
        shown.starts_with("exit 2") && shown.contains("expected one of kvtuner, hf, llama.cpp"),
        "{shown}"
    );
}

#[test]
fn a_map_that_an_engine_cannot_say_is_refused_with_its_layers() {
    let folder = folder();
    std::fs::write(
        folder.path().join("p.yaml"),
        "0: {nbits_key: 8, nbits_value: 8}\n1: {nbits_key: 2, nbits_value: 4}\n",
    )
    .expect("written");
    insta::assert_snapshot!(outcome(kvtune(folder.path()).args(["export", "-p", "p.yaml", "--to", "modelopt"])), @"
    exit 1
    --- stdout
    --- stderr
    error: `modelopt` cannot say this map, expected KV8 (FP8) or KV4 (NVFP4) in every layer: 1 K2V4

    hint: search among pairs that it can say, with `search_space.pairs`
    ");
}

#[test]
fn a_layer_listed_twice_is_named() {
    let folder = folder();
    std::fs::write(
        folder.path().join("p.yaml"),
        "0: {nbits_key: 8, nbits_value: 8}\n0: {nbits_key: 2, nbits_value: 4}\n",
    )
    .expect("written");
    insta::assert_snapshot!(outcome(kvtune(folder.path()).args(["import", "p.yaml"])), @"
    exit 1
    --- stdout
    --- stderr
    error: `p.yaml`: layer 0 is listed twice, expected once
    ");
}

#[test]
fn an_approximation_is_scored_against_the_map() {
    let folder = job();
    let shown = outcome(kvtune(folder.path()).args([
        "-q",
        "export",
        "-p",
        "out/precision-4.0.yaml",
        "--to",
        "sglang",
        "--score",
        "-m",
        "./tiny",
    ]));
    assert!(shown.starts_with("exit 0\n--- stdout\n--kv-cache-dtype "), "{shown}");
    let shown = outcome(kvtune(folder.path()).args([
        "-q",
        "export",
        "-p",
        "out/precision-3.0.yaml",
        "--to",
        "sglang",
        "--score",
        "-m",
        "./tiny",
    ]));
    assert!(shown.contains("difference on the same 4 documents: "), "{shown}");
}

#[test]
fn a_check_keeps_a_map_within_its_limit_and_rejects_it_otherwise() {
    let folder = job();
    let check = |more: &[&str]| {
        outcome(
            kvtune(folder.path())
                .args(["-q", "check", "-p", "out/precision.yaml", "-m", "./tiny"])
                .args(more),
        )
    };
    let shown = check(&[]);
    assert!(
        shown.starts_with("exit 0\n--- stdout\nkeep: flips ") && shown.contains("limit 1, 4 documents"),
        "{shown}"
    );
    let shown = check(&["--max-loss", "-1"]);
    assert!(shown.starts_with("exit 1\n--- stdout\nrecalibrate: flips "), "{shown}");
    assert!(shown.contains("hint: find a map for it with `kvtune calibrate -m ./tiny`"), "{shown}");
    let shown = check(&["--objective", "kl"]);
    assert!(
        shown.starts_with("exit 2") && shown.contains("hint: type the limit too, with `--max-loss`"),
        "{shown}"
    );
    std::fs::write(folder.path().join("text.txt"), "some words and more ".repeat(20)).expect("written");
    let shown = check(&["--text", "text.txt", "--window", "64", "--objective", "kl", "--max-loss", "100"]);
    assert!(shown.contains("keep: kl ") && shown.contains("limit 100, 6 documents"), "{shown}");
}

#[test]
fn a_check_of_another_shape_is_refused_before_any_work() {
    let folder = folder();
    tiny::write(folder.path());
    std::fs::write(folder.path().join("p.yaml"), "0: {nbits_key: 8, nbits_value: 8}\n").expect("written");
    let shown = outcome(kvtune(folder.path()).args(["check", "-p", "p.yaml", "-m", "./tiny"]));
    assert!(
        shown.starts_with("exit 1") && shown.contains("the precision map has 1 layers, but the model has 2"),
        "{shown}"
    );
}
