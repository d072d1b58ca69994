//! Text from one cache: `generate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::typed::{at_least_one, lanes, new_tokens, temperature, top_p};
use super::{RestoreArgs, WeightArgs};
use crate::cache::CacheKind;
use crate::model::generate;
use crate::precision::PrecisionPair;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kvtune generate -m smollm2-135m --chat \"What is a key-value cache?\"
  kvtune generate -m smollm2-135m -p runs/smollm2-135m/kivi/precision.yaml \"Once upon a time\"
  kvtune generate -m smollm2-135m --uniform K8V4 --prompts prompts.txt > texts.jsonl")]
pub(in crate::cli) struct GenerateArgs {
    /// The model
    #[arg(short, long, value_name = "MODEL")]
    pub(in crate::cli) model: String,
    /// The text to continue, `-` for standard input
    #[arg(value_name = "PROMPT", required_unless_present = "prompts", conflicts_with = "prompts")]
    pub(in crate::cli) prompt: Option<String>,
    /// Many texts, one a line or as JSON lines with `prompt`; prints a JSON object a line, in their order
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) prompts: Option<PathBuf>,
    /// Put each prompt into the model's chat template
    #[arg(long)]
    pub(in crate::cli) chat: bool,
    /// Tokens to add at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128, value_parser = new_tokens)]
    pub(in crate::cli) max_new_tokens: usize,
    #[command(flatten)]
    pub(in crate::cli) weights: WeightArgs,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArgs,
    #[command(flatten)]
    pub(in crate::cli) sampling: SamplingArgs,
    #[command(flatten)]
    pub(in crate::cli) restore: RestoreArgs,
    /// Prompts that go side by side, at most
    #[arg(long, value_name = "N", default_value_t = generate::LANES, value_parser = lanes)]
    pub(in crate::cli) lanes: usize,
}

/// What keys and values are held in.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cache")]
pub(in crate::cli) struct CacheArgs {
    /// The precision map
    #[arg(short, long, value_name = "FILE", conflicts_with = "uniform")]
    pub(in crate::cli) precision: Option<PathBuf>,
    /// One pair for all layers, instead of a map
    #[arg(long, value_name = "PAIR")]
    pub(in crate::cli) uniform: Option<PrecisionPair>,
    /// Scheme of `--uniform` and of a map that names none; a search space file, or kivi | per-token-asym
    #[arg(long, value_name = "SCHEME", default_value = "kivi")]
    pub(in crate::cli) scheme: String,
    /// What holds the keys and values; packed with a map or pair, else full
    #[arg(long, value_name = "KIND")]
    pub(in crate::cli) cache: Option<Cache>,
}

/// How tokens are chosen.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(in crate::cli) struct SamplingArgs {
    /// 0 takes the most likely token each time; more makes others likelier
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = temperature)]
    pub(in crate::cli) temperature: f64,
    /// Choose among so many of the most likely tokens
    #[arg(long, value_name = "K", value_parser = at_least_one)]
    pub(in crate::cli) top_k: Option<usize>,
    /// Choose among the most likely tokens that together have this probability
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = top_p)]
    pub(in crate::cli) top_p: f64,
    /// Where the random numbers of `--temperature` start
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(in crate::cli) seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Cache {
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
