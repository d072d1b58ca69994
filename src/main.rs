//! The `kvtune` program; see [`kvtune::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    kvtune::cli::main()
}
