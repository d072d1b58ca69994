use std::path::Path;

use super::{folder, kvtune, outcome};

/// Runs `kvtune calibrate job.yaml` on a job of the given text.
fn calibrate(folder: &Path, job: &str) -> String {
    std::fs::write(folder.join("job.yaml"), job).expect("written");
    outcome(kvtune(folder).args(["calibrate", "job.yaml"]))
}

#[test]
fn an_unknown_field_is_answered_with_the_nearest_name() {
    let folder = folder();
    insta::assert_snapshot!(calibrate(folder.path(), "search: {max_bit: 4}"), @"
    exit 2
    --- stdout
    --- stderr
    error: `job.yaml` has an unknown field `search.max_bit`

    hint: did you mean `search.max_bits`? the fields of `search` are `algorithm`, `objective`, `max_bits`, `max_storage_bits`, `max_cache`, `max_loss`, `evaluations`, `seed`, `seed_table`
    ");
}

#[test]
fn a_pair_that_does_not_exist_is_the_users_to_mend() {
    let folder = folder();
    insta::assert_snapshot!(calibrate(folder.path(), "search_space: {pairs: [KV8, K9V4]}"), @"
    exit 2
    --- stdout
    --- stderr
    error: `job.yaml`: field `search_space.pairs[1]`: `K9V4` is not a precision pair, expected `K<bits>V<bits>` or `KV<bits>` with bits in 1, 2, 3, 4, 5, 6, 8, 16
    ");
}

#[test]
fn a_group_of_nothing_names_its_field() {
    let folder = folder();
    insta::assert_snapshot!(calibrate(folder.path(), "search_space: {scheme: {name: kivi, key: {group: 0}}}"), @"
    exit 2
    --- stdout
    --- stderr
    error: `job.yaml`: field `search_space.scheme.key.group`: group size 0, expected 1 or more
    ");
}

#[test]
fn a_missing_job_could_not_be_done() {
    let folder = folder();
    insta::assert_snapshot!(outcome(kvtune(folder.path()).args(["trace", "nothing.yaml"])), @"
    exit 1
    --- stdout
    --- stderr
    error: cannot read `nothing.yaml`: No such file or directory (os error 2)
    ");
}

#[test]
fn a_dry_run_prints_the_plan_and_writes_nothing() {
    let folder = folder();
    let shown = outcome(kvtune(folder.path()).args([
        "calibrate",
        "--dry-run",
        "--seed",
        "3",
        "-m",
        "org/Some-Model",
    ]));
    insta::assert_snapshot!(shown, @"
    exit 0
    --- stdout
    model        org/Some-Model
    layers       not known before `org/Some-Model` is fetched
    scheme       kivi
    pairs        9 (KV8 K8V4 K4V8 K8V2 K2V8 KV4 K4V2 K2V4 KV2)
    task         arithmetic-chain
    documents    4 search, 8 select, 8 test
    tokens       256 or more of prompt, 96 or fewer of continuation
    evaluations  50 at most, by moead
    objective    flips
    limits       equivalent bits 4, loss 0.1
    files        job.yaml trace.safetensors sensitivity.csv sensitivity-heads.csv sensitivity-prompts.csv space.yaml evaluations.csv precision.yaml pareto.csv pareto.svg report.html run.yaml
    out          runs/some-model/kivi
    --- stderr
    `calibration/quickstart.yaml` is not here; this is the copy inside the program
    ");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn verbose_prints_the_whole_job_to_standard_error() {
    let folder = folder();
    let shown =
        outcome(kvtune(folder.path()).args(["-v", "space", "-", "--dry-run"]).write_stdin("model: m"));
    let (stdout, stderr) = shown.split_once("--- stderr\n").expect("both streams");
    assert!(stdout.starts_with("exit 0") && !stdout.contains("min_samples"), "{stdout}");
    assert!(stderr.contains("model: m\n") && stderr.contains("min_samples: 2\n"), "{stderr}");
}

#[test]
fn color_is_there_only_when_asked_for() {
    let folder = folder();
    let plain = outcome(kvtune(folder.path()).args(["trace", "nothing.yaml"]));
    assert!(!plain.contains('\u{1b}'), "{plain}");
    let colored = outcome(kvtune(folder.path()).args(["trace", "nothing.yaml", "--color", "always"]));
    assert!(colored.contains("\u{1b}[1;31merror:\u{1b}[0m cannot read"), "{colored}");
}

#[test]
fn nothing_to_compare_is_a_usage_error() {
    let folder = folder();
    insta::assert_snapshot!(outcome(kvtune(folder.path()).args(["eval", "-m", "m", "text.txt"])), @"
    exit 2
    --- stdout
    --- stderr
    error: nothing to compare

    hint: name a map with `-p precision.yaml`, or pairs with `--uniform KV8,KV4`
    ");
    let shown = outcome(kvtune(folder.path()).args(["eval", "-m", "m", "text.txt", "--uniform", "KV8,K9V4"]));
    assert!(shown.starts_with("exit 2") && shown.contains("`K9V4` is not a precision pair"), "{shown}");
}
