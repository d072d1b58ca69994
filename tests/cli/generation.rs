use std::path::Path;

use serde_json::{Value, json};

use super::{folder, kvtune, outcome, tiny};

/// As many as fill the lanes twice and more, and of lengths that differ.
const PROMPTS: [&str; 7] = [
    "a",
    "the second prompt is longer than a group of keys",
    "three",
    "the fourth one",
    "x y z",
    "sixth, and by far the longest of all these prompts, so that codes and residual are both in use",
    "!",
];

fn generate(folder: &Path, options: &[&str]) -> String {
    let n = if options.contains(&"-n") { &[][..] } else { &["-n", "24"] };
    outcome(kvtune(folder).args(["-qq", "generate", "-m", "./tiny"]).args(n).args(options))
}

/// Standard output alone, of a command that succeeded.
fn text(folder: &Path, options: &[&str]) -> String {
    let shown = generate(folder, options);
    let inner = shown.strip_prefix("exit 0\n--- stdout\n").and_then(|rest| rest.strip_suffix("--- stderr\n"));
    inner.unwrap_or_else(|| panic!("{options:?}: {shown}")).to_owned()
}

fn lines(folder: &Path, options: &[&str]) -> Vec<Value> {
    let text = text(folder, options);
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

/// Standard error alone, of a command that did not.
fn refused(folder: &Path, code: u8, options: &[&str]) -> String {
    let shown = generate(folder, options);
    let start = format!("exit {code}\n--- stdout\n--- stderr\n");
    shown.strip_prefix(&start).unwrap_or_else(|| panic!("expected exit {code}: {shown}")).to_owned()
}

/// The tiny model, a map of its two layers and one of three.
fn model() -> tempfile::TempDir {
    let folder = folder();
    tiny::write(folder.path());
    let layers = "0: {nbits_key: 4, nbits_value: 2}\n1: {nbits_key: 2, nbits_value: 4}\n";
    std::fs::write(folder.path().join("map.yaml"), layers).expect("written");
    let three = format!("{layers}2: {{nbits_key: 2, nbits_value: 2}}\n");
    std::fs::write(folder.path().join("three.yaml"), three).expect("written");
    std::fs::write(folder.path().join("prompts.txt"), PROMPTS.join("\n\n")).expect("written");
    folder
}

#[test]
fn prompts_side_by_side_get_the_text_that_each_gets_alone() {
    let folder = model();
    for cache in
        [&["--cache", "full"][..], &["-p", "map.yaml"], &["--uniform", "KV2", "--cache", "simulated"]]
    {
        let with = |options: &[&'static str]| [cache, options].concat();
        let alone = lines(folder.path(), &with(&["--prompts", "prompts.txt", "--lanes", "1", "-j", "1"]));
        let together = lines(folder.path(), &with(&["--prompts", "prompts.txt", "--lanes", "3", "-j", "2"]));
        assert_eq!(alone, together, "{cache:?}");
        for (index, (line, prompt)) in together.iter().zip(PROMPTS).enumerate() {
            assert_eq!((&line["index"], &line["prompt"]), (&json!(index), &json!(prompt)));
            let tokens = line["tokens"].as_array().expect("tokens");
            assert!(tokens.len() == 24 || tokens.last() == Some(&json!(255)), "{line}");
            // A character cut off at the end is left out where text is shown as it grows.
            let whole = line["text"].as_str().expect("a text").trim_end_matches(char::REPLACEMENT_CHARACTER);
            assert_eq!(text(folder.path(), &with(&[prompt])), format!("{whole}\n"), "{cache:?}");
        }
        assert_eq!(together.len(), PROMPTS.len());
    }
}

#[test]
fn a_map_is_packed_unless_told_otherwise() {
    let folder = model();
    let prompt = PROMPTS[5];
    let packed = text(folder.path(), &["-p", "map.yaml", prompt]);
    assert_eq!(packed, text(folder.path(), &["-p", "map.yaml", "--cache", "packed", prompt]));
    assert_eq!(packed, text(folder.path(), &["-p", "map.yaml", "--cache", "simulated", prompt]));
    let full = text(folder.path(), &[prompt]);
    assert_eq!(full, text(folder.path(), &["--cache", "full", prompt]));
    assert_ne!(full, packed, "so few bits change the text of random weights");
}

#[test]
fn json_lines_and_standard_input_are_prompts_too() {
    let folder = model();
    let json: String =
        PROMPTS.iter().map(|prompt| format!("{}\n", json!({"prompt": prompt, "id": 1}))).collect();
    std::fs::write(folder.path().join("prompts.jsonl"), &json).expect("written");
    let expected = lines(folder.path(), &["--prompts", "prompts.txt"]);
    assert_eq!(lines(folder.path(), &["--prompts", "prompts.jsonl"]), expected);
    let piped = kvtune(folder.path())
        .args(["-qq", "generate", "-m", "./tiny", "-n", "24", "--prompts", "-"])
        .write_stdin(json)
        .output()
        .expect("it starts");
    assert_eq!(String::from_utf8_lossy(&piped.stdout).lines().count(), expected.len());
}

#[test]
fn a_seed_fixes_what_a_temperature_leaves_open() {
    let folder = model();
    let options =
        |seed| ["--prompts", "prompts.txt", "--temperature", "1.5", "--seed", seed, "--uniform", "KV4"];
    let first = lines(folder.path(), &options("1"));
    assert_eq!(first, lines(folder.path(), &[&options("1")[..], &["--lanes", "2"]].concat()));
    assert_ne!(first, lines(folder.path(), &options("2")));
    let only = lines(folder.path(), &[&options("1")[..], &["--top-k", "1"]].concat());
    assert_eq!(only, lines(folder.path(), &["--prompts", "prompts.txt", "--uniform", "KV4"]));
}

#[test]
fn what_contradicts_itself_is_a_typing_error() {
    let folder = model();
    insta::assert_snapshot!(refused(folder.path(), 2, &["-p", "map.yaml", "--cache", "full", "a"]), @"
    error: a full-precision cache has no precision map

    hint: leave out `--cache full`, or `-p` and `--uniform`
    ");
    insta::assert_snapshot!(refused(folder.path(), 2, &["--cache", "packed", "a"]), @"
    error: nothing says which bits the cache shall have

    hint: name a map with `-p precision.yaml`, or a pair with `--uniform KV4`
    ");
    for options in [
        &["--temperature", "-1", "a"][..],
        &["--temperature", "nan", "a"],
        &["--top-p", "0", "a"],
        &["--top-k", "0", "a"],
        &["--lanes", "0", "a"],
        &["-p", "map.yaml", "--uniform", "KV4", "a"],
        &["--uniform", "K9V4", "a"],
        &["--prompts", "prompts.txt", "a"],
        &[],
    ] {
        assert!(generate(folder.path(), options).starts_with("exit 2"), "{options:?}");
    }
}

#[test]
fn prompts_that_are_none_are_named() {
    let folder = model();
    std::fs::write(folder.path().join("blank.txt"), "\n \n").expect("written");
    std::fs::write(folder.path().join("half.jsonl"), "{\"prompt\": \"a\"}\nb\n").expect("written");
    std::fs::write(folder.path().join("no-text.jsonl"), "{\"prompt\": \"a\"}\n{\"prompt\": \"\"}\n")
        .expect("written");
    insta::assert_snapshot!(refused(folder.path(), 2, &["--prompts", "blank.txt"]), @"error: `blank.txt` holds no prompt");
    insta::assert_snapshot!(refused(folder.path(), 2, &["--prompts", "half.jsonl"]), @"
    error: `half.jsonl`, line 2: expected value at line 1 column 1

    hint: its first line is JSON: then all are objects with a text under `prompt`
    ");
    insta::assert_snapshot!(refused(folder.path(), 1, &["--prompts", "no-text.jsonl"]), @"
    error: prompt 1 is empty

    hint: give the model at least one token to go on from
    ");
    insta::assert_snapshot!(refused(folder.path(), 1, &["--prompts", "none.txt"]), @"error: cannot read `none.txt`: No such file or directory (os error 2)");
}

#[test]
fn a_map_or_scheme_of_another_model_is_refused() {
    let folder = model();
    insta::assert_snapshot!(refused(folder.path(), 1, &["-p", "three.yaml", "a"]), @"
    error: `three.yaml`: the precision map has 3 layers, but the model has 2

    hint: a map is for one model: find this one's with `kvtune calibrate -m MODEL`
    ");
    let space = "scheme: {name: kivi, key: {group: 8, residual: 8}, value: {group: 8}, key_bias: subtract}\n";
    std::fs::write(folder.path().join("space.yaml"), space).expect("written");
    let options = ["-p", "map.yaml", "--scheme", "space.yaml", "a"];
    insta::assert_snapshot!(refused(folder.path(), 2, &options), @"
    error: `key_bias: subtract` needs a bias on every layer's `k_proj` with no norm behind it, but layer 0 has none

    hint: set `key_bias: keep` in the scheme
    ");
}

#[test]
fn more_than_the_context_is_refused_with_both_numbers() {
    let folder = model();
    insta::assert_snapshot!(refused(folder.path(), 1, &["-n", "4095", "ab"]), @"
    error: the prompt has 2 tokens and 4095 may follow, 4097 in all, but `./tiny` is made for 4096

    hint: add 4094 tokens at most, with `-n 4094`
    ");
    insta::assert_snapshot!(refused(folder.path(), 1, &["-n", "4050", "--prompts", "prompts.txt"]), @"
    error: prompt 5 has 94 tokens and 4050 may follow, 4144 in all, but `./tiny` is made for 4096

    hint: add 4002 tokens at most, with `-n 4002`
    ");
    let long = "long ".repeat(1000);
    std::fs::write(folder.path().join("long.txt"), &long).expect("written");
    insta::assert_snapshot!(refused(folder.path(), 1, &["--prompts", "long.txt"]), @"
    error: the prompt has 5000 tokens and 24 may follow, 5024 in all, but `./tiny` is made for 4096

    hint: shorten the prompt
    ");
}

#[cfg(target_os = "linux")]
#[test]
fn more_than_the_memory_is_refused_with_the_figures() {
    let folder = model();
    let mut config = tiny::config();
    config["max_position_embeddings"] = json!(1_u64 << 30);
    tiny::write_config(&folder.path().join("tiny"), &config);
    std::fs::write(folder.path().join("many.txt"), "a\n".repeat(1024)).expect("written");
    let shown = refused(folder.path(), 1, &["-n", "10000000", "--lanes", "1024", "--prompts", "many.txt"]);
    // Keys and values, 2 layers, 8 channels, 10,000,001 tokens of 4 bytes, 1024 lanes.
    let start =
        "error: 1024 prompts side by side may take 1310.7 GB of full cache beside 48 kB of weights, but ";
    assert!(shown.starts_with(start), "{shown}");
    assert!(
        shown.ends_with("hint: lower `-n` or `--lanes`, or use a packed cache of fewer bits\n"),
        "{shown}"
    );
}

#[test]
fn windows_read_the_same_through_the_packed_cache() {
    let folder = model();
    std::fs::write(folder.path().join("text.txt"), "some words and others ".repeat(40)).expect("written");
    let eval = |options: &[&str]| {
        let typed = [
            "eval",
            "-m",
            "./tiny",
            "text.txt",
            "--window",
            "128",
            "--uniform",
            "KV4,K2V4",
            "--format",
            "csv",
        ];
        outcome(kvtune(folder.path()).args(typed).args(options))
    };
    let (simulated, packed) = (eval(&[]), eval(&["--cache", "packed"]));
    let data = |shown: &str| shown.split("--- stderr\n").next().expect("a part").to_owned();
    assert!(data(&simulated).starts_with("exit 0\n--- stdout\nconfiguration,"), "{simulated}");
    assert_eq!(data(&simulated), data(&packed));
    insta::assert_snapshot!(simulated.split("--- stderr\n").nth(1).expect("messages"), @"
    load: 1 model
    ./tiny: Llama, 2 layers
    eval: 6 windows
    6 windows of 128 tokens, no BOS before them
    KV4: the simulated cache of a window holds 33 kB, 3 kB by its storage bits; f32 takes 16 kB
    K2V4: the simulated cache of a window holds 33 kB, 3 kB by its storage bits; f32 takes 16 kB
    ");
    insta::assert_snapshot!(packed.split("--- stderr\n").nth(1).expect("messages"), @"
    load: 1 model
    ./tiny: Llama, 2 layers
    eval: 6 windows
    6 windows of 128 tokens, no BOS before them
    KV4: the packed cache of a window holds 4 kB, 3 kB by its storage bits; f32 takes 16 kB
    K2V4: the packed cache of a window holds 4 kB, 3 kB by its storage bits; f32 takes 16 kB
    ");
}

#[test]
fn a_window_longer_than_the_context_is_refused() {
    let folder = model();
    std::fs::write(folder.path().join("text.txt"), "words ".repeat(2000)).expect("written");
    let typed = ["-qq", "eval", "-m", "./tiny", "text.txt", "--window", "5000", "--uniform", "KV4"];
    insta::assert_snapshot!(outcome(kvtune(folder.path()).args(typed)), @"
    exit 1
    --- stdout
    --- stderr
    error: a window has 5000 tokens, but `./tiny` is made for 4096

    hint: use windows of 4096 tokens at most, with `--window 4096`
    ");
}
