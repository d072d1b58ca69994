use std::path::Path;

use super::{Session, configuration};
use crate::cli::args::{CheckArgs, TextArgs};
use crate::cli::exit::UsageError;
use crate::job::stages::{self, CheckRequest, CheckResult, StageError, Texts};
use crate::job::{Job, JobError, Overrides, SearchSpec};
use crate::score::Objective;

pub(super) fn check(args: &CheckArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let scheme = configuration::scheme(&args.scheme)?;
    let map = configuration::map(&args.precision, &scheme)?;
    let (texts, search) = texts(&args.texts, &args.precision)?;
    if args.max_loss.is_none() && args.objective.is_some_and(|typed| typed != search.objective) {
        let message = format!("the limit at hand is one of {}, not of another objective", search.objective);
        return Err(UsageError { message, hint: Some("type the limit too, with `--max-loss`".into()) }.into());
    }
    let objective = args.objective.unwrap_or(search.objective);
    if objective == Objective::Accuracy {
        let message = String::from("the map was chosen by accuracy, which `check` does not mark");
        let hint = String::from(
            "name another measure: `--objective flips --max-loss 0.05`; or ask with `kvtune eval --task`",
        );
        return Err(UsageError { message, hint: Some(hint) }.into());
    }
    let max_loss = args.max_loss.unwrap_or(search.max_loss);
    if !max_loss.is_finite() {
        let message = format!("`--max-loss` is {max_loss}, expected a finite number");
        return Err(UsageError { message, hint: None }.into());
    }
    let request = CheckRequest {
        model: args.model.clone(),
        configurations: vec![map],
        texts,
        objective,
        seed: search.seed,
    };
    let result = scored(&request, session)?;
    verdict(&request, &result, max_loss, session)
}

/// Keep where even the upper bound is within the limit, as a map is chosen in the first place.
fn verdict(
    request: &CheckRequest,
    result: &CheckResult,
    max_loss: f64,
    session: &Session<'_>,
) -> anyhow::Result<()> {
    let Some(loss) = result.losses.first() else { return Ok(()) };
    if loss.exploratory {
        session.output.warning(format_args!("{} documents make for a rough interval", loss.documents));
    }
    let figures = format!(
        "{} {:.4}, 95 % [{:.4}, {:.4}], upper bound {:.4}, limit {max_loss}, {} documents",
        request.objective, loss.mean, loss.low, loss.high, loss.upper, loss.documents
    );
    if loss.upper <= max_loss {
        return Ok(session.output.data(&format!("keep: {figures}\n"))?);
    }
    session.output.data(&format!("recalibrate: {figures}\n"))?;
    Err(StageError::Unmet {
        message: format!("the map loses too much on `{}`", request.model),
        hint: Some(format!("find a map for it with `kvtune calibrate -m {}`", request.model)),
    }
    .into())
}

pub(super) fn scored(request: &CheckRequest, session: &Session<'_>) -> anyhow::Result<CheckResult> {
    session.with_context(false, |context| stages::check(request, context))
}

/// Windows of the text that was typed, else the prompts of the job beside the map, else generated ones; and what
/// that job searches for.
pub(super) fn texts(typed: &TextArgs, precision: &Path) -> Result<(Texts, SearchSpec), JobError> {
    let beside = precision.with_file_name("job.yaml");
    let job = match beside.exists() {
        true => Job::read(&beside, &Overrides::default())?,
        false => Job::default(),
    };
    let texts = match &typed.text {
        Some(path) => Texts::Windows { path: path.clone(), window: typed.window, windows: typed.windows },
        None => Texts::Prompts(Box::new(job.trace)),
    };
    Ok((texts, job.search))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::Objective;

    #[test]
    fn a_map_without_a_job_is_held_to_the_defaults() {
        let typed = TextArgs { text: None, window: 512, windows: None };
        let (texts, search) = texts(&typed, Path::new("nowhere/precision.yaml")).expect("defaults");
        assert!(matches!(texts, Texts::Prompts(_)));
        assert_eq!(search.objective, Objective::Flips);
    }
}
