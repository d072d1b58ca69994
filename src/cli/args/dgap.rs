//! Heads that repair low-bit caches: `dgap`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::typed::{at_least_one, head_width, positive, share};
use crate::dgap::heads::Corrector;
use crate::dgap::loss::Divergence;
use crate::precision::PrecisionPair;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum DgapCommand {
    /// Train a detector and correctors on a job's trace
    #[command(after_long_help = "\
Examples:
  kvtune dgap train runs/smollm2-135m/kivi --uniform KV1,KV2
  kvtune dgap train runs/smollm2-135m/kivi --uniform KV1 --layers 7,15,23 --missed-drift 0.1")]
    Train(Box<DgapTrainArgs>),
    /// Judge heads on the test split: drift, flips, harm, cost, beside oracles
    #[command(after_long_help = "\
Examples:
  kvtune dgap eval runs/smollm2-135m/kivi --uniform KV1,KV2
  kvtune dgap eval runs/smollm2-135m/kivi --uniform KV2 --heads runs/other/kivi/dgap/KV1/dgap.safetensors
  kvtune dgap eval runs/smollm2-135m/kivi --uniform KV2 --front runs/smollm2-135m/kivi/pareto.csv")]
    Eval(DgapEvalArgs),
    /// Tell order from size: full-precision logits in the quantized order, and the other way round
    #[command(after_long_help = "Example:\n  kvtune dgap control runs/smollm2-135m/kivi --uniform KV1,KV2")]
    Control(DgapControlArgs),
    /// Write a logits processor in Python for heads that read logits alone
    #[command(
        after_long_help = "Example:\n  kvtune dgap export runs/smollm2-135m/kivi/dgap/KV1/dgap.safetensors"
    )]
    Export(DgapExportArgs),
}

/// On what.
#[derive(Debug, Args)]
pub(in crate::cli) struct SettingArgs {
    /// Folder of a job whose trace is recorded
    #[arg(value_name = "DIR")]
    pub(in crate::cli) folder: PathBuf,
    /// Pairs, each for all layers, under the job's scheme
    #[arg(long, value_name = "PAIR", value_delimiter = ',', default_values = ["KV1"])]
    pub(in crate::cli) uniform: Vec<PrecisionPair>,
    /// Precision maps, besides
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) precision: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DgapTrainArgs {
    #[command(flatten)]
    pub(in crate::cli) settings: SettingArgs,
    /// Candidates that are repaired
    #[arg(long, value_name = "K", default_value_t = 32)]
    pub(in crate::cli) top_k: usize,
    /// Correctors to train; all unless some are named
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(in crate::cli) correctors: Vec<CorrectorName>,
    /// Layers whose hidden states are read besides the last, counted from 0
    #[arg(long, value_name = "LAYER", value_delimiter = ',')]
    pub(in crate::cli) layers: Vec<usize>,
    /// Learn from the prompts too, each token after the 32nd
    #[arg(long)]
    pub(in crate::cli) prompts: bool,
    /// Learn from what the quantized model writes itself, too
    #[arg(long)]
    pub(in crate::cli) own_text: bool,
    /// Correct this share of the steps
    #[arg(long, value_name = "SHARE", default_value_t = 0.6, value_parser = share, conflicts_with = "missed_drift")]
    pub(in crate::cli) trigger_rate: f64,
    /// Miss at most this share of the drifted steps, instead of a rate
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(in crate::cli) missed_drift: Option<f64>,
    /// Bits of drift above which a step counts as drifted
    #[arg(long, value_name = "BITS", default_value_t = 0.05, value_parser = positive)]
    pub(in crate::cli) drift_limit: f64,
    /// Seed of weights, order and dropout
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(in crate::cli) seed: u64,
    #[command(flatten)]
    pub(in crate::cli) tuning: TuningArgs,
}

/// How, in detail.
#[derive(Debug, Args)]
#[command(next_help_heading = "Training")]
pub(in crate::cli) struct TuningArgs {
    /// Passes over the training positions, at most
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(in crate::cli) epochs: Option<usize>,
    /// Passes without gain after which training stops
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(in crate::cli) patience: Option<usize>,
    /// Positions of a step
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(in crate::cli) batch: Option<usize>,
    /// Learning rate at its height
    #[arg(long, value_name = "RATE", value_parser = positive)]
    pub(in crate::cli) learning_rate: Option<f64>,
    /// Decay of weights, times the rate
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(in crate::cli) weight_decay: Option<f64>,
    /// Share of the hidden channels, and of C3's inner units, that training hides
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(in crate::cli) dropout: Option<f64>,
    /// Divergence that training lowers
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) divergence: Option<DivergenceName>,
    /// Weight of the ranking loss
    #[arg(long, value_name = "WEIGHT", value_parser = weight)]
    pub(in crate::cli) ranking: Option<f64>,
    /// Weight of the square by which C3 misses full precision's logits
    #[arg(long, value_name = "WEIGHT", value_parser = weight)]
    pub(in crate::cli) margins: Option<f64>,
    /// Weight of corrections of quiet steps
    #[arg(long, value_name = "WEIGHT", value_parser = weight)]
    pub(in crate::cli) quiet_weight: Option<f64>,
    /// Rank of C1
    #[arg(long, value_name = "N", value_parser = head_width)]
    pub(in crate::cli) rank: Option<usize>,
    /// Width of C3
    #[arg(long, value_name = "N", value_parser = head_width)]
    pub(in crate::cli) width: Option<usize>,
    /// Width of C2
    #[arg(long, value_name = "N", value_parser = head_width)]
    pub(in crate::cli) set_width: Option<usize>,
    /// The most that a logit is moved
    #[arg(long, value_name = "LOGITS", value_parser = positive)]
    pub(in crate::cli) clip: Option<f64>,
    /// Let the mass of the candidates change
    #[arg(long)]
    pub(in crate::cli) free_mass: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DgapEvalArgs {
    #[command(flatten)]
    pub(in crate::cli) settings: SettingArgs,
    /// Heads of another setting or text, judged here as well
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) heads: Vec<PathBuf>,
    /// Score a front with heads, each map with those of the nearest setting
    #[arg(long, value_name = "pareto.csv")]
    pub(in crate::cli) front: Option<PathBuf>,
    /// Judge on the prompts of the test split as well, each token after the 32nd
    #[arg(long)]
    pub(in crate::cli) prompts: bool,
    /// Time decoding with heads: one lane, packed cache, 1,024 tokens
    #[arg(long)]
    pub(in crate::cli) speed: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DgapControlArgs {
    #[command(flatten)]
    pub(in crate::cli) settings: SettingArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DgapExportArgs {
    /// The heads
    #[arg(value_name = "FILE")]
    pub(in crate::cli) heads: PathBuf,
    /// The corrector; the best one that reads logits alone unless it is named
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) corrector: Option<CorrectorName>,
    /// Where to write it; beside the heads unless it is said
    #[arg(short, long, value_name = "FILE.py")]
    pub(in crate::cli) out: Option<PathBuf>,
}

/// Which heads decode with, if any.
#[derive(Debug, Args)]
#[command(next_help_heading = "DGAP")]
pub(in crate::cli) struct RestoreArgs {
    /// Repair steps with these heads, trained for this very cache
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) dgap: Option<PathBuf>,
    /// Another corrector than the heads' own choice
    #[arg(long, value_name = "NAME", requires = "dgap")]
    pub(in crate::cli) corrector: Option<CorrectorName>,
    /// Correct from this risk on, instead of the calibrated one; 0 corrects always
    #[arg(long, value_name = "RISK", requires = "dgap", value_parser = weight)]
    pub(in crate::cli) risk: Option<f64>,
}

fn weight(typed: &str) -> Result<f64, String> {
    super::typed::temperature(typed)
}

/// A corrector's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum CorrectorName {
    /// One factor on all margins
    Temperature,
    /// One number a token
    TokenBias,
    /// Affine in the margins
    C0,
    /// Low rank in the last hidden state
    C1,
    /// A net over the set of candidates
    C2,
    /// An MLP on hidden states
    C3,
}

impl From<CorrectorName> for Corrector {
    fn from(name: CorrectorName) -> Self {
        match name {
            CorrectorName::Temperature => Self::Temperature,
            CorrectorName::TokenBias => Self::TokenBias,
            CorrectorName::C0 => Self::C0,
            CorrectorName::C1 => Self::C1,
            CorrectorName::C2 => Self::C2,
            CorrectorName::C3 => Self::C3,
        }
    }
}

/// A divergence's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum DivergenceName {
    /// KL(full ‖ corrected)
    Kl,
    /// Jensen–Shannon
    Js,
}

impl From<DivergenceName> for Divergence {
    fn from(name: DivergenceName) -> Self {
        match name {
            DivergenceName::Kl => Self::Kl,
            DivergenceName::Js => Self::Js,
        }
    }
}
