//! Precision maps that come from others, go to others, or are held to another model: `export`, `import`, `check`.

use std::path::PathBuf;

use clap::Args;

use super::typed::{at_least_one, window};
use crate::export::Engine;
use crate::score::Objective;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Engines: kvtuner, hf, llama.cpp, ik-llama, vllm, modelopt, tensorrt-llm, sglang, lmdeploy, mlx, exllamav3.
Standard error says what is exact and what is lost.

Examples:
  kvtune export -p runs/smollm2-135m/kivi/precision.yaml --to hf -o kvtune_cache.py
  kvtune export -p runs/smollm2-135m/kivi/precision.yaml --to llama.cpp
  kvtune export -p runs/smollm2-135m/kivi/precision.yaml --to ik-llama --score -m smollm2-135m")]
pub(in crate::cli) struct ExportArgs {
    /// The precision map
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) precision: PathBuf,
    /// The engine
    #[arg(long, value_name = "ENGINE")]
    pub(in crate::cli) to: Engine,
    /// Where to write it; without it to standard output
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) out: Option<PathBuf>,
    /// Scheme of a map that names none; a search space file, or kivi | per-token-asym
    #[arg(long, value_name = "SCHEME", default_value = "kivi")]
    pub(in crate::cli) scheme: String,
    /// Score the map that the engine can say against the one that was chosen
    #[arg(long, requires = "model")]
    pub(in crate::cli) score: bool,
    /// The model to score on
    #[arg(short, long, value_name = "MODEL")]
    pub(in crate::cli) model: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) texts: TextArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kvtune import KVTuner4_0.yaml -o precision.yaml
  kvtune import KVTuner4_0.yaml > precision.yaml")]
pub(in crate::cli) struct ImportArgs {
    /// KVTuner's YAML, or ours
    #[arg(value_name = "FILE.yaml")]
    pub(in crate::cli) file: PathBuf,
    /// Where to write it; without it to standard output
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Without a text the prompts are those of the job beside the map (its select and test splits), or else generated ones;
the limit on the loss is that job's too, unless it is typed.

Examples:
  kvtune check -p runs/smollm2-135m/kivi/precision.yaml -m ./my-fine-tune
  kvtune check -p precision.yaml -m ./my-fine-tune --text chats.txt --objective kl --max-loss 0.02")]
pub(in crate::cli) struct CheckArgs {
    /// The precision map
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) precision: PathBuf,
    /// The model to score it on
    #[arg(short, long, value_name = "MODEL")]
    pub(in crate::cli) model: String,
    /// Scheme of a map that names none; a search space file, or kivi | per-token-asym
    #[arg(long, value_name = "SCHEME", default_value = "kivi")]
    pub(in crate::cli) scheme: String,
    /// The loss: flips, kl or nll
    #[arg(long, value_name = "OBJECTIVE", value_parser = objective)]
    pub(in crate::cli) objective: Option<Objective>,
    /// The loss that the map may have, in the objective's unit
    #[arg(long, value_name = "LOSS", allow_negative_numbers = true)]
    pub(in crate::cli) max_loss: Option<f64>,
    #[command(flatten)]
    pub(in crate::cli) texts: TextArgs,
}

/// What maps are scored on.
#[derive(Debug, Args)]
pub(in crate::cli) struct TextArgs {
    /// Score on windows of this text instead of on prompts
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) text: Option<PathBuf>,
    /// Tokens of a window of the text
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = window)]
    pub(in crate::cli) window: usize,
    /// Windows at most, from the start of the text
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(in crate::cli) windows: Option<usize>,
}

fn objective(text: &str) -> Result<Objective, String> {
    let all = [Objective::Flips, Objective::Kl, Objective::Nll];
    let found = all.into_iter().find(|objective| objective.to_string() == text);
    found.ok_or_else(|| String::from("expected flips, kl or nll"))
}
