//! The stages of a job, in order; each reads the files of the ones before and writes its own.

mod costs;
mod evaluate;
mod evaluations;
mod generate;
mod ledger;
mod search;
mod select;
mod sensitivity;
mod session;
mod space;
mod trace;

use std::path::PathBuf;
use std::time::SystemTime;

use crate::model::{Decoder, DecoderBackend, Device, ModelError, Registry, on_device};
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::progress::Observer;
use crate::quant::Scheme;
use crate::report::FileError;
use crate::report::plot::PlotError;
use crate::score::{Objective, ScoreError, simulation};
use crate::search::SearchError;
use crate::select::SelectError;
use crate::sensitivity::SensitivityError;
use crate::space::{ClusterParamsError, SpaceError};
use crate::tasks::TaskError;
use crate::trace::{Trace, TraceError};

pub use self::space::read_space;

use self::ledger::Ledger;
use self::session::Session;
use super::error::JobError;
use super::spec::Job;

/// What a stage needs besides its job.
pub struct Context<'a> {
    /// Hears of progress, and knows whether to stop.
    pub observer: &'a dyn Observer,
    /// Where models are found.
    pub registry: Registry,
    /// What the model runs on.
    pub device: Device,
    /// Whether files of another job may be replaced.
    pub force: bool,
    /// Threads to work on, at least 1.
    pub threads: usize,
    /// The command line, for `run.yaml`.
    pub command: String,
}

/// One stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

impl Stage {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [Self::Trace, Self::Sensitivity, Self::Space, Self::Search, Self::Select];

    /// As the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Sensitivity => "sensitivity",
            Self::Space => "space",
            Self::Search => "search",
            Self::Select => "select",
        }
    }

    /// The files that it always leaves.
    pub fn files(self) -> &'static [&'static str] {
        match self {
            Self::Trace => &["trace.safetensors"],
            Self::Sensitivity => &["sensitivity.csv", "sensitivity-heads.csv"],
            Self::Space => &["space.yaml"],
            Self::Search => &["evaluations.csv"],
            Self::Select => &["precision.yaml", "pareto.csv", "pareto.svg"],
        }
    }
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
    /// The prompts.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The layers' errors.
    #[error(transparent)]
    Sensitivity(SensitivityError),
    /// Pruning or grouping.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// Parameters of the grouping.
    #[error(transparent)]
    Cluster(#[from] ClusterParamsError),
    /// The search.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// Scores that cannot be compared.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The user asked to stop; what was done is saved.
    #[error("stopped; the same command goes on from here")]
    Interrupted,
    /// A budget that is spent before the search begins.
    #[error(
        "`search.evaluations` is {evaluations}, but the additive model alone takes {charged} measurements ({groups} groups)"
    )]
    Budget {
        /// The budget.
        evaluations: usize,
        /// What the measurements take of it.
        charged: usize,
        /// Groups that they are of.
        groups: usize,
    },
    /// Whoever takes the text as it grows could not.
    #[error("cannot pass the text on: {0}")]
    Output(#[from] std::io::Error),
    /// No map is within the loss that was allowed; all files are written, for the nearest one.
    #[error(
        "no map keeps {objective} within {max_loss} at its upper bound on the select split; the nearest has \
         {upper:.4} at {bits:.2} bits: {map}"
    )]
    NoMap {
        /// What was held against the limit.
        objective: Objective,
        /// The limit.
        max_loss: f64,
        /// The nearest map.
        map: PrecisionMap,
        /// Its equivalent bits.
        bits: f64,
        /// Its upper bound.
        upper: f64,
    },
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
            Self::Task(error) => error.hint(),
            Self::Trace(error) => error.hint(),
            Self::NoMap { .. } => {
                Some("raise `search.max_loss` or the limit on bits; all files were written".into())
            }
            Self::Search(SearchError::Limit { name, .. }) => {
                Some(format!("raise `search.{name}`, or give `search_space.pairs` of fewer bits"))
            }
            Self::Search(SearchError::TooLarge { .. }) => {
                Some("raise `search.evaluations`, or choose another `search.algorithm`".into())
            }
            Self::Budget { .. } => {
                Some("raise `search.evaluations`, or set `search.seed_table: e_o`, which takes none".into())
            }
            Self::Unmet { hint, .. } => hint.clone(),
            _ => None,
        }
    }

    /// Whether the user asked to stop.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Model(ModelError::Interrupted { .. }))
    }

    /// Whether it takes another job to mend it, rather than other files or looser limits.
    pub fn is_in_the_job(&self) -> bool {
        match self {
            Self::Job(error) => !matches!(error, JobError::Read { .. }),
            Self::Model(error) => matches!(error, ModelError::KeyBias(_) | ModelError::Width(_)),
            Self::Search(error) => !matches!(error, SearchError::Limit { .. }),
            Self::Cluster(_) | Self::Budget { .. } => true,
            _ => false,
        }
    }
}

impl From<ScoreError> for StageError {
    fn from(error: ScoreError) -> Self {
        match error {
            ScoreError::Model(error) => Self::Model(error),
            ScoreError::Interrupted => Self::Interrupted,
        }
    }
}

impl From<SensitivityError> for StageError {
    fn from(error: SensitivityError) -> Self {
        match error {
            SensitivityError::Model(error) => Self::Model(error),
            SensitivityError::Interrupted => Self::Interrupted,
            error => Self::Sensitivity(error),
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

/// Runs one stage; the stages before it must be done.
///
/// # Errors
/// [`StageError`]; files that stages before wrote stay as they are.
pub fn run(job: &Job, stage: Stage, context: &Context<'_>) -> Result<Outcome, StageError> {
    on_device!(context.device, run_on(job, stage, context))
}

/// Runs all stages, skipping what is there already for the same inputs.
///
/// # Errors
/// [`StageError`]; [`StageError::Unmet`] with all files written where no map is within the limits.
pub fn calibrate(job: &Job, context: &Context<'_>) -> Result<Outcome, StageError> {
    on_device!(context.device, calibrate_on(job, context))
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
    let job = Job { model: request.model.clone(), ..Job::default() };
    let session = Session::open(&job, context)?;
    on_device!(context.device, generate_on(request, &session, each))
}

/// Compares configurations on a text, full precision first.
///
/// # Errors
/// [`StageError`].
pub fn evaluate(request: &Evaluation, context: &Context<'_>) -> Result<Vec<EvaluationResult>, StageError> {
    let job = Job { model: request.model.clone(), ..Job::default() };
    let session = Session::open(&job, context)?;
    on_device!(context.device, evaluate_on(request, &session))
}

fn generate_on<B: DecoderBackend>(
    request: &Generation,
    session: &Session<'_>,
    each: &mut dyn FnMut(&str) -> std::io::Result<()>,
) -> Result<(), StageError> {
    generate::run::<B>(request, session, each)
}

fn evaluate_on<B: DecoderBackend>(
    request: &Evaluation,
    session: &Session<'_>,
) -> Result<Vec<EvaluationResult>, StageError> {
    evaluate::run::<B>(request, session)
}

fn run_on<B: DecoderBackend>(job: &Job, stage: Stage, context: &Context<'_>) -> Result<Outcome, StageError> {
    let session = Session::open(job, context)?;
    let mut run = Run::<B> { ledger: Ledger::open(&session)?, session: &session, decoder: None, trace: None };
    for before in Stage::ALL.into_iter().filter(|&before| before < stage) {
        if !run.ledger.is_done(&session, before)? {
            return Err(StageError::Unmet {
                message: format!(
                    "`{}` lacks the files of `{}` for this job",
                    job.out.display(),
                    before.name()
                ),
                hint: Some(format!("run `kvtune {}` with the same job first", before.name())),
            });
        }
    }
    run.stage(stage)
}

fn calibrate_on<B: DecoderBackend>(job: &Job, context: &Context<'_>) -> Result<Outcome, StageError> {
    let session = Session::open(job, context)?;
    let mut run = Run::<B> { ledger: Ledger::open(&session)?, session: &session, decoder: None, trace: None };
    let mut whole = Outcome::default();
    for stage in Stage::ALL {
        let outcome = run.stage(stage)?;
        whole.files.splice(0..0, outcome.files);
        whole.summary.extend(outcome.summary);
    }
    Ok(whole)
}

/// A job under way: weights and trace are read when the first stage asks for them.
struct Run<'a, B: DecoderBackend> {
    session: &'a Session<'a>,
    ledger: Ledger,
    decoder: Option<Decoder<B>>,
    trace: Option<Trace>,
}

impl<B: DecoderBackend> Run<'_, B> {
    /// Runs a stage unless it is done for the same inputs.
    fn stage(&mut self, stage: Stage) -> Result<Outcome, StageError> {
        if self.ledger.is_done(self.session, stage)? {
            let files = stage.files().iter().map(|file| self.session.file(file)).collect();
            return Ok(Outcome { files, summary: vec![format!("{}: done before, kept", stage.name())] });
        }
        let started = SystemTime::now();
        let result = self.run(stage);
        if result.is_ok() {
            self.ledger.finish(self.session, stage, started)?;
        }
        result
    }

    fn run(&mut self, stage: Stage) -> Result<Outcome, StageError> {
        let session = self.session;
        if stage == Stage::Space {
            return space::run(session);
        }
        let decoder = match self.decoder.take() {
            Some(decoder) => decoder,
            None => session.decoder()?,
        };
        let decoder = self.decoder.insert(decoder);
        // Whether model and scheme go together is known before any work is done.
        simulation(decoder, &session.job.search_space.scheme, 1).map_err(ModelError::from)?;
        if stage == Stage::Trace {
            return trace::run(session, decoder);
        }
        let trace = match self.trace.take() {
            Some(trace) => trace,
            None => read_trace(session)?,
        };
        let trace = self.trace.insert(trace);
        match stage {
            Stage::Sensitivity => sensitivity::run(session, decoder, trace),
            Stage::Search => search::run(session, decoder, trace, &self.ledger),
            _ => select::run(session, decoder, trace, &self.ledger),
        }
    }
}

fn read_trace(session: &Session<'_>) -> Result<Trace, StageError> {
    let path = session.file("trace.safetensors");
    let trace = Trace::read(&path)?;
    trace.check_model(&path, &session.resolved.id, &session.fingerprint, session.n_layers())?;
    Ok(trace)
}
