//! The command line: arguments, environment, printing, progress, exit codes. Numerics live elsewhere.
//!
//! | file | what |
//! |---|---|
//! | `args` | what can be typed |
//! | `env` | what is read from the environment, and nowhere else |
//! | `memory` | how much of it is free |
//! | `commands` | one function per command |
//! | `output`, `table`, `progress` | what is printed, and nowhere else |
//! | `places` | where results may not go |
//! | `exit` | errors → exit code, message, hint |

mod args;
mod commands;
mod env;
mod exit;
mod memory;
mod output;
mod places;
mod progress;
#[cfg(test)]
mod reference;
mod table;

pub use env::registry;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::Cli;
use output::Output;

/// Runs the command that was typed.
///
/// 0: done; 1: the run could not meet the request; 2: what was typed or written is wrong; 130: stopped by Ctrl-C
/// after what was done is saved. A reader that closes the pipe is no failure.
pub fn main() -> ExitCode {
    ExitCode::from(run())
}

fn run() -> u8 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::report_parse(&error),
    };
    let output = Output::new(&cli.global);
    let done = match cli.command {
        Some(command) => commands::run(command, &cli.global, output),
        None => output.data(&format!("{}\n", Cli::command().render_help())).map_err(Into::into),
    };
    match done {
        Ok(()) => exit::DONE,
        Err(error) => exit::report(&error, output),
    }
}
