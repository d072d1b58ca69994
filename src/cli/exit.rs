//! What went wrong → exit code, message and hint.

use std::io;

use clap::error::ErrorKind;

use super::output::Output;
use crate::dgap::DgapError;
use crate::export::ExportError;
use crate::job::JobError;
use crate::job::stages::StageError;
use crate::model::ModelError;
use crate::report::FileError;
use crate::report::html::ReportError;
use crate::report::plot::PlotError;

/// All is done.
pub(super) const DONE: u8 = 0;
/// The run could not meet the request.
pub(super) const UNMET: u8 = 1;
/// What was typed or written is wrong.
pub(super) const USAGE: u8 = 2;
/// Ctrl-C, after what was done is saved.
pub(super) const INTERRUPTED: u8 = 130;

/// Some errors carry their hint in their text.
const HINT: &str = "\n\nhint: ";

/// Something wrong with the command line that clap cannot know.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct UsageError {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// Prints an error and gives its exit code.
pub(super) fn report(error: &anyhow::Error, output: Output) -> u8 {
    if is_broken_pipe(error) {
        return DONE;
    }
    let message = message(error);
    let (what, own_hint) = match message.split_once(HINT) {
        Some((what, hint)) => (what, Some(hint.to_owned())),
        None => (message.as_str(), None),
    };
    output.error(what, own_hint.or_else(|| hint(error)).as_deref());
    code(error)
}

/// Context and causes on one line; a cause that its error quotes already is not said again.
fn message(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |said, cause| match said.as_str() {
        "" => cause,
        said if said.contains(&cause) => said.to_owned(),
        said => format!("{said}: {cause}"),
    })
}

/// Prints what clap says, help and version included, and gives its exit code.
pub(super) fn report_parse(error: &clap::Error) -> u8 {
    match error.print() {
        Err(print) if print.kind() != io::ErrorKind::BrokenPipe => UNMET,
        _ if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => DONE,
        _ => USAGE,
    }
}

fn find<E: std::error::Error + 'static>(error: &anyhow::Error) -> Option<&E> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

/// A reader that stops reading, as `head` does, is no failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    find::<io::Error>(error).is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn code(error: &anyhow::Error) -> u8 {
    let stage: Option<&StageError> = find(error);
    match stage {
        Some(stage) if stage.is_interruption() => return INTERRUPTED,
        Some(stage) if stage.is_in_the_job() => return USAGE,
        _ => {}
    }
    if matches!(find(error), Some(ModelError::Interrupted { .. })) {
        return INTERRUPTED;
    }
    if let Some(job) = find::<JobError>(error) {
        return job_code(job);
    }
    if let Some(DgapError::TopK { .. } | DgapError::NoHead { .. }) = find(error) {
        return USAGE;
    }
    let usage = find::<UsageError>(error).is_some()
        || matches!(find::<PlotError>(error), Some(PlotError::Format { .. }));
    if usage { USAGE } else { UNMET }
}

/// What its author wrote is wrong, or the file is not there.
fn job_code(error: &JobError) -> u8 {
    if matches!(error, JobError::Read { .. }) { UNMET } else { USAGE }
}

fn hint(error: &anyhow::Error) -> Option<String> {
    find::<StageError>(error)
        .and_then(StageError::hint)
        .or_else(|| find::<DgapError>(error).and_then(DgapError::hint))
        .or_else(|| find::<JobError>(error).and_then(JobError::hint))
        .or_else(|| find::<ModelError>(error).and_then(ModelError::hint))
        .or_else(|| find::<FileError>(error).and_then(FileError::hint))
        .or_else(|| find::<PlotError>(error).and_then(PlotError::hint))
        .or_else(|| find::<ExportError>(error).and_then(ExportError::hint))
        .or_else(|| find::<ReportError>(error).and_then(ReportError::hint))
        .or_else(|| find::<UsageError>(error).and_then(|usage| usage.hint.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_follow_who_can_mend_it() {
        let unmet = StageError::Unmet { message: String::from("no map"), hint: None };
        let pair = JobError::value("j".as_ref(), "pairs", "no such pair");
        let stopped = || ModelError::Interrupted { model: String::from("m") };
        let missing = crate::cache::NoKeyBias { layer: 0 };
        let cases: [(anyhow::Error, u8); 8] = [
            (stopped().into(), INTERRUPTED),
            (StageError::Model(stopped()).into(), INTERRUPTED),
            (StageError::Model(missing.into()).into(), USAGE),
            (unmet.into(), UNMET),
            (StageError::Interrupted.into(), INTERRUPTED),
            (anyhow::Error::from(StageError::Job(pair)).context("more"), USAGE),
            (UsageError { message: String::from("both"), hint: None }.into(), USAGE),
            (FileError::content("f".as_ref(), "", "no map").into(), UNMET),
        ];
        for (error, expected) in cases {
            assert_eq!(code(&error), expected, "{error}");
        }
    }

    #[test]
    fn a_cause_is_said_once() {
        let denied = io::Error::other("permission denied");
        let write = FileError::Write { path: "a.csv".into(), source: denied };
        assert_eq!(message(&anyhow::Error::from(write)), "cannot write `a.csv`: permission denied");
        assert_eq!(message(&anyhow::anyhow!("cause").context("while asking")), "while asking: cause");
    }

    #[test]
    fn a_broken_pipe_is_found_below_context() {
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("printing");
        assert!(is_broken_pipe(&error));
        assert!(!is_broken_pipe(&anyhow::anyhow!("else")));
    }
}
