use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Session, configuration};
use crate::cli::args::{EvalArgs, MapsArgs, TaskArgs, WindowArgs};
use crate::cli::exit::UsageError;
use crate::cli::{places, table};
use crate::job::stages::{self, AnswerRequest, Configuration, Evaluation, Ladder, Windowing};
use crate::model::BosPolicy;
use crate::model::generate::LANES;
use crate::tasks::answers::AnswerSpec;

/// The task that a text is for.
const PERPLEXITY: &str = "perplexity";

/// Tokens of a window where nobody says how many.
const WINDOW: usize = 1024;

pub(super) fn eval(args: &EvalArgs, session: &Session<'_>) -> anyhow::Result<()> {
    match args.task.task.as_deref() {
        None => perplexity(text(args.text.as_ref())?, args, session),
        Some(PERPLEXITY) => {
            refuse_what_is_for_questions(&args.task)?;
            perplexity(the_text(args)?, args, session)
        }
        Some(task) => questions(task, args, session),
    }
}

fn perplexity(text: PathBuf, args: &EvalArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let request = Evaluation {
        model: args.model.clone(),
        weights: args.weights.weights,
        text,
        windowing: windowing(&args.windows),
        cache: args.cache.into(),
        configurations: compared(&args.maps)?,
        restoration: super::dgap::restoration(&args.restore),
    };
    let rows = session.with_context(false, |context| stages::evaluate(&request, context))?;
    Ok(session.output.data(&table::render(&rows, "configurations", args.format.format)?)?)
}

fn questions(task: &str, args: &EvalArgs, session: &Session<'_>) -> anyhow::Result<()> {
    if let Some(text) = &args.text {
        let hint = format!("name the questions of a task with `--data {}`", text.display());
        return Err(usage(&format!("task `{task}` reads no text"), &hint).into());
    }
    refuse_what_is_for_texts(task, &args.windows)?;
    let configurations = configuration::all(&args.maps)?;
    if args.restore.dgap.is_some() && configurations.is_empty() {
        let hint = "name the map or pair that the heads are for, with `-p` or `--uniform`";
        return Err(usage("`--dgap` has nothing to repair", hint).into());
    }
    if let Some(out) = &args.task.answers {
        let TaskArgs { data, train, template, .. } = &args.task;
        let inputs = [data, train, template, &args.restore.dgap].into_iter().flatten();
        let inputs: Vec<&Path> = inputs.chain(&args.maps.precision).map(PathBuf::as_path).collect();
        places::check("`--answers`", out, &inputs)?;
    }
    let request = AnswerRequest {
        model: args.model.clone(),
        weights: args.weights.weights,
        spec: spec(task, &args.task),
        ladder: Ladder { shots: rungs(&args.task.shots), max_new_tokens: rungs(&args.task.max_new_tokens) },
        cache: args.cache.into(),
        configurations,
        lanes: args.task.lanes.unwrap_or(LANES),
        restoration: super::dgap::restoration(&args.restore),
        save: args.task.answers.clone(),
    };
    let rows = session.with_context(false, |context| stages::ask(&request, context))?;
    if let Some(path) = &request.save {
        session.output.note(format_args!("answers in {}", path.display()));
    }
    Ok(session.output.data(&table::render(&rows, "configurations", args.format.format)?)?)
}

/// Numbers in ascending order, each once.
fn rungs(typed: &[usize]) -> Vec<usize> {
    typed.iter().copied().collect::<BTreeSet<_>>().into_iter().collect()
}

/// All but the ladder.
fn spec(task: &str, typed: &TaskArgs) -> AnswerSpec {
    AnswerSpec {
        task: task.to_owned(),
        data: typed.data.clone(),
        train: typed.train.clone(),
        template: typed.template.clone(),
        shots: None,
        items: typed.items,
        length: typed.length,
        max_new_tokens: None,
        seed: typed.seed.unwrap_or(0),
    }
}

fn windowing(typed: &WindowArgs) -> Windowing {
    Windowing {
        window: typed.window.unwrap_or(WINDOW),
        stride: typed.stride,
        most: typed.windows,
        bos: typed.bos.map_or(BosPolicy::Never, Into::into),
    }
}

/// The text of the task that is one.
fn the_text(args: &EvalArgs) -> Result<PathBuf, UsageError> {
    match (&args.text, &args.task.data) {
        (Some(named), Some(data)) => Err(usage(
            &format!("there are two texts, `{}` and `{}`", named.display(), data.display()),
            "leave one of them out",
        )),
        (named, data) => text(named.as_ref().or(data.as_ref())),
    }
}

fn text(typed: Option<&PathBuf>) -> Result<PathBuf, UsageError> {
    typed.cloned().ok_or_else(|| usage("perplexity needs a text", "name it, or a task with `--task`"))
}

fn refuse_what_is_for_questions(typed: &TaskArgs) -> Result<(), UsageError> {
    let given = [
        ("train", typed.train.is_some()),
        ("shots", !typed.shots.is_empty()),
        ("items", typed.items.is_some()),
        ("length", typed.length.is_some()),
        ("template", typed.template.is_some()),
        ("max-new-tokens", !typed.max_new_tokens.is_empty()),
        ("seed", typed.seed.is_some()),
        ("answers", typed.answers.is_some()),
        ("lanes", typed.lanes.is_some()),
    ];
    refuse(PERPLEXITY, &given, "`--window` and `--windows` say how much of the text is read")
}

fn refuse_what_is_for_texts(task: &str, typed: &WindowArgs) -> Result<(), UsageError> {
    let given = [
        ("window", typed.window.is_some()),
        ("stride", typed.stride.is_some()),
        ("windows", typed.windows.is_some()),
        ("bos", typed.bos.is_some()),
    ];
    refuse(task, &given, "that is for windows of a text; `--items` says how many questions to ask")
}

fn refuse(task: &str, given: &[(&str, bool)], hint: &str) -> Result<(), UsageError> {
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(usage(&format!("task `{task}` has no use for `--{option}`"), hint)),
        None => Ok(()),
    }
}

fn usage(message: &str, hint: &str) -> UsageError {
    UsageError { message: message.to_owned(), hint: Some(hint.to_owned()) }
}

fn compared(maps: &MapsArgs) -> anyhow::Result<Vec<Configuration>> {
    let typed = configuration::all(maps)?;
    if !typed.is_empty() {
        return Ok(typed);
    }
    let hint = "name a map with `-p precision.yaml`, or pairs with `--uniform KV8,KV4`";
    Err(usage("nothing to compare", hint).into())
}
