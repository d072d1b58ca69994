//! What can be typed.

mod analyze;
mod compare;
mod dgap;
mod exchange;
mod generate;
mod typed;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(super) use self::analyze::AnalyzeArgs;
pub(super) use self::compare::{BenchArgs, EvalArgs, MapsArgs, TaskArgs, WindowArgs};
pub(super) use self::dgap::{
    DgapCommand, DgapEvalArgs, DgapExportArgs, DgapTrainArgs, RestoreArgs, SettingArgs, TuningArgs,
};
pub(super) use self::exchange::{CheckArgs, ExportArgs, ImportArgs, TextArgs};
pub(super) use self::generate::{Cache, CacheArgs, GenerateArgs, SamplingArgs};

use self::typed::threads;
use super::env;
use crate::job::Overrides;
use crate::model::WeightType;

/// Finds, offline and once per model, the bit width each layer's key and value cache needs.
#[derive(Debug, Parser)]
#[command(name = "kvtune", version, propagate_version = true, disable_help_subcommand = true)]
#[command(max_term_width = 100, after_long_help = EXAMPLES)]
pub(in crate::cli) struct Cli {
    #[command(subcommand)]
    pub(in crate::cli) command: Option<Command>,
    #[command(flatten)]
    pub(in crate::cli) global: Global,
}

const EXAMPLES: &str = "\
Examples:
  kvtune calibrate                                    the quickstart job: smollm2-135m, some minutes
  kvtune calibrate -m Qwen/Qwen2.5-0.5B-Instruct      the same job for another model
  kvtune calibrate calibration/thorough.yaml          a job for real use
  kvtune plot runs/smollm2-135m/kivi/pareto.csv       its Pareto front, as SVG";

/// Taken by every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(in crate::cli) struct Global {
    /// Say less: -q no progress, -qq errors only
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "verbose")]
    pub(in crate::cli) quiet: u8,
    /// Say more: -v prints the job with every default filled in
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(in crate::cli) verbose: u8,
    /// When to color messages
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(in crate::cli) color: Color,
    /// Show no progress bars
    #[arg(long, global = true)]
    pub(in crate::cli) no_progress: bool,
    /// Threads to work on, 0 for all cores; changes time, never results
    #[arg(short = 'j', long, global = true, value_name = "N", env = env::THREADS, default_value_t = 0, value_parser = threads)]
    pub(in crate::cli) threads: usize,
    /// What the model runs on
    #[arg(long, global = true, value_name = "DEVICE", default_value = "cpu")]
    pub(in crate::cli) device: crate::model::Device,
    /// Leave weights in their file and read a layer at a time, as is done where they would not fit into memory
    #[arg(long, global = true)]
    pub(in crate::cli) stream_weights: bool,
    /// Touch no network
    #[arg(long, global = true)]
    pub(in crate::cli) offline: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Color {
    /// On a terminal
    Auto,
    /// Even into a file
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Run a whole job: trace, sensitivity, space, search, select
    Calibrate(CalibrateArgs),
    /// Stage 1: record prompts and the model's own continuation of them
    #[command(after_long_help = "Example:\n  kvtune trace calibration/thorough.yaml")]
    Trace(JobArgs),
    /// Stage 2: measure the error of each layer at each precision pair
    #[command(after_long_help = "Example:\n  kvtune sensitivity calibration/thorough.yaml")]
    Sensitivity(JobArgs),
    /// Stage 3: drop dominated pairs and group like layers
    #[command(after_long_help = "Example:\n  kvtune space calibration/thorough.yaml")]
    Space(JobArgs),
    /// Stage 4: search the space for the Pareto front
    #[command(after_long_help = "Example:\n  kvtune search calibration/thorough.yaml")]
    Search(JobArgs),
    /// Stage 5: choose from the front and write the precision map
    #[command(after_long_help = "Example:\n  kvtune select calibration/thorough.yaml")]
    Select(JobArgs),
    /// Train and judge heads that repair what low-bit caches break
    #[command(
        subcommand,
        after_long_help = "Example:\n  kvtune dgap train runs/smollm2-135m/kivi --uniform KV1"
    )]
    Dgap(DgapCommand),
    /// Say why layers are sensitive: attention patterns, key outliers, the map a step lower
    Analyze(AnalyzeArgs),
    /// Draw pareto.csv, sensitivity.csv, heads.csv, dgap.csv, the CSV of a bench or a map
    Plot(PlotArgs),
    /// Write a job's results as one page to read: report.html
    Report(ReportArgs),
    /// List or fetch known models
    #[command(
        subcommand,
        after_long_help = "Examples:\n  kvtune model list --format json\n  kvtune model pull smollm2-135m"
    )]
    Model(ModelCommand),
    /// Continue a prompt, or many side by side, with the cache of your choice
    Generate(GenerateArgs),
    /// Compare cache precisions on a text (perplexity, KL, flips) or on questions (accuracy)
    Eval(Box<EvalArgs>),
    /// Measure time and memory of cache precisions, batch by length
    Bench(BenchArgs),
    /// Write a precision map in the spelling of an inference engine
    Export(ExportArgs),
    /// Read a precision map of others, and write it as one of ours
    Import(ImportArgs),
    /// Say whether a precision map is good for another model of the same shape
    Check(CheckArgs),
    /// Print a completion script
    #[command(
        after_long_help = "Example:\n  kvtune completions bash > ~/.local/share/bash-completion/completions/kvtune"
    )]
    Completions(CompletionsArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kvtune calibrate                              calibration/quickstart.yaml
  kvtune calibrate -m ./my-model --dry-run      what would be done for another model
  kvtune calibrate calibration/per-token.yaml -o runs/mine --seed 1")]
pub(in crate::cli) struct CalibrateArgs {
    /// The job; without it calibration/quickstart.yaml, or the copy inside the program
    #[arg(value_name = "JOB")]
    pub(in crate::cli) job: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) options: JobOptions,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct JobArgs {
    /// The job, `-` for standard input; the `job.yaml` of a run is one too
    #[arg(value_name = "JOB")]
    pub(in crate::cli) job: PathBuf,
    #[command(flatten)]
    pub(in crate::cli) options: JobOptions,
}

/// What may be said over the job's file.
#[derive(Debug, Args)]
pub(in crate::cli) struct JobOptions {
    /// Another model: a name from `kvtune model list`, a directory, a .gguf file or a hub id
    #[arg(short, long, value_name = "MODEL")]
    pub(in crate::cli) model: Option<String>,
    /// Another folder for the results
    #[arg(short, long, value_name = "DIR")]
    pub(in crate::cli) out: Option<PathBuf>,
    /// Another seed, for prompts and search
    #[arg(long, value_name = "N")]
    pub(in crate::cli) seed: Option<u64>,
    /// Replace results of other inputs in the folder
    #[arg(long)]
    pub(in crate::cli) force: bool,
    /// Print what would be done, and do nothing
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
}

impl JobOptions {
    pub(in crate::cli) fn overrides(&self) -> Overrides {
        Overrides { model: self.model.clone(), out: self.out.clone(), seed: self.seed }
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kvtune plot runs/smollm2-135m/kivi/pareto.csv                       writes pareto.svg beside it
  kvtune plot runs/smollm2-135m/kivi/sensitivity.csv -o errors.png
  kvtune plot runs/smollm2-135m/kivi/precision.yaml                   the bits of each layer")]
pub(in crate::cli) struct PlotArgs {
    /// pareto.csv, sensitivity.csv, heads.csv, dgap.csv, what `bench` or `eval --task` printed as CSV, or a map
    #[arg(value_name = "FILE")]
    pub(in crate::cli) file: PathBuf,
    /// The figure, .svg or .png; without it beside the file, as SVG
    #[arg(short, long, value_name = "FIGURE")]
    pub(in crate::cli) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
A job writes its report by itself; this writes it anew, with what other commands left in the folder since.

Examples:
  kvtune report runs/smollm2-135m/kivi
  kvtune report runs/smollm2-135m/kivi -o smollm2.html")]
pub(in crate::cli) struct ReportArgs {
    /// The folder of a job, finished or not
    #[arg(value_name = "DIR")]
    pub(in crate::cli) folder: PathBuf,
    /// The page; without it report.html in the folder
    #[arg(short, long, value_name = "PAGE.html")]
    pub(in crate::cli) out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ModelCommand {
    /// List known models: source, license, size, sha256
    List(FormatArgs),
    /// Fetch a model, and print where it lies
    Pull(PullArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PullArgs {
    /// A name from `kvtune model list`, or a hub id
    #[arg(value_name = "NAME")]
    pub(in crate::cli) name: String,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WeightArgs {
    /// What weights are held as in memory: f32, f16 or bf16
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    pub(in crate::cli) weights: WeightType,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct FormatArgs {
    /// How to print data
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(in crate::cli) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Format {
    /// Columns to read
    Table,
    /// One object with `format_version`
    Json,
    /// A header and rows
    Csv,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(in crate::cli) shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
