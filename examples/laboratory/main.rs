//! Experiments: what each searcher, table, pruning and clustering is worth, which losses rank maps as answers do, and
//! whether rounded weights change which layers are sensitive.
//!
//! `cargo run --release --example laboratory -- <experiment> <folder of a job>`; each writes a CSV and prints a
//! table. Same folder, same figures. Not part of the product: the tables in `results/` come from here.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints tables")]

mod ablation;
mod additive;
mod bench;
mod claims;
mod folder;
mod layers;
mod objectives;
mod proxy;
mod searchers;
mod spaces;
mod spread;
mod statistics;
mod told;
mod weights;

use std::path::PathBuf;

use ablation::Plan;
use anyhow::ensure;
use bench::{Bench, BenchOptions, Subject};
use clap::{Args, Parser, Subcommand, ValueEnum};
use folder::Folder;
use kvtune::score::Objective;

#[derive(Parser)]
#[command(about = "Experiments on how maps are searched for, and by what")]
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
        /// Threads, where groups alone are still to be measured
        #[arg(short = 'j', long, default_value_t = 2)]
        threads: usize,
    },
    /// The additive model's prediction against what random maps really cost
    Additive {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        bench: BenchOptions,
        /// Random maps
        #[arg(long, default_value_t = 200)]
        maps: usize,
        /// Seed of the draw
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// The additive front over single layers against that over groups
    Layers {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        bench: BenchOptions,
        /// Maps of each front that are evaluated
        #[arg(long, default_value_t = 12)]
        points: usize,
    },
    /// Whether the same layers stay sensitive once the weights of linear layers are rounded
    Weights {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        bench: BenchOptions,
        #[command(flatten)]
        rounding: weights::RoundingOptions,
    },
    /// How well each cheap loss ranks maps as answers to questions do
    Objectives {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        bench: BenchOptions,
        #[command(flatten)]
        options: objectives::ObjectivesOptions,
    },
    /// Searches without pruning and grouping, with either, with both
    Ablation(Searches),
    /// Searches with the three treatments of layers that are like no other
    Noise(Searches),
    /// What the files of some jobs say of the paper's claims
    Claims {
        /// Folders of jobs
        #[arg(required = true)]
        jobs: Vec<PathBuf>,
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
    fn open(&self) -> anyhow::Result<(Folder, PathBuf)> {
        Ok((Folder::read(&self.job)?, self.out.clone().unwrap_or_else(|| self.job.clone())))
    }

    fn with_model(&self, options: &BenchOptions) -> anyhow::Result<(Folder, PathBuf, Bench)> {
        let (folder, out) = self.open()?;
        let bench = Bench::open(&folder, options, &out)?;
        Ok((folder, out, bench))
    }
}

#[derive(Args)]
struct Searches {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    bench: BenchOptions,
    /// Evaluations of each search, measurements included
    #[arg(long, default_value_t = 100)]
    evaluations: usize,
    /// Searches of each kind
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// What is minimized next to bits
    #[arg(long, value_enum, default_value_t = Loss::Kl)]
    objective: Loss,
}

#[derive(Clone, Copy, ValueEnum)]
enum Loss {
    Kl,
    Flips,
}

impl Searches {
    fn run(
        &self,
        name: &str,
        spaces: fn(&Folder) -> anyhow::Result<Vec<spaces::Named>>,
    ) -> anyhow::Result<String> {
        ensure!(self.evaluations > 0, "`--evaluations` is 0, expected at least 1");
        let (folder, out, mut bench) = self.place.with_model(&self.bench)?;
        let objective = match self.objective {
            Loss::Kl => Objective::Kl,
            Loss::Flips => Objective::Flips,
        };
        let plan = Plan { objective, evaluations: self.evaluations, seeds: self.seeds };
        let spaces = spaces(&folder)?;
        ablation::run(&folder, &mut bench, (name, &spaces), plan, &out)
    }
}

fn main() -> anyhow::Result<()> {
    print!("{}", run(&Cli::parse().experiment)?);
    Ok(())
}

fn run(experiment: &Experiment) -> anyhow::Result<String> {
    match experiment {
        Experiment::Searchers { place, max_bits, threads } => {
            let (mut folder, out) = place.open()?;
            if folder.isolated().is_none() && folder.path.join("trace.safetensors").exists() {
                let mut bench = Bench::open(&folder, &BenchOptions::all(*threads), &folder.path)?;
                folder.measure_isolated(&mut bench)?;
            }
            searchers::run(&folder, *max_bits, &out)
        }
        Experiment::Additive { place, bench, maps, seed } => {
            let (folder, out, mut bench) = place.with_model(bench)?;
            additive::run(&folder, &mut bench, *maps, *seed, &out)
        }
        Experiment::Layers { place, bench, points } => {
            let (folder, out, mut bench) = place.with_model(bench)?;
            layers::run(&folder, &mut bench, *points, &out)
        }
        Experiment::Weights { place, bench, rounding } => {
            let (folder, out) = place.open()?;
            let subject = Subject::open(&folder, bench)?;
            weights::run(&folder, &subject, rounding, &out)
        }
        Experiment::Objectives { place, bench, options } => {
            let threads = bench.threads;
            let (folder, out, bench) = place.with_model(bench)?;
            objectives::run(&folder, bench, options, threads, &out)
        }
        Experiment::Ablation(searches) => searches.run("ablation", spaces::ablation),
        Experiment::Noise(searches) => searches.run("noise", spaces::noise),
        Experiment::Claims { jobs } => claims::run(jobs),
    }
}
