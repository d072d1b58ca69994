use std::path::Path;

use serde_json::{Value, json};

use super::{configurations, dgap, kvtune, outcome};

const SPACE: &str = "{scheme: {name: kivi, key: {group: 8, residual: 8}, value: {group: 8}}}";
const QUESTIONS: usize = 24;

/// A traced model with heads for KV1, questions to write and questions to choose.
fn model() -> tempfile::TempDir {
    let folder = dgap::traced();
    let shown = dgap::train(folder.path(), &["--layers", "0"]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    scale(folder.path(), WILD, 100.0);
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("space.yaml", SPACE);
    let problem = |n: usize| format!("{{\"question\": \"{n}+{n}?\", \"answer\": \"#### {}\"}}\n", 2 * n);
    write("test.jsonl", &(1..5).map(problem).collect::<String>());
    write("train.jsonl", &(5..8).map(problem).collect::<String>());
    write("law_test.csv", &choices(|_| 'A'));
    folder
}

/// Writes the heads anew with correctors that many times as strong.
fn scale(folder: &Path, name: &str, times: f32) {
    let mut heads = kvtune::dgap::Heads::read(&folder.join(dgap::HEADS)).expect("heads");
    for matrix in heads.correctors.iter_mut().flat_map(|head| &mut head.weights) {
        matrix.data.iter_mut().for_each(|weight| *weight *= times);
    }
    heads.write(&folder.join(name)).expect("written");
}

fn choices(right: impl Fn(usize) -> char) -> String {
    let row = |n: usize| format!("Which number comes after {n}?,{n},{},9,0,{}\n", n + 1, right(n));
    (0..QUESTIONS).map(row).collect()
}

fn eval(folder: &Path, options: &[&str]) -> String {
    let scheme = ["-qq", "eval", "-m", "./tiny", "--scheme", "space.yaml"];
    outcome(kvtune(folder).args(scheme).args(options))
}

fn rows(folder: &Path, options: &[&str]) -> Vec<Value> {
    configurations(&eval(folder, &[options, &["--format", "json"]].concat()))
}

/// The line that says where the answers come from, and those of one configuration without its name.
fn answers(folder: &Path, options: &[&str], of: &str) -> (Value, Vec<Value>) {
    rows(folder, &[options, &["--answers", "a.jsonl"]].concat());
    let text = std::fs::read_to_string(folder.join("a.jsonl")).expect("saved");
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let provenance = lines.next().expect("a line")["kvtune"].clone();
    let answers = lines.filter(|line| line["configuration"] == of).map(|mut line| {
        line["configuration"] = Value::Null;
        line
    });
    (provenance, answers.collect())
}

const WRITE: [&str; 10] =
    ["--task", "gsm8k", "--data", "test.jsonl", "--train", "train.jsonl", "--shots", "2", "-n", "12"];
const CHOOSE: [&str; 4] = ["--task", "mmlu", "--data", "law_test.csv"];
/// Heads that change what is said.
const WILD: &str = "wild.safetensors";
const REPAIRED: [&str; 6] = ["--dgap", WILD, "--corrector", "c3", "--risk", "0"];

#[test]
fn a_repaired_configuration_answers_beside_itself_as_it_does_alone() {
    let folder = model();
    let folder = folder.path();
    for task in [&WRITE[..], &CHOOSE] {
        let with = |maps: &'static str, more: &[&'static str], of: &str| {
            answers(folder, &[task, &["--uniform", maps], more].concat(), of).1
        };
        let repaired =
            |maps: &'static str, more: &[&'static str], of: &str| with(maps, &[&REPAIRED, more].concat(), of);
        let alone = repaired("KV1", &["--lanes", "1", "-j", "1"], "KV1 + c3");
        assert_eq!(repaired("KV2,KV1", &["--lanes", "7", "-j", "2"], "KV1 + c3"), alone, "{task:?}");
        assert_eq!(repaired("KV2,KV1", &["--cache", "packed"], "KV1 + c3"), alone, "{task:?}");
        for name in ["full", "KV2", "KV1"] {
            assert_eq!(repaired("KV2,KV1", &[], name), with("KV2,KV1", &[], name), "{task:?}: {name}");
        }
        assert_ne!(with("KV1", &[], "KV1"), alone, "{task:?}: heads that always correct change something");
    }
}

#[test]
fn heads_of_zeros_and_risks_that_none_reaches_change_no_answer() {
    let folder = model();
    let folder = folder.path();
    scale(folder, "zeros.safetensors", 0.0);
    for task in [&WRITE[..], &CHOOSE] {
        for repair in [["zeros.safetensors", "0"], [WILD, "2"]] {
            let options = ["--uniform", "KV1", "--corrector", "c1", "--dgap", repair[0], "--risk", repair[1]];
            let of = |name| answers(folder, &[task, &options].concat(), name).1;
            assert_eq!(of("KV1 + c1"), of("KV1"), "{task:?} {repair:?}");
        }
    }
}

#[test]
fn rows_say_what_was_given_back_and_answers_which_heads_gave_it() {
    let folder = model();
    let folder = folder.path();
    let options = [&CHOOSE[..], &["--uniform", "KV2,KV1"], &REPAIRED].concat();
    let found = rows(folder, &options);
    let names: Vec<&Value> = found.iter().map(|row| &row["configuration"]).collect();
    assert_eq!(names, ["full", "KV2", "KV1", "KV1 + c3"]);
    assert_eq!(found[2]["storage_bits"], found[3]["storage_bits"]);

    // What full precision says is right from here on: it scores 1, and a cache of one bit cannot.
    let said = answers(folder, &CHOOSE, "full").1;
    let letter = |n: usize| match said[n]["response"]["log_likelihoods"].as_array() {
        Some(values) => {
            let of = |choice: usize| values[choice].as_f64().expect("a number");
            char::from(b'A' + (0..4).max_by(|&a, &b| of(a).total_cmp(&of(b))).expect("four") as u8)
        }
        None => panic!("{}", said[n]),
    };
    std::fs::write(folder.join("law_test.csv"), choices(letter)).expect("written");
    let found = rows(folder, &options);
    assert_eq!(found[0]["score"], json!(1.0));
    let score = |row: usize| found[row]["score"].as_f64().expect("a number");
    assert!(1.0 - score(2) >= 0.15, "one bit loses answers: {}", score(2));
    for row in &found[..3] {
        assert!(row["recovery"].is_null() && row["recovery_low"].is_null(), "{row}");
    }
    let share = found[3]["recovery"].as_f64().expect("a share");
    assert!((share - (score(3) - score(2)) / (1.0 - score(2))).abs() < 1e-12, "{}", found[3]);
    let end = |name: &str| found[3][name].as_f64().expect("an end");
    assert!(end("recovery_low") <= share && share <= end("recovery_high"), "{}", found[3]);

    let (provenance, _) = answers(folder, &options, "full");
    assert_eq!(provenance["dgap"]["path"], WILD);
    assert_eq!(provenance["dgap"]["sha256"].as_str().map(str::len), Some(64));
    assert_eq!((&provenance["dgap"]["corrector"], &provenance["dgap"]["risk"]), (&json!("c3"), &json!(0.0)));
    let configurations = provenance["configurations"].as_array().expect("a list");
    let repaired: Vec<bool> = configurations.iter().filter_map(|one| one["repaired"].as_bool()).collect();
    assert_eq!(repaired, [false, false, false, true]);
    assert_eq!((&configurations[3]["name"], &configurations[3]["map"]), (&json!("KV1 + c3"), &json!("KV1")));
}

#[test]
fn heads_for_no_configuration_and_over_answers_are_refused() {
    let folder = model();
    let folder = folder.path();
    let options = |more: &[&'static str]| [&CHOOSE[..], &["--dgap", dgap::HEADS], more].concat();
    insta::assert_snapshot!(eval(folder, &options(&["--uniform", "KV2,KV4"])), @"
    exit 1
    --- stdout
    --- stderr
    error: heads `out/dgap/KV1/dgap.safetensors` were trained for KV1 (0-1 KV1, kivi), but the cache is KV2 (0-1 KV2, kivi)

    hint: train heads for this setting with `kvtune dgap train`, or use theirs
    ");
    insta::assert_snapshot!(eval(folder, &options(&[])), @"
    exit 2
    --- stdout
    --- stderr
    error: `--dgap` has nothing to repair

    hint: name the map or pair that the heads are for, with `-p` or `--uniform`
    ");
    let shown = eval(folder, &options(&["--uniform", "KV1", "--answers", dgap::HEADS]));
    assert!(
        shown.starts_with("exit 2") && shown.contains("would be written over, and it is read"),
        "{shown}"
    );
}
