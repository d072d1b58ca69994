//! Experiments on how maps are searched for: what each searcher, table, pruning and clustering is worth.
//!
//! `cargo run --release --example laboratory -- <experiment> <folder of a job>`; each writes a CSV and prints a
//! table. Same folder, same figures. Not part of the product: the tables in `results/` come from here.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints tables")]

mod folder;
mod proxy;
mod searchers;
mod statistics;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use folder::Folder;

#[derive(Parser)]
#[command(about = "Experiments on how maps are searched for")]
struct Cli {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// Every searcher at 50, 100 and 200 evaluations on the table of an exhaustive job
    Searchers {
        #[command(flatten)]
        place: Place,
        /// Count only configurations of at most so many equivalent bits
        #[arg(long, value_name = "BITS")]
        max_bits: Option<f64>,
    },
}

#[derive(Args)]
struct Place {
    /// Folder of a job
    job: PathBuf,
    /// Where results go; default: that folder
    #[arg(short, long)]
    out: Option<PathBuf>,
}

impl Place {
    fn out(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(|| self.job.clone())
    }
}

fn main() -> anyhow::Result<()> {
    let text = match Cli::parse().experiment {
        Experiment::Searchers { place, max_bits } => {
            searchers::run(&Folder::read(&place.job)?, max_bits, &place.out())?
        }
    };
    print!("{text}");
    Ok(())
}
