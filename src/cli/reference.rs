//! `docs/cli.md`: every command's help, from clap. `KVTUNE_BLESS=1` writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory};

use super::args::Cli;

const WIDTH: usize = 100;

/// The page.
fn page() -> String {
    let mut root = Cli::command().term_width(WIDTH);
    root.build();
    let mut out = String::from(
        "# Commands\n\nGenerated from the program's own help; do not edit.\nGlobal options stand under `kvtune` and go with every command.\n",
    );
    section(&mut root, &mut out);
    out
}

fn section(command: &mut Command, out: &mut String) {
    let name = command.get_bin_name().unwrap_or("kvtune").to_owned();
    let help = command.render_long_help().to_string();
    let mut lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    if name != "kvtune" {
        leave_out_global(&mut lines);
    }
    write!(out, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim()).expect("a string");
    command.get_subcommands_mut().for_each(|inner| section(inner, out));
}

/// Every command takes the same options, which stand under the program's own name.
fn leave_out_global(lines: &mut Vec<&str>) {
    let Some(start) = lines.iter().position(|line| *line == "Global options:") else { return };
    let rest = lines[start + 1..].iter().position(|line| !line.is_empty() && !line.starts_with(' '));
    let end = rest.map_or(lines.len(), |rest| start + 1 + rest);
    lines.drain(start..end);
}

#[test]
fn the_command_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cli.md");
    if std::env::var_os("KVTUNE_BLESS").is_some() {
        std::fs::write(&path, page()).expect("written");
    }
    let found = std::fs::read_to_string(&path).expect("docs/cli.md");
    assert!(found == page(), "docs/cli.md is stale: KVTUNE_BLESS=1 cargo test --workspace --lib reference");
}

#[test]
fn every_command_has_a_section() {
    let page = page();
    for command in Cli::command().get_subcommands() {
        assert!(page.contains(&format!("\n## `kvtune {}`\n", command.get_name())), "{}", command.get_name());
    }
}
