//! The one place that prints: data to standard output, all else to standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use super::args::{Color, Global};
use super::env;

/// How messages are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    color: bool,
    quiet: u8,
    verbose: u8,
}

/// Escape codes; messages read the same without them.
const RESET: &str = "\x1b[0m";
const ERROR: &str = "\x1b[1;31m";
const WARNING: &str = "\x1b[1;33m";
const HINT: &str = "\x1b[1;36m";

impl Output {
    pub(super) fn new(global: &Global) -> Self {
        Self { color: colored(global.color), quiet: global.quiet, verbose: global.verbose }
    }

    /// What the user asked for, whatever `--quiet` says.
    pub(super) fn data(self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// What was done, unless `-qq`.
    pub(super) fn note(self, text: impl Display) {
        if self.quiet < 2 {
            to_stderr(format_args!("{text}"));
        }
    }

    /// Details, with `-v`.
    pub(super) fn detail(self, text: impl Display) {
        if self.verbose > 0 {
            to_stderr(format_args!("{text}"));
        }
    }

    /// Something that a user should act on, unless `-qq`.
    pub(super) fn warning(self, text: impl Display) {
        if self.quiet < 2 {
            to_stderr(format_args!("{} {text}", self.painted(WARNING, "warning:")));
        }
    }

    /// What went wrong, and what may help.
    pub(super) fn error(self, text: impl Display, hint: Option<&str>) {
        to_stderr(format_args!("{} {text}", self.painted(ERROR, "error:")));
        if let Some(hint) = hint {
            to_stderr(format_args!("\n{} {hint}", self.painted(HINT, "hint:")));
        }
    }

    fn painted(self, paint: &str, text: &str) -> String {
        if self.color { format!("{paint}{text}{RESET}") } else { text.to_owned() }
    }
}

fn colored(color: Color) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => env::forces_color() || (io::stderr().is_terminal() && !env::forbids_color()),
    }
}

/// Where standard error is closed there is nobody to tell.
fn to_stderr(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
