//! The program as a user meets it: what it prints where, and with which code it exits.

mod accuracy;
mod analysis;
mod bench;
mod browser;
mod dgap;
mod exchange;
mod generation;
mod help;
mod jobs;
mod models;
mod plots;
mod questions;
mod repairs;
mod runs;
mod tiny;

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

/// The program, away from the user's settings, in a folder of its own.
fn kvtune(folder: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("kvtune"));
    command.current_dir(folder).env_clear().env("HOME", folder).env("KVTUNE_CACHE", folder.join("cache"));
    command
}

/// A folder that goes away after the test.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Exit code, standard output and standard error as one text.
fn outcome(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().map_or(String::from("none"), |code| code.to_string());
    format!("exit {code}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
}

/// The configurations of what `eval --format json` printed.
fn configurations(shown: &str) -> Vec<Value> {
    let text = shown.strip_prefix("exit 0\n--- stdout\n").and_then(|rest| rest.strip_suffix("--- stderr\n"));
    let table: Value = serde_json::from_str(text.unwrap_or_else(|| panic!("{shown}"))).expect("JSON");
    table["configurations"].as_array().expect("rows").clone()
}
