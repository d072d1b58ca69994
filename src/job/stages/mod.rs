//! The stages of a job, in order; each reads the files of the ones before and writes its own.

mod analyze;
mod answers;
mod bench;
mod check;
mod costs;
mod dgap;
mod error;
mod evaluate;
mod evaluations;
mod exam;
mod fit;
mod generate;
mod ledger;
mod request;
mod run;
mod search;
mod select;
mod sensitivity;
mod session;
mod several;
mod space;
mod trace;
mod windows;

use std::path::PathBuf;

use crate::model::{DecoderBackend, Device, Registry, on_device};
use crate::progress::Observer;
use crate::report::{AccuracyRow, html};

pub use self::answers::{AnswerRequest, Ladder};
pub use self::check::{CheckRequest, CheckResult, Texts};
pub use self::dgap::{
    DgapEvaluation, DgapRequest, DgapTraining, MorePositions, dgap_control, dgap_eval, dgap_train,
};
pub use self::error::StageError;
pub use self::request::{
    AnalysisRequest, BenchReport, BenchRequest, Configuration, ConfigurationBits, Continuation, Evaluation,
    EvaluationResult, Generation, Restoration,
};
pub use self::space::read_space;
pub use self::windows::Windowing;

use self::run::Run;
use self::session::Session;
use super::spec::Job;
pub use super::stage::Stage;
use super::stage::TASK_LOSSES;

/// What a stage needs besides its job.
pub struct Context<'a> {
    /// Hears of progress, and knows whether to stop.
    pub observer: &'a dyn Observer,
    /// Where models are found.
    pub registry: Registry,
    /// What the model runs on.
    pub device: Device,
    /// Whether weights stay in their file and are read a layer at a time.
    pub stream_weights: bool,
    /// Whether files of another job may be replaced.
    pub force: bool,
    /// Threads to work on, at least 1.
    pub threads: usize,
    /// Bytes of memory that are free, where that is known.
    pub available_memory: Option<u64>,
    /// The command line, for `run.yaml`.
    pub command: String,
}

/// What a stage left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Files written, the most important one first.
    pub files: Vec<PathBuf>,
    /// What was found, a line each, for the user to read.
    pub summary: Vec<String>,
}

/// Runs one stage; the stages before it must be done.
///
/// # Errors
/// [`StageError`]; files that stages before wrote stay as they are.
pub fn run(job: &Job, stage: Stage, context: &Context<'_>) -> Result<Outcome, StageError> {
    on_device!(context.device, run_on(job, stage, context))
}

/// Runs all stages, skipping what is there already for the same inputs, and writes the report.
///
/// # Errors
/// [`StageError`]; [`StageError::Unmet`] with all files written where no map is within the limits.
pub fn calibrate(job: &Job, context: &Context<'_>) -> Result<Outcome, StageError> {
    on_device!(context.device, calibrate_on(job, context))
}

/// Continues the first prompt; `each` gets the text as it grows.
///
/// # Errors
/// [`StageError`], before any weight is read where the map is of another model, or the request too large for the
/// model's context or for the memory; what `each` says is passed on by stopping.
pub fn generate(
    request: &Generation,
    context: &Context<'_>,
    each: &mut dyn FnMut(&str) -> std::io::Result<()>,
) -> Result<(), StageError> {
    let job = Job { model: request.model.clone(), ..Job::default() };
    let session = Session::open(&job, context)?;
    on_device!(context.device, generate_on(request, &session, each)).map_err(StageError::unsaved)
}

/// Continues many prompts side by side, each as [`generate`] would as the only one where tokens are chosen
/// greedily; `each` gets them in the order of the prompts, as soon as all before are done.
///
/// # Errors
/// As [`generate`].
pub fn generate_many(
    request: &Generation,
    context: &Context<'_>,
    each: &mut dyn FnMut(&Continuation) -> std::io::Result<()>,
) -> Result<(), StageError> {
    let job = Job { model: request.model.clone(), ..Job::default() };
    let session = Session::open(&job, context)?;
    on_device!(context.device, generate_many_on(request, &session, each)).map_err(StageError::unsaved)
}

/// Compares configurations on a text, full precision first.
///
/// # Errors
/// [`StageError`], before the model is opened where windows cannot be cut as asked.
pub fn evaluate(request: &Evaluation, context: &Context<'_>) -> Result<Vec<EvaluationResult>, StageError> {
    request.windowing.check()?;
    let job = Job { model: request.model.clone(), ..Job::default() };
    let session = Session::open(&job, context)?;
    on_device!(context.device, evaluate_on(request, &session)).map_err(StageError::unsaved)
}

/// Compares configurations on a task with answers, full precision first; one row a configuration and metric.
///
/// # Errors
/// [`StageError`], before any weight is read where the task's files are not what it reads, a map is of another model
/// or nothing fits the model's context.
pub fn ask(request: &AnswerRequest, context: &Context<'_>) -> Result<Vec<AccuracyRow>, StageError> {
    let job = Job { model: request.model.clone(), ..Job::default() };
    let session = Session::open(&job, context)?;
    on_device!(context.device, ask_on(request, &session)).map_err(StageError::unsaved)
}

/// Measures time and memory of configurations, full precision first.
///
/// # Errors
/// [`StageError`].
pub fn bench(request: &BenchRequest, context: &Context<'_>) -> Result<BenchReport, StageError> {
    let job = Job { model: request.model.clone(), ..Job::default() };
    let session = Session::open(&job, context)?;
    on_device!(context.device, bench_on(request, &session)).map_err(StageError::unsaved)
}

/// Scores maps against full precision on the same documents, with intervals.
///
/// # Errors
/// [`StageError`], before any weight is read where a map has not the model's layers.
pub fn check(request: &CheckRequest, context: &Context<'_>) -> Result<CheckResult, StageError> {
    let job = Job { model: request.model.clone(), trace: request.trace(), ..Job::default() };
    let session = Session::open(&job, context)?;
    on_device!(context.device, check_on(request, &session)).map_err(StageError::unsaved)
}

fn check_on<B: DecoderBackend>(
    request: &CheckRequest,
    session: &Session<'_>,
) -> Result<CheckResult, StageError> {
    check::run::<B>(request, session)
}

/// Looks into why layers are sensitive, in the folder of a job that has a trace; writes `analysis.yaml`, `heads.csv`,
/// `heads.svg`, `channels.csv`, `lemma.csv`, a figure for each head chosen, and where there is a map `knockout.csv`.
///
/// # Errors
/// [`StageError`], before any weight is read where the folder has no trace, or one of another model, or a map of
/// other layers; [`StageError::Head`] for a head that the model lacks.
pub fn analyze(request: &AnalysisRequest, context: &Context<'_>) -> Result<Outcome, StageError> {
    let job = analyze::job(request)?;
    let session = Session::open(&job, context)?;
    on_device!(context.device, analyze_on(request, &session))
}

fn analyze_on<B: DecoderBackend>(
    request: &AnalysisRequest,
    session: &Session<'_>,
) -> Result<Outcome, StageError> {
    analyze::run::<B>(request, session)
}

fn bench_on<B: DecoderBackend>(
    request: &BenchRequest,
    session: &Session<'_>,
) -> Result<BenchReport, StageError> {
    bench::run::<B>(request, session)
}

fn generate_on<B: DecoderBackend>(
    request: &Generation,
    session: &Session<'_>,
    each: &mut dyn FnMut(&str) -> std::io::Result<()>,
) -> Result<(), StageError> {
    generate::stream::<B>(request, session, each)
}

fn generate_many_on<B: DecoderBackend>(
    request: &Generation,
    session: &Session<'_>,
    each: &mut dyn FnMut(&Continuation) -> std::io::Result<()>,
) -> Result<(), StageError> {
    generate::many::<B>(request, session, each)
}

fn evaluate_on<B: DecoderBackend>(
    request: &Evaluation,
    session: &Session<'_>,
) -> Result<Vec<EvaluationResult>, StageError> {
    evaluate::run::<B>(request, session)
}

fn ask_on<B: DecoderBackend>(
    request: &AnswerRequest,
    session: &Session<'_>,
) -> Result<Vec<AccuracyRow>, StageError> {
    answers::run::<B>(request, session)
}

fn run_on<B: DecoderBackend>(job: &Job, stage: Stage, context: &Context<'_>) -> Result<Outcome, StageError> {
    let session = Session::open(job, context)?;
    let mut run = Run::<B>::open(&session)?;
    for before in Stage::ALL.into_iter().filter(|&before| before < stage) {
        if !run.is_done(before)? {
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
    let mut run = Run::<B>::open(&session)?;
    let mut whole = Outcome::default();
    for stage in Stage::ALL {
        let outcome = match run.stage(stage) {
            // All files are there, for the nearest map; the page says so.
            Err(error @ StageError::NoMap { .. }) => {
                html::write(&job.out, None)?;
                return Err(error);
            }
            outcome => outcome?,
        };
        whole.files.splice(0..0, outcome.files);
        whole.summary.extend(outcome.summary);
    }
    whole.files.push(html::write(&job.out, None)?.path);
    Ok(whole)
}
