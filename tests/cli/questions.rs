use std::path::Path;

use serde_json::{Value, json};

use super::{configurations, folder, kvtune, outcome, tiny};

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
    configurations(&eval(folder, &[options, &["--format", "json"]].concat()))
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
    assert_eq!(alone[0]["kvtune"]["format"], 2);
    assert_eq!(alone[0]["kvtune"]["configurations"][2]["map"], "KV2");
    let items = alone[0]["kvtune"]["items"][0].as_u64().expect("a count");
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
fn a_ladder_marks_what_runs_of_their_own_would() {
    let folder = model();
    let task = ["--task", "gsm8k", "--data", "test.jsonl", "--train", "train.jsonl", "--uniform", "KV2"];
    let of = |shots, most| rows(folder.path(), &[&task[..], &["--shots", shots, "-n", most]].concat());
    let ladder = of("1,0", "12,3,3");
    let alone: Vec<Value> = [("0", "3"), ("0", "12"), ("1", "3"), ("1", "12")]
        .iter()
        .flat_map(|&(shots, n)| of(shots, n))
        .collect();
    assert_eq!(ladder.len(), 16, "two configurations, two metrics");
    for (ladder, alone) in ladder.iter().zip(&alone) {
        let but_for_storage = |row: &Value| {
            let mut row = row.clone();
            // Given at the longest answer of a run.
            row.as_object_mut().expect("a row").remove("storage_bits");
            row
        };
        assert_eq!(but_for_storage(ladder), but_for_storage(alone));
    }
    let bytes = |row: usize| ladder[row]["cache_bytes"].as_f64().expect("a number");
    assert!(bytes(0) < bytes(4) && bytes(4) < bytes(12), "longer answers and examples take memory");
    assert!(bytes(2) < bytes(0), "and fewer bits less");
}

#[test]
fn scores_are_drawn_over_the_memory_they_take() {
    let folder = model();
    let table = eval(folder.path(), &[&GSM8K[..], &["--format", "csv"]].concat());
    let (_, table) = table.split_once("--- stdout\n").expect("an outcome");
    let (table, _) = table.split_once("--- stderr").expect("an outcome");
    std::fs::write(folder.path().join("scores.csv"), table).expect("written");
    let shown = outcome(kvtune(folder.path()).args(["-qq", "plot", "scores.csv"]));
    assert!(shown.starts_with("exit 0"), "{shown}");
    let figure = std::fs::read_to_string(folder.path().join("scores.svg")).expect("drawn");
    assert!(figure.contains("flexible_match (bars: 95 %)") && figure.contains("KV2"), "{figure}");
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
    insta::assert_snapshot!(refused(folder.path(), 2, &["--task", "ruler-vt", "--window", "64"]), @"
    error: task `ruler-vt` has no use for `--window`

    hint: that is for windows of a text; `--items` says how many questions to ask
    ");
    for option in [["--stride", "64"], ["--windows", "3"], ["--bos", "never"]] {
        let shown = refused(folder.path(), 2, &[&["--task", "ruler-vt"], &option[..]].concat());
        assert!(shown.contains(&format!("has no use for `{}`", option[0])), "{shown}");
    }
    for option in [["--seed", "0"], ["--lanes", "3"]] {
        let shown =
            refused(folder.path(), 2, &[&["--task", "perplexity", "test.jsonl"], &option[..]].concat());
        assert!(shown.contains(&format!("task `perplexity` has no use for `{}`", option[0])), "{shown}");
    }
    let twice = ["--task", "perplexity", "test.jsonl", "--data", "train.jsonl"];
    let shown = refused(folder.path(), 2, &twice);
    assert!(shown.starts_with("error: there are two texts, `test.jsonl` and `train.jsonl`\n"), "{shown}");
    let weights =
        ["--weights", "f16", "--stream-weights", "test.jsonl", "--window", "16", "--uniform", "KV4"];
    insta::assert_snapshot!(refused(folder.path(), 2, &weights), @"
    error: weights that are streamed stay as they are stored, they cannot be f16

    hint: leave out `--weights` or `--stream-weights`
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

#[test]
fn windows_that_slide_and_begin_with_a_bos_score_more_tokens() {
    let folder = model();
    // A token a byte: 243 of them.
    std::fs::write(folder.path().join("text.txt"), "some words ".repeat(22) + "!").expect("written");
    let typed = ["text.txt", "--window", "64", "--uniform", "KV4"];
    let positions = |more: &[&str]| -> Vec<u64> {
        let rows = rows(folder.path(), &[&typed, more].concat());
        rows.iter().map(|row| row["positions"].as_u64().expect("a count")).collect()
    };
    // Three windows of 64; one every 16 are 12, of 64 + 11 · 16 tokens, of which the first has none before it.
    assert_eq!(positions(&[]), [3 * 63, 3 * 63]);
    assert_eq!(positions(&["--stride", "64", "--bos", "never"]), [3 * 63, 3 * 63]);
    assert_eq!(positions(&["--stride", "16"]), [63 + 11 * 16, 63 + 11 * 16]);
    assert_eq!(positions(&["--stride", "16", "--windows", "3"]), [63 + 2 * 16, 63 + 2 * 16]);
    assert_eq!(positions(&["--bos", "always"]), [3 * 64, 3 * 64]);
    let plain = rows(folder.path(), &typed);
    assert_eq!(
        rows(folder.path(), &[&typed[..], &["--bos", "auto"]].concat()),
        plain,
        "the tiny model asks for none"
    );
    assert_ne!(rows(folder.path(), &[&typed[..], &["--bos", "always"]].concat()), plain);
    let said = |more: &[&str]| {
        let mut command = kvtune(folder.path());
        let shown = outcome(command.args(["-q", "eval", "-m", "./tiny"]).args(typed).args(more));
        shown.lines().find(|line| line.contains(" windows of ")).unwrap_or(&shown).to_owned()
    };
    assert_eq!(said(&[]), "3 windows of 64 tokens, no BOS before them");
    assert_eq!(said(&["--stride", "16"]), "12 windows of 64 tokens, one every 16, no BOS before them");
    assert_eq!(said(&["--bos", "always"]), "3 windows of 64 tokens, BOS Ā (0) before each");
}

#[test]
fn windows_that_cannot_be_cut_are_refused_with_both_numbers() {
    let folder = model();
    std::fs::write(folder.path().join("text.txt"), "words ".repeat(2000)).expect("written");
    for stride in ["0", "65"] {
        let typed = ["text.txt", "--window", "64", "--uniform", "KV4", "--stride", stride];
        let shown = refused(folder.path(), 2, &typed);
        let expected =
            format!("error: `--stride` is {stride}, but it must lie in 1..=64, the tokens of a `--window`\n");
        assert_eq!(shown, expected);
    }
    let typed = ["text.txt", "--window", "4096", "--uniform", "KV4", "--bos", "always"];
    insta::assert_snapshot!(refused(folder.path(), 1, &typed), @"
    error: a window has 4096 tokens and a BOS before them, but `./tiny` is made for 4096

    hint: use windows of 4095 tokens at most, with `--window 4095`
    ");
    let mut config = tiny::config();
    config.as_object_mut().expect("an object").remove("bos_token_id");
    tiny::write_config(&folder.path().join("tiny"), &config);
    let typed = ["text.txt", "--window", "64", "--uniform", "KV4", "--bos", "always"];
    insta::assert_snapshot!(refused(folder.path(), 1, &typed), @"
    error: `./tiny` has no token that begins texts (BOS)

    hint: leave out `--bos always`
    ");
}
