use std::io::Read;
use std::path::Path;

use super::Session;
use crate::cli::args::{CalibrateArgs, JobArgs, JobOptions};
use crate::cli::env;
use crate::job::stages::{self, Context, Outcome, Stage, StageError};
use crate::job::{Job, JobError, Plan, QUICKSTART};
use crate::model::Checkpoint;
use crate::progress::Silent;

/// Read where no job is named.
const DEFAULT_JOB: &str = "calibration/quickstart.yaml";

pub(super) fn calibrate(args: &CalibrateArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let job = match &args.job {
        Some(path) => read(path, &args.options)?,
        None => quickstart(&args.options, session)?,
    };
    run(&job, &args.options, session, |context| stages::calibrate(&job, context))
}

pub(super) fn stage(stage: Stage, args: &JobArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let job = read(&args.job, &args.options)?;
    run(&job, &args.options, session, |context| stages::run(&job, stage, context))
}

fn run(
    job: &Job,
    options: &JobOptions,
    session: &Session<'_>,
    work: impl FnOnce(&Context<'_>) -> Result<Outcome, StageError>,
) -> anyhow::Result<()> {
    session.output.detail(job.to_yaml()?.trim_end());
    if options.dry_run {
        return Ok(session.output.data(&plan(job).to_string())?);
    }
    let outcome = session.with_context(options.force, work)?;
    say(&outcome, session)
}

/// What was found to standard error, the files to standard output.
pub(super) fn say(outcome: &Outcome, session: &Session<'_>) -> anyhow::Result<()> {
    outcome.summary.iter().for_each(|line| session.output.note(line));
    let files: String = outcome.files.iter().map(|file| format!("{}\n", file.display())).collect();
    Ok(session.output.data(&files)?)
}

/// The model's shape makes the plan richer, but a plan fetches nothing.
fn plan(job: &Job) -> Plan {
    let resolved = env::registry(true).resolve(&job.model, &Silent).ok();
    let checkpoint = resolved.and_then(|resolved| Checkpoint::open(&resolved.path).ok());
    Plan::new(job, checkpoint.as_ref().map(Checkpoint::config))
}

fn read(path: &Path, options: &JobOptions) -> Result<Job, JobError> {
    if path != Path::new("-") {
        return Job::read(path, &options.overrides());
    }
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|source| JobError::Read { path: path.to_owned(), source })?;
    Job::parse(Path::new("standard input"), &text, &options.overrides())
}

/// The quickstart job of the current directory, else the program's own copy.
fn quickstart(options: &JobOptions, session: &Session<'_>) -> Result<Job, JobError> {
    let path = Path::new(DEFAULT_JOB);
    if path.exists() {
        return Job::read(path, &options.overrides());
    }
    session.output.note(format_args!("`{DEFAULT_JOB}` is not here; this is the copy inside the program"));
    Job::parse(path, QUICKSTART, &options.overrides())
}
