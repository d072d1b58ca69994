//! Several precision maps beside full precision: `eval`, `bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::typed::{at_least_one, lanes, repeats, window};
use super::{FormatArgs, RestoreArgs, WeightArgs};
use crate::bench::Cell;
use crate::cache::CacheKind;
use crate::model::BosPolicy;
use crate::precision::PrecisionPair;

/// What is compared with full precision.
#[derive(Debug, Args)]
pub(in crate::cli) struct MapsArgs {
    /// Precision maps to compare
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) precision: Vec<PathBuf>,
    /// Pairs to compare, each for all layers
    #[arg(long, value_name = "PAIR", value_delimiter = ',')]
    pub(in crate::cli) uniform: Vec<PrecisionPair>,
    /// Scheme of `--uniform` and of maps that name none; a search space file, or kivi | per-token-asym
    #[arg(long, value_name = "SCHEME", default_value = "kivi")]
    pub(in crate::cli) scheme: String,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kvtune eval -m smollm2-135m text.txt --uniform KV8,KV4,KV2
  kvtune eval -m smollm2-135m text.txt -p runs/smollm2-135m/kivi/precision.yaml --format csv
  kvtune eval -m smollm2-135m text.txt --uniform KV4 --window 1024 --stride 512
  kvtune eval -m smollm2-135m --task ruler-niah-single --length 1024 --items 20 --uniform KV4
  kvtune eval -m smollm2-135m --task gsm8k --data test.jsonl --train train.jsonl --shots 4 --uniform KV8,KV4")]
pub(in crate::cli) struct EvalArgs {
    /// The text, for perplexity; or a task with `--task`
    #[arg(value_name = "TEXT", required_unless_present = "task")]
    pub(in crate::cli) text: Option<PathBuf>,
    /// The model
    #[arg(short, long, value_name = "MODEL")]
    pub(in crate::cli) model: String,
    #[command(flatten)]
    pub(in crate::cli) maps: MapsArgs,
    /// What holds the keys and values; both give the same numbers, but for rounding
    #[arg(long, value_name = "KIND", default_value = "simulated")]
    pub(in crate::cli) cache: QuantizedCache,
    #[command(flatten)]
    pub(in crate::cli) weights: WeightArgs,
    #[command(flatten)]
    pub(in crate::cli) format: FormatArgs,
    #[command(flatten)]
    pub(in crate::cli) windows: WindowArgs,
    #[command(flatten)]
    pub(in crate::cli) task: TaskArgs,
    #[command(flatten)]
    pub(in crate::cli) restore: RestoreArgs,
}

/// How a text is cut.
#[derive(Debug, Args)]
#[command(next_help_heading = "Text")]
pub(in crate::cli) struct WindowArgs {
    /// Tokens of a window; 1024 by default
    #[arg(long, value_name = "N", value_parser = window)]
    pub(in crate::cli) window: Option<usize>,
    /// Tokens from one window's start to the next one's; by default a window's, so that none overlap. Each token is
    /// scored once, with at least a window less a stride of them before it but in the first window
    #[arg(long, value_name = "N")]
    pub(in crate::cli) stride: Option<usize>,
    /// Windows at most, from the start of the text
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(in crate::cli) windows: Option<usize>,
    /// Whether the token that begins texts (BOS) stands before each window, besides its tokens; never by default
    #[arg(long, value_name = "WHEN")]
    pub(in crate::cli) bos: Option<Bos>,
}

/// When a BOS is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Bos {
    /// As the model's own files say
    Auto,
    /// Always; an error where the model has none
    Always,
    /// Never
    Never,
}

impl From<Bos> for BosPolicy {
    fn from(typed: Bos) -> Self {
        match typed {
            Bos::Auto => Self::Auto,
            Bos::Always => Self::Always,
            Bos::Never => Self::Never,
        }
    }
}

/// Questions whose right answer is known.
#[derive(Debug, Args)]
#[command(next_help_heading = "Task")]
pub(in crate::cli) struct TaskArgs {
    /// Questions to ask in place of a text: gsm8k, mmlu, ruler-niah-single, …; a wrong name lists all
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) task: Option<String>,
    /// The task's questions, a file or a folder, as published
    #[arg(long, value_name = "PATH", requires = "task")]
    pub(in crate::cli) data: Option<PathBuf>,
    /// Where worked examples are taken from
    #[arg(long, value_name = "PATH", requires = "task")]
    pub(in crate::cli) train: Option<PathBuf>,
    /// Worked examples before each question, the task's own number with `--train`; `0,4,8` asks with each
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "task")]
    pub(in crate::cli) shots: Vec<usize>,
    /// Questions at most, from the start; 50 where they are generated
    #[arg(long, value_name = "N", requires = "task")]
    pub(in crate::cli) items: Option<usize>,
    /// Tokens of a generated prompt with its answer; 1024 by default
    #[arg(long, value_name = "TOKENS", requires = "task")]
    pub(in crate::cli) length: Option<usize>,
    /// Prompt texts in place of kvtune's own, YAML or JSON (longbench)
    #[arg(long, value_name = "FILE", requires = "task")]
    pub(in crate::cli) template: Option<PathBuf>,
    /// Tokens of an answer at most, in place of the task's own number; `50,200` marks answers at each
    #[arg(short = 'n', long, value_name = "N,…", value_delimiter = ',', requires = "task")]
    pub(in crate::cli) max_new_tokens: Vec<usize>,
    /// Decides which examples are drawn and what is generated; 0 by default
    #[arg(long, value_name = "N", requires = "task")]
    pub(in crate::cli) seed: Option<u64>,
    /// Save every answer as JSON lines
    #[arg(long, value_name = "FILE", requires = "task")]
    pub(in crate::cli) answers: Option<PathBuf>,
    /// Questions times configurations that go side by side, at most; 32 by default
    #[arg(long, value_name = "N", value_parser = lanes, requires = "task")]
    pub(in crate::cli) lanes: Option<usize>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Without maps and pairs KV8, KV4 and K4V2 are measured.

Examples:
  kvtune bench -m smollm2-135m
  kvtune bench -m smollm2-135m -p runs/smollm2-135m/kivi/precision.yaml --uniform KV8 --cells 8x4096 --format csv")]
pub(in crate::cli) struct BenchArgs {
    /// The model
    #[arg(short, long, value_name = "MODEL")]
    pub(in crate::cli) model: String,
    #[command(flatten)]
    pub(in crate::cli) maps: MapsArgs,
    /// How quantized caches are held
    #[arg(long, value_name = "KIND", default_value = "packed")]
    pub(in crate::cli) cache: QuantizedCache,
    /// Batches and lengths in tokens
    #[arg(
        long,
        value_name = "BATCHxLENGTH",
        value_delimiter = ',',
        default_value = "1x512,8x512,1x4096,8x4096"
    )]
    pub(in crate::cli) cells: Vec<Cell>,
    /// Tokens of the prompt that prefill is timed on, at most the cell's length
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = repeats)]
    pub(in crate::cli) prompt: usize,
    /// Steps of a round
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = repeats)]
    pub(in crate::cli) steps: usize,
    /// Rounds, in each of which all configurations take their turn
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = repeats)]
    pub(in crate::cli) rounds: usize,
    /// Time cells that are longer than the model's context
    #[arg(long)]
    pub(in crate::cli) beyond: bool,
    #[command(flatten)]
    pub(in crate::cli) weights: WeightArgs,
    #[command(flatten)]
    pub(in crate::cli) format: FormatArgs,
}

/// How a quantized cache is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum QuantizedCache {
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
