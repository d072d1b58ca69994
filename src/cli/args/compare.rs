//! Several precision maps beside full precision: `eval`, `bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::typed::{at_least_one, repeats, window};
use super::{FormatArgs, RestoreArgs};
use crate::bench::Cell;
use crate::cache::CacheKind;
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
  kvtune eval -m smollm2-135m text.txt -p runs/smollm2-135m/kivi/precision.yaml --format csv")]
pub(in crate::cli) struct EvalArgs {
    /// The text
    #[arg(value_name = "TEXT")]
    pub(in crate::cli) text: PathBuf,
    /// The model
    #[arg(short, long, value_name = "MODEL")]
    pub(in crate::cli) model: String,
    #[command(flatten)]
    pub(in crate::cli) maps: MapsArgs,
    /// Tokens of a window
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = window)]
    pub(in crate::cli) window: usize,
    /// Windows at most, from the start of the text
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(in crate::cli) windows: Option<usize>,
    /// What holds the keys and values; both give the same numbers, but for rounding
    #[arg(long, value_name = "KIND", default_value = "simulated")]
    pub(in crate::cli) cache: QuantizedCache,
    #[command(flatten)]
    pub(in crate::cli) restore: RestoreArgs,
    #[command(flatten)]
    pub(in crate::cli) format: FormatArgs,
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
