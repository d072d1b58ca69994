use std::path::Path;

use serde_json::{Value, json};

use super::{folder, kvtune, outcome, tiny};

const PROBLEMS: &str = "{\"question\": \"2+2?\", \"answer\": \"2+2=4\\n#### 4\"}
{\"question\": \"3+3?\", \"answer\": \"#### 6\"}
{\"question\": \"5+5?\", \"answer\": \"#### 10\"}
";
const TRAIN: &str =
    "{\"question\": \"1+1?\", \"answer\": \"#### 2\"}\n{\"question\": \"3+3?\", \"answer\": \"#### 6\"}\n";

fn model() -> tempfile::TempDir {
    let folder = folder();
    tiny::write(folder.path());
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    write("test.jsonl", PROBLEMS);
    write("train.jsonl", TRAIN);
    write("law_test.csv", "Who?,Ann,Bob,Cem,Dan,C\nWhen?,1,2,3,4,A\nWhere?,x,y,z,w,B\n");
    folder
}

fn eval(folder: &Path, options: &[&str]) -> String {
    outcome(kvtune(folder).args(["-qq", "eval", "-m", "./tiny"]).args(options))
}

fn rows(folder: &Path, options: &[&str]) -> Vec<Value> {
    let shown = eval(folder, &[options, &["--format", "json"]].concat());
    let text = shown.strip_prefix("exit 0\n--- stdout\n").and_then(|rest| rest.strip_suffix("--- stderr\n"));
    let table: Value =
        serde_json::from_str(text.unwrap_or_else(|| panic!("{options:?}: {shown}"))).expect("JSON");
    table["configurations"].as_array().expect("rows").clone()
}

fn refused(folder: &Path, code: u8, options: &[&str]) -> String {
    let shown = eval(folder, options);
    let start = format!("exit {code}\n--- stdout\n--- stderr\n");
    shown.strip_prefix(&start).unwrap_or_else(|| panic!("expected exit {code}: {shown}")).to_owned()
}

const GSM8K: [&str; 12] = [
    "--task",
    "gsm8k",
    "--data",
    "test.jsonl",
    "--train",
    "train.jsonl",
    "--shots",
    "1",
    "-n",
    "12",
    "--uniform",
    "KV4,KV2",
];

fn answers(folder: &Path, more: &[&str]) -> Vec<Value> {
    rows(folder, &[&GSM8K[..], &["--answers", "a.jsonl"], more].concat());
    let text = std::fs::read_to_string(folder.join("a.jsonl")).expect("saved");
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

#[test]
fn every_configuration_has_a_row_a_metric_and_full_precision_comes_first() {
    let folder = model();
    let rows = rows(folder.path(), &GSM8K);
    let names = ["full", "KV4", "KV2"];
    let expected =
        names.iter().flat_map(|name| ["flexible_match", "strict_match"].map(|metric| (name, metric)));
    assert_eq!(rows.len(), 6);
    for (row, (name, metric)) in rows.iter().zip(expected) {
        assert_eq!((&row["configuration"], &row["metric"]), (&json!(name), &json!(metric)));
        assert!(row["score"].as_f64().is_some_and(|score| (0.0..=1.0).contains(&score)), "{row}");
        assert_eq!(row["difference"].is_null(), *name == "full", "{row}");
    }
    assert!(
        rows[2]["detectable"].as_f64().expect("a number") >= 1.0,
        "six of at most three items: {}",
        rows[2]
    );
}

#[test]
fn an_answer_depends_on_neither_lanes_nor_threads_nor_the_cache_that_holds_the_codes() {
    let folder = model();
    let alone = answers(folder.path(), &["--lanes", "1", "-j", "1"]);
    assert_eq!(alone, answers(folder.path(), &["--lanes", "7", "-j", "2"]));
    let packed = answers(folder.path(), &["--cache", "packed"]);
    assert_eq!(alone[1..], packed[1..]);
    // One line of provenance, then an answer an item and configuration.
    assert_eq!(alone[0]["kvtune"]["format"], 1);
    assert_eq!(alone[0]["kvtune"]["configurations"][2]["map"], "KV2");
    let items = alone[0]["kvtune"]["items"].as_u64().expect("a count");
    assert_eq!(alone.len() as u64, 1 + 3 * items);
    for line in &alone[1..] {
        let written = line["new_tokens"].as_u64().expect("a count");
        assert!((1..=12).contains(&written), "{line}");
        assert!(line["response"]["text"].is_string());
    }
    let texts: Vec<&Value> = alone[1..].iter().map(|line| &line["response"]).collect();
    assert!(
        texts.chunks(3).any(|lanes| lanes[0] != lanes[2]),
        "so few bits change the text of random weights"
    );
}

#[test]
fn full_precision_by_another_name_answers_the_same() {
    let folder = model();
    for task in [
        &["--task", "gsm8k-multiturn", "--data", "test.jsonl", "-n", "8"][..],
        &["--task", "mmlu", "--data", "law_test.csv"],
        &["--task", "ruler-niah-multikey", "--length", "900", "--items", "2", "-n", "8"],
    ] {
        if task.contains(&"gsm8k-multiturn") {
            let shown = refused(folder.path(), 1, task);
            assert!(shown.starts_with("error: `./tiny` has no chat template"), "{shown}");
            continue;
        }
        for row in &rows(folder.path(), &[task, &["--uniform", "KV16"]].concat())[1..] {
            assert_eq!((&row["gained"], &row["lost"], &row["p_value"]), (&json!(0), &json!(0), &json!(1.0)));
        }
    }
}

#[test]
fn items_too_long_are_counted() {
    let folder = model();
    let long = format!("{{\"question\": \"{}\", \"answer\": \"#### 1\"}}\n", "long ".repeat(1000));
    std::fs::write(folder.path().join("long.jsonl"), format!("{PROBLEMS}{long}")).expect("written");
    let task = ["--task", "gsm8k", "--data", "long.jsonl", "-n", "4"];
    let row = &rows(folder.path(), &task)[0];
    assert_eq!((&row["items"], &row["skipped"]), (&json!(3), &json!(1)));
    std::fs::write(folder.path().join("long.jsonl"), long).expect("written");
    insta::assert_snapshot!(refused(folder.path(), 1, &task), @"
    error: none of 1 items fits: `./tiny` is made for 4096 tokens

    hint: ask for shorter items: lower `length`, `shots` or the tokens of an answer
    ");
}

#[test]
fn what_contradicts_itself_is_a_typing_error() {
    let folder = model();
    insta::assert_snapshot!(refused(folder.path(), 2, &["--task", "gsm8k"]), @"
    error: task `gsm8k` needs `--data`

    hint: name the set's file, in the layout in which it is published
    ");
    let shown = refused(folder.path(), 2, &["--task", "gsm8"]);
    assert!(shown.ends_with("hint: did you mean `gsm8k`?\n"), "{shown}");
    insta::assert_snapshot!(refused(folder.path(), 2, &["--task", "ruler-vt", "--length", "100"]), @"
    error: task `ruler-vt` cannot fill 100 tokens: its shortest prompt has 437 and 48 may follow

    hint: raise `--length`
    ");
    insta::assert_snapshot!(refused(folder.path(), 2, &["--task", "gsm8k", "test.jsonl"]), @"
    error: task `gsm8k` reads no text

    hint: name the questions of a task with `--data test.jsonl`
    ");
    insta::assert_snapshot!(refused(folder.path(), 2, &["--task", "perplexity", "--items", "3", "test.jsonl"]), @"
    error: task `perplexity` has no use for `--items`

    hint: `--window` and `--windows` say how much of the text is read
    ");
    for options in [
        &["--data", "test.jsonl"][..],
        &["test.jsonl", "--shots", "3"],
        &["--task", "ruler-vt", "--items", "0"],
    ] {
        assert!(eval(folder.path(), options).starts_with("exit 2"), "{options:?}");
    }
}

#[test]
fn damaged_questions_are_named_with_their_line() {
    let folder = model();
    let write = |text: &str| std::fs::write(folder.path().join("bad.jsonl"), text).expect("written");
    let shown = || refused(folder.path(), 1, &["--task", "gsm8k", "--data", "bad.jsonl"]);
    write(&format!("{PROBLEMS}{{\"question\": \"a\", \"answer\": \"4\"}}\n"));
    insta::assert_snapshot!(shown(), @"error: `bad.jsonl`, line 4: `answer` has no result behind `#### `");
    write(&format!("{PROBLEMS}{{\"question\"\n"));
    assert!(shown().starts_with("error: `bad.jsonl`, line 4: not a JSON object: "), "{}", shown());
    write("{\"q\": \"a\"}\n");
    insta::assert_snapshot!(shown(), @"
    error: `bad.jsonl`, line 1: found the columns `q`, but `question`, `answer` is missing

    hint: give the file in the layout in which the set is published
    ");
    write("\n");
    insta::assert_snapshot!(shown(), @"error: `bad.jsonl` is empty, expected at least one record");
}

#[test]
fn perplexity_is_a_task_too() {
    let folder = model();
    std::fs::write(folder.path().join("text.txt"), "some words and others ".repeat(20)).expect("written");
    let more = ["--window", "64", "--uniform", "KV4", "--format", "csv"];
    let plain = eval(folder.path(), &[&["text.txt"][..], &more].concat());
    assert!(plain.starts_with("exit 0\n--- stdout\nconfiguration,"), "{plain}");
    let task = eval(folder.path(), &[&["--task", "perplexity", "--data", "text.txt"][..], &more].concat());
    assert_eq!(plain, task);
    // One byte is a token here, and each window of 64 bytes scores 63 of them: 6 windows, whatever their words.
    let row = &rows(folder.path(), &["text.txt", "--window", "64", "--uniform", "KV4"])[0];
    assert_eq!(row["perplexity"], row["byte_perplexity"]);
    assert!(row["word_perplexity"].as_f64() > row["byte_perplexity"].as_f64(), "{row}");
}
