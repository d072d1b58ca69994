//! Heads for a job: trained on its trace, judged on its test split.

mod control;
mod cost;
mod eval;
mod front;
mod measures;
mod more;
pub(super) mod restoration;
mod speed;
mod traces;
mod train;

use std::path::{Path, PathBuf};

pub use self::more::MorePositions;
use crate::dgap::heads::Corrector;
use crate::dgap::{Policy, Setting, TrainParams};
use crate::job::{Job, Overrides};
use crate::model::{DecoderBackend, on_device};
use crate::trace::Trace;

use super::session::Session;
use super::{Configuration, Context, Outcome, StageError};

/// What is common to the commands on heads.
#[derive(Clone, Debug, PartialEq)]
pub struct DgapRequest {
    /// Folder of a job whose trace is recorded.
    pub folder: PathBuf,
    /// Ways to hold the cache, under the job's scheme unless a map names its own.
    pub configurations: Vec<Configuration>,
}

/// Heads to train.
#[derive(Clone, Debug, PartialEq)]
pub struct DgapTraining {
    /// On what.
    pub request: DgapRequest,
    /// Candidates that are repaired.
    pub top_k: usize,
    /// Layers whose leaving hidden states are read as well.
    pub layers: Vec<usize>,
    /// Positions besides those of the job's trace.
    pub more: MorePositions,
    /// Drift in bits above which a step counts as drifted.
    pub drift_limit: f64,
    /// When a step is corrected.
    pub policy: Policy,
    /// Which correctors.
    pub correctors: Vec<Corrector>,
    /// How.
    pub params: TrainParams,
}

/// Heads to judge.
#[derive(Clone, Debug, PartialEq)]
pub struct DgapEvaluation {
    /// On what.
    pub request: DgapRequest,
    /// Heads of other settings, or trained on other text, besides each setting's own.
    pub heads: Vec<PathBuf>,
    /// The front to score with heads.
    pub front: Option<PathBuf>,
    /// Whether the test split's prompts are judged on as well.
    pub prompts: bool,
    /// Whether decoding with heads is timed.
    pub speed: bool,
}

/// Trains heads for each setting, and writes `dgap/NAME/dgap.safetensors` into the job's folder.
///
/// # Errors
/// [`StageError`].
pub fn dgap_train(training: &DgapTraining, context: &Context<'_>) -> Result<Outcome, StageError> {
    let job = job(&training.request.folder)?;
    let session = Session::open(&job, context)?;
    on_device!(context.device, train_on(training, &session))
}

/// Judges the heads of each setting on the test split, and writes `dgap.csv` into the job's folder.
///
/// # Errors
/// [`StageError`].
pub fn dgap_eval(evaluation: &DgapEvaluation, context: &Context<'_>) -> Result<Outcome, StageError> {
    let job = job(&evaluation.request.folder)?;
    let session = Session::open(&job, context)?;
    on_device!(context.device, eval_on(evaluation, &session))
}

/// Separates order from size of logits on the test split, and writes `dgap-control.csv` into the job's folder.
///
/// # Errors
/// [`StageError`].
pub fn dgap_control(request: &DgapRequest, context: &Context<'_>) -> Result<Outcome, StageError> {
    let job = job(&request.folder)?;
    let session = Session::open(&job, context)?;
    on_device!(context.device, control_on(request, &session))
}

fn train_on<B: DecoderBackend>(
    training: &DgapTraining,
    session: &Session<'_>,
) -> Result<Outcome, StageError> {
    train::run::<B>(training, session)
}

fn eval_on<B: DecoderBackend>(
    evaluation: &DgapEvaluation,
    session: &Session<'_>,
) -> Result<Outcome, StageError> {
    eval::run::<B>(evaluation, session)
}

fn control_on<B: DecoderBackend>(
    request: &DgapRequest,
    session: &Session<'_>,
) -> Result<Outcome, StageError> {
    control::run::<B>(request, session)
}

/// The job of a folder; wherever the folder was moved, its files are there.
fn job(folder: &Path) -> Result<Job, StageError> {
    let overrides = Overrides { out: Some(folder.to_owned()), ..Overrides::default() };
    Ok(Job::read(&folder.join("job.yaml"), &overrides)?)
}

/// The job's trace, once it is known to be of the job's model.
fn trace(session: &Session<'_>) -> Result<Trace, StageError> {
    super::run::read_trace(session)
}

/// A configuration under the job's scheme, for the job's model.
pub(super) fn setting(session: &Session<'_>, configuration: &Configuration) -> Result<Setting, StageError> {
    let map = session.map(configuration)?;
    Ok(Setting { name: configuration.name.clone(), scheme: configuration.scheme.clone(), map })
}

/// Where the files of a setting stand: `dgap/KV1`, or `dgap/precision-3.0` for a map.
fn folder(session: &Session<'_>, setting: &Setting) -> PathBuf {
    let stem = Path::new(&setting.name).file_stem();
    session.file("dgap").join(stem.unwrap_or(setting.name.as_ref()))
}
