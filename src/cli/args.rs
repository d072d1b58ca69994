//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::env;
use crate::bench::Cell;
use crate::cache::CacheKind;
use crate::job::Overrides;
use crate::model::{WeightType, generate};
use crate::precision::PrecisionPair;

/// Finds, offline and once per model, the bit width each layer's key and value cache needs.
#[derive(Debug, Parser)]
#[command(name = "kvtune", version, propagate_version = true, disable_help_subcommand = true)]
#[command(max_term_width = 100, after_long_help = EXAMPLES)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) global: Global,
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
pub(super) struct Global {
    /// Say less: -q no progress, -qq errors only
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "verbose")]
    pub(super) quiet: u8,
    /// Say more: -v prints the job with every default filled in
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
    /// When to color messages
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(super) color: Color,
    /// Show no progress bars
    #[arg(long, global = true)]
    pub(super) no_progress: bool,
    /// Threads to work on, 0 for all cores; changes time, never results
    #[arg(short = 'j', long, global = true, value_name = "N", env = env::THREADS, default_value_t = 0, value_parser = threads)]
    pub(super) threads: usize,
    /// What the model runs on
    #[arg(long, global = true, value_name = "DEVICE", default_value = "cpu")]
    pub(super) device: crate::model::Device,
    /// Leave weights in their file and read a layer at a time, as is done where they would not fit into memory
    #[arg(long, global = true)]
    pub(super) stream_weights: bool,
    /// Touch no network
    #[arg(long, global = true)]
    pub(super) offline: bool,
}

/// More threads than any one machine has cores are a typing error.
fn threads(typed: &str) -> Result<usize, String> {
    within(typed, 0..=1024)
}

fn new_tokens(typed: &str) -> Result<usize, String> {
    within(typed, 1..=1 << 24)
}

fn lanes(typed: &str) -> Result<usize, String> {
    within(typed, 1..=1024)
}

fn top_k(typed: &str) -> Result<usize, String> {
    within(typed, 1..=usize::MAX)
}

fn temperature(typed: &str) -> Result<f64, String> {
    let found = typed.parse().ok().filter(|found: &f64| found.is_finite() && *found >= 0.0);
    found.ok_or_else(|| String::from("expected a number of at least 0"))
}

fn top_p(typed: &str) -> Result<f64, String> {
    let found = typed.parse().ok().filter(|&found: &f64| found > 0.0 && found <= 1.0);
    found.ok_or_else(|| String::from("expected a number above 0, and 1 at most"))
}

/// A window of one token has no token to predict.
fn window(typed: &str) -> Result<usize, String> {
    within(typed, 2..=1 << 20)
}

fn windows(typed: &str) -> Result<usize, String> {
    within(typed, 1..=usize::MAX)
}

fn within(typed: &str, range: std::ops::RangeInclusive<usize>) -> Result<usize, String> {
    let found = typed.parse().ok().filter(|found| range.contains(found));
    found.ok_or_else(|| match *range.end() {
        usize::MAX => format!("expected a whole number of at least {}", range.start()),
        most => format!("expected a whole number from {} to {most}", range.start()),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// On a terminal
    Auto,
    /// Even into a file
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
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
    /// Draw pareto.csv or sensitivity.csv
    Plot(PlotArgs),
    /// List or fetch known models
    #[command(
        subcommand,
        after_long_help = "Examples:\n  kvtune model list --format json\n  kvtune model pull smollm2-135m"
    )]
    Model(ModelCommand),
    /// Continue a prompt, or many side by side, with the cache of your choice
    Generate(GenerateArgs),
    /// Compare cache precisions on a text: perplexity, KL divergence, flips
    Eval(EvalArgs),
    /// Measure time and memory of cache precisions, batch by length
    Bench(BenchArgs),
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
pub(super) struct CalibrateArgs {
    /// The job; without it calibration/quickstart.yaml, or the copy inside the program
    #[arg(value_name = "JOB")]
    pub(super) job: Option<PathBuf>,
    #[command(flatten)]
    pub(super) options: JobOptions,
}

#[derive(Debug, Args)]
pub(super) struct JobArgs {
    /// The job, `-` for standard input; the `job.yaml` of a run is one too
    #[arg(value_name = "JOB")]
    pub(super) job: PathBuf,
    #[command(flatten)]
    pub(super) options: JobOptions,
}

/// What may be said over the job's file.
#[derive(Debug, Args)]
pub(super) struct JobOptions {
    /// Another model: a name from `kvtune model list`, a directory, a .gguf file or a hub id
    #[arg(short, long, value_name = "MODEL")]
    pub(super) model: Option<String>,
    /// Another folder for the results
    #[arg(short, long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Another seed, for prompts and search
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Replace results of other inputs in the folder
    #[arg(long)]
    pub(super) force: bool,
    /// Print what would be done, and do nothing
    #[arg(long)]
    pub(super) dry_run: bool,
}

impl JobOptions {
    pub(super) fn overrides(&self) -> Overrides {
        Overrides { model: self.model.clone(), out: self.out.clone(), seed: self.seed }
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kvtune plot runs/smollm2-135m/kivi/pareto.csv                       writes pareto.svg beside it
  kvtune plot runs/smollm2-135m/kivi/sensitivity.csv -o errors.png")]
pub(super) struct PlotArgs {
    /// pareto.csv or sensitivity.csv
    #[arg(value_name = "FILE.csv")]
    pub(super) file: PathBuf,
    /// The figure, .svg or .png; without it beside the file, as SVG
    #[arg(short, long, value_name = "FIGURE")]
    pub(super) out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum ModelCommand {
    /// List known models: source, license, size, sha256
    List(FormatArgs),
    /// Fetch a model, and print where it lies
    Pull(PullArgs),
}

#[derive(Debug, Args)]
pub(super) struct PullArgs {
    /// A name from `kvtune model list`, or a hub id
    #[arg(value_name = "NAME")]
    pub(super) name: String,
}

#[derive(Debug, Args)]
pub(super) struct WeightArgs {
    /// What weights are held as in memory: f32, f16 or bf16
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    pub(super) weights: WeightType,
}

#[derive(Debug, Args)]
pub(super) struct FormatArgs {
    /// How to print data
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub(super) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Columns to read
    Table,
    /// One object with `format_version`
    Json,
    /// A header and rows
    Csv,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kvtune generate -m smollm2-135m --chat \"What is a key-value cache?\"
  kvtune generate -m smollm2-135m -p runs/smollm2-135m/kivi/precision.yaml \"Once upon a time\"
  kvtune generate -m smollm2-135m --uniform K8V4 --prompts prompts.txt > texts.jsonl")]
pub(super) struct GenerateArgs {
    /// The model
    #[arg(short, long, value_name = "MODEL")]
    pub(super) model: String,
    /// The text to continue, `-` for standard input
    #[arg(value_name = "PROMPT", required_unless_present = "prompts", conflicts_with = "prompts")]
    pub(super) prompt: Option<String>,
    /// Many texts, one a line or as JSON lines with `prompt`; prints a JSON object a line, in their order
    #[arg(long, value_name = "FILE")]
    pub(super) prompts: Option<PathBuf>,
    /// Put each prompt into the model's chat template
    #[arg(long)]
    pub(super) chat: bool,
    /// Tokens to add at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128, value_parser = new_tokens)]
    pub(super) max_new_tokens: usize,
    #[command(flatten)]
    pub(super) weights: WeightArgs,
    #[command(flatten)]
    pub(super) cache: CacheArgs,
    #[command(flatten)]
    pub(super) sampling: SamplingArgs,
    /// Prompts that go side by side, at most
    #[arg(long, value_name = "N", default_value_t = generate::LANES, value_parser = lanes)]
    pub(super) lanes: usize,
}

/// What keys and values are held in.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cache")]
pub(super) struct CacheArgs {
    /// The precision map
    #[arg(short, long, value_name = "FILE", conflicts_with = "uniform")]
    pub(super) precision: Option<PathBuf>,
    /// One pair for all layers, instead of a map
    #[arg(long, value_name = "PAIR")]
    pub(super) uniform: Option<PrecisionPair>,
    /// Scheme of `--uniform` and of a map that names none; a search space file, or kivi | per-token-asym
    #[arg(long, value_name = "SCHEME", default_value = "kivi")]
    pub(super) scheme: String,
    /// What holds the keys and values; packed with a map or pair, else full
    #[arg(long, value_name = "KIND")]
    pub(super) cache: Option<Cache>,
}

/// How tokens are chosen.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(super) struct SamplingArgs {
    /// 0 takes the most likely token each time; more makes others likelier
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = temperature)]
    pub(super) temperature: f64,
    /// Choose among so many of the most likely tokens
    #[arg(long, value_name = "K", value_parser = top_k)]
    pub(super) top_k: Option<usize>,
    /// Choose among the most likely tokens that together have this probability
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = top_p)]
    pub(super) top_p: f64,
    /// Where the random numbers of `--temperature` start
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Cache {
    /// Full precision, f32
    Full,
    /// What codes would read as, held as f32
    Simulated,
    /// Codes
    Packed,
}

impl From<Cache> for CacheKind {
    fn from(cache: Cache) -> Self {
        match cache {
            Cache::Full => Self::Full,
            Cache::Simulated => Self::Simulated,
            Cache::Packed => Self::Packed,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kvtune eval -m smollm2-135m text.txt --uniform KV8,KV4,KV2
  kvtune eval -m smollm2-135m text.txt -p runs/smollm2-135m/kivi/precision.yaml --format csv")]
pub(super) struct EvalArgs {
    /// The text
    #[arg(value_name = "TEXT")]
    pub(super) text: PathBuf,
    /// The model
    #[arg(short, long, value_name = "MODEL")]
    pub(super) model: String,
    /// Precision maps to compare
    #[arg(short, long, value_name = "FILE")]
    pub(super) precision: Vec<PathBuf>,
    /// Pairs to compare, each for all layers
    #[arg(long, value_name = "PAIR", value_delimiter = ',')]
    pub(super) uniform: Vec<PrecisionPair>,
    /// Scheme of `--uniform` and of maps that name none; a search space file, or kivi | per-token-asym
    #[arg(long, value_name = "SCHEME", default_value = "kivi")]
    pub(super) scheme: String,
    /// Tokens of a window
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = window)]
    pub(super) window: usize,
    /// Windows at most, from the start of the text
    #[arg(long, value_name = "N", value_parser = windows)]
    pub(super) windows: Option<usize>,
    /// What holds the keys and values; both give the same numbers, but for rounding
    #[arg(long, value_name = "KIND", default_value = "simulated")]
    pub(super) cache: QuantizedCache,
    #[command(flatten)]
    pub(super) weights: WeightArgs,
    #[command(flatten)]
    pub(super) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kvtune bench -m smollm2-135m
  kvtune bench -m smollm2-135m -p runs/smollm2-135m/kivi/precision.yaml --uniform KV8 --cells 8x4096 --format csv")]
pub(super) struct BenchArgs {
    /// The model
    #[arg(short, long, value_name = "MODEL")]
    pub(super) model: String,
    /// Precision maps to compare
    #[arg(short, long, value_name = "FILE")]
    pub(super) precision: Vec<PathBuf>,
    /// Pairs to compare, each for all layers; without any and without maps KV8, KV4 and K4V2
    #[arg(long, value_name = "PAIR", value_delimiter = ',')]
    pub(super) uniform: Vec<PrecisionPair>,
    /// Scheme of `--uniform` and of maps that name none; a search space file, or kivi | per-token-asym
    #[arg(long, value_name = "SCHEME", default_value = "kivi")]
    pub(super) scheme: String,
    /// How quantized caches are held
    #[arg(long, value_name = "KIND", default_value = "packed")]
    pub(super) cache: QuantizedCache,
    /// Batches and lengths in tokens
    #[arg(
        long,
        value_name = "BATCHxLENGTH",
        value_delimiter = ',',
        default_value = "1x512,8x512,1x4096,8x4096"
    )]
    pub(super) cells: Vec<Cell>,
    /// Tokens of the prompt that prefill is timed on, at most the cell's length
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = windows)]
    pub(super) prompt: usize,
    /// Steps of a round
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = windows)]
    pub(super) steps: usize,
    /// Rounds, in each of which all configurations take their turn
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = windows)]
    pub(super) rounds: usize,
    /// Time cells that are longer than the model's context
    #[arg(long)]
    pub(super) beyond: bool,
    #[command(flatten)]
    pub(super) weights: WeightArgs,
    #[command(flatten)]
    pub(super) format: FormatArgs,
}

/// How a quantized cache is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum QuantizedCache {
    /// As codes
    Packed,
    /// As f32 that codes would read as
    Simulated,
}

impl From<QuantizedCache> for CacheKind {
    fn from(typed: QuantizedCache) -> Self {
        match typed {
            QuantizedCache::Packed => Self::Packed,
            QuantizedCache::Simulated => Self::Simulated,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(super) shell: clap_complete::Shell,
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
