use std::path::PathBuf;

use super::windows::Windowing;
use crate::analysis::HeadId;
use crate::bench::{Bench, BenchRow, Cell, Machine};
use crate::cache::CacheKind;
use crate::dgap::heads::Corrector;
use crate::model::{Sampling, WeightType};
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::quant::Scheme;
use crate::trace::Split;

/// Texts that a model shall continue.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// The model.
    pub model: String,
    /// The texts, or what a user says if `chat`.
    pub prompts: Vec<String>,
    /// Whether a prompt is put into the model's chat template.
    pub chat: bool,
    /// Tokens to add to each at most.
    pub max_new_tokens: usize,
    /// What weights are held as.
    pub weights: WeightType,
    /// What the tokens are chosen by.
    pub sampling: Sampling,
    /// What keys and values are held in.
    pub cache: CacheKind,
    /// How they are coded there; [`CacheKind::Full`] does not look at it.
    pub configuration: Configuration,
    /// Prompts that go side by side, at most.
    pub lanes: usize,
    /// Heads that repair steps, if any.
    pub restoration: Option<Restoration>,
}

/// Heads to decode with.
#[derive(Clone, Debug, PartialEq)]
pub struct Restoration {
    /// Their file.
    pub heads: PathBuf,
    /// Another corrector than theirs.
    pub corrector: Option<Corrector>,
    /// Another threshold than theirs.
    pub risk: Option<f64>,
}

/// One text, continued.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Continuation {
    /// Number of the prompt, from 0.
    pub index: usize,
    /// The prompt, as it was given.
    pub prompt: String,
    /// What was added, without the token that ends it.
    pub text: String,
    /// The tokens that were added, with the one that ends them.
    pub tokens: Vec<u32>,
}

/// Configurations to compare on a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The model.
    pub model: String,
    /// What weights are held as.
    pub weights: WeightType,
    /// The text.
    pub text: PathBuf,
    /// How it is cut.
    pub windowing: Windowing,
    /// What keys and values are held in.
    pub cache: CacheKind,
    /// What to compare, besides full precision.
    pub configurations: Vec<Configuration>,
    /// Heads that repair the configurations that they are for, in a row of their own.
    pub restoration: Option<Restoration>,
}

/// A job's folder to be looked into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnalysisRequest {
    /// The folder; results go there too.
    pub folder: PathBuf,
    /// The model, where it is found under another name than the job's.
    pub model: Option<String>,
    /// Heads whose attention is drawn; without any, the extremes.
    pub heads: Vec<HeadId>,
    /// Whose documents the map is lowered on: search or select.
    pub split: Split,
}

/// Configurations whose time and memory shall be measured.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchRequest {
    /// The model.
    pub model: String,
    /// What to measure, besides full precision.
    pub configurations: Vec<Configuration>,
    /// How the configurations are held.
    pub cache: CacheKind,
    /// Batches and lengths.
    pub cells: Vec<Cell>,
    /// Rounds and steps.
    pub bench: Bench,
    /// Whether cells may be longer than the model's context.
    pub beyond: bool,
    /// What weights are held as.
    pub weights: WeightType,
}

impl BenchRequest {
    /// Tokens of the longest sequence once all steps are made.
    pub fn longest(&self) -> usize {
        let longest = self.cells.iter().map(|cell| cell.context).max().unwrap_or(0);
        longest.saturating_add(self.bench.steps.saturating_mul(self.bench.rounds))
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchReport {
    /// What the machine can do.
    pub machine: Machine,
    /// Bytes of weights that a step reads.
    pub weight_bytes: usize,
    /// One row a cell and configuration.
    pub rows: Vec<BenchRow>,
}

/// A cache to evaluate.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// Its name in the table.
    pub name: String,
    /// How the cache is coded.
    pub scheme: Scheme,
    /// Which bits.
    pub bits: ConfigurationBits,
}

impl Configuration {
    /// Nothing coded.
    pub fn full() -> Self {
        let bits = ConfigurationBits::Uniform(PrecisionPair::FULL);
        Self { name: String::from("full"), scheme: Scheme::kivi(), bits }
    }
}

/// Which bits a configuration has.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigurationBits {
    /// A pair per layer.
    Map(PrecisionMap),
    /// One pair for all layers.
    Uniform(PrecisionPair),
}

/// One configuration's figures over all scored positions of a text.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct EvaluationResult {
    /// Name of the configuration, `full` for the one that the others are compared with.
    pub configuration: String,
    /// Mean code width.
    pub equivalent_bits: f64,
    /// Stored bits an element at the window's length, with what stands before it.
    pub storage_bits: f64,
    /// exp of the mean negative log-likelihood.
    pub perplexity: f64,
    /// Mean KL(full ‖ quantized), nats a token.
    pub kl: f64,
    /// Share of positions whose arg-max differs from full precision.
    pub flips: f64,
    /// Positions scored.
    pub positions: usize,
    /// exp of the negative log-likelihood over the words (between white space) of the scored text.
    pub word_perplexity: f64,
    /// The same over its bytes.
    pub byte_perplexity: f64,
}
