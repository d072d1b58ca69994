//! The stages of a job, in order; each reads the files of the ones before and writes its own.

use std::path::PathBuf;

use crate::model::{ModelError, Registry};
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::progress::Observer;
use crate::quant::Scheme;
use crate::report::FileError;
use crate::report::plot::PlotError;

use super::error::JobError;
use super::spec::Job;

/// What a stage needs besides its job.
pub struct Context<'a> {
    /// Hears of progress, and knows whether to stop.
    pub observer: &'a dyn Observer,
    /// Where models are found.
    pub registry: Registry,
    /// Whether files of another job may be replaced.
    pub force: bool,
    /// Threads to work on, at least 1.
    pub threads: usize,
    /// The command line, for `run.yaml`.
    pub command: String,
}

/// One stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Prompts and the model's own continuation of them: `trace.safetensors`.
    Trace,
    /// Errors per layer and pair: `sensitivity.csv`.
    Sensitivity,
    /// Candidate pairs and groups: `space.yaml`.
    Space,
    /// Configurations evaluated: `evaluations.csv`.
    Search,
    /// The front and the chosen map: `pareto.csv`, `precision.yaml`.
    Select,
}

/// What a stage left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Files written, the most important one first.
    pub files: Vec<PathBuf>,
    /// What was found, a line each, for the user to read.
    pub summary: Vec<String>,
}

/// Why a stage did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The job.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A result file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The plot of the front.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// The user asked to stop; what was done is saved.
    #[error("stopped; the same command goes on from here")]
    Interrupted,
    /// Whoever takes the text as it grows could not.
    #[error("cannot pass the text on: {0}")]
    Output(#[from] std::io::Error),
    /// What was asked is well formed, but cannot be had.
    #[error("{message}")]
    Unmet {
        /// What, and why not.
        message: String,
        /// What the user may do about it.
        hint: Option<String>,
    },
}

impl StageError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Job(error) => error.hint(),
            Self::Model(error) => error.hint(),
            Self::File(error) => error.hint(),
            Self::Plot(error) => error.hint(),
            Self::Unmet { hint, .. } => hint.clone(),
            Self::Interrupted | Self::Output(_) => None,
        }
    }
}

/// Text that a model shall continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The model.
    pub model: String,
    /// The text, or what a user says if `chat`.
    pub prompt: String,
    /// Whether the prompt is put into the model's chat template.
    pub chat: bool,
    /// Tokens to add at most.
    pub max_new_tokens: usize,
}

/// Configurations to compare on a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The model.
    pub model: String,
    /// The text.
    pub text: PathBuf,
    /// Tokens of a window of the text.
    pub window: usize,
    /// Windows at most, from the start.
    pub windows: Option<usize>,
    /// What to compare, besides full precision.
    pub configurations: Vec<Configuration>,
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
    /// Stored bits an element at the window's length.
    pub storage_bits: f64,
    /// exp of the mean negative log-likelihood.
    pub perplexity: f64,
    /// Mean KL(full ‖ quantized), nats a token.
    pub kl: f64,
    /// Share of positions whose arg-max differs from full precision.
    pub flips: f64,
    /// Positions scored.
    pub positions: usize,
}

/// Runs one stage.
///
/// # Errors
/// [`StageError`]; files that stages before wrote stay as they are.
pub fn run(job: &Job, stage: Stage, context: &Context<'_>) -> Result<Outcome, StageError> {
    not_wired(stage, job, context)
}

/// Runs all stages, skipping what is there already for the same inputs.
///
/// # Errors
/// [`StageError`]; [`StageError::Unmet`] with all files written where no map is within the limits.
pub fn calibrate(job: &Job, context: &Context<'_>) -> Result<Outcome, StageError> {
    not_wired("calibrate", job, context)
}

/// Continues a text greedily with a full-precision cache; `each` gets the text as it grows.
///
/// # Errors
/// [`StageError`]; what `each` says is passed on by stopping.
pub fn generate(
    request: &Generation,
    context: &Context<'_>,
    each: &mut dyn FnMut(&str) -> std::io::Result<()>,
) -> Result<(), StageError> {
    let _ = each;
    not_wired("generate", request, context).map(|_: Outcome| ())
}

/// Compares configurations on a text, full precision first.
///
/// # Errors
/// [`StageError`].
pub fn evaluate(request: &Evaluation, context: &Context<'_>) -> Result<Vec<EvaluationResult>, StageError> {
    not_wired("eval", request, context)
}

/// LEAD: replace the four bodies above and delete this.
fn not_wired<T>(
    what: impl std::fmt::Debug,
    _request: impl std::fmt::Debug,
    _context: &Context<'_>,
) -> Result<T, StageError> {
    Err(StageError::Unmet { message: format!("{what:?} is not wired in this build"), hint: None })
}
