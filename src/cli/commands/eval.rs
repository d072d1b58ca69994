use std::path::PathBuf;

use super::{Session, configuration};
use crate::cli::args::{EvalArgs, MapsArgs, TaskArgs};
use crate::cli::exit::UsageError;
use crate::cli::{places, table};
use crate::job::stages::{self, AnswerRequest, Configuration, Evaluation};
use crate::tasks::answers::AnswerSpec;

/// The task that a text is for.
const PERPLEXITY: &str = "perplexity";

pub(super) fn eval(args: &EvalArgs, session: &Session<'_>) -> anyhow::Result<()> {
    match args.task.task.as_deref() {
        None => perplexity(text(args.text.as_ref())?, args, session),
        Some(PERPLEXITY) => {
            let text = text(args.text.as_ref().or(args.task.data.as_ref()))?;
            refuse_what_is_for_questions(&args.task)?;
            perplexity(text, args, session)
        }
        Some(task) => questions(task, args, session),
    }
}

fn perplexity(text: PathBuf, args: &EvalArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let request = Evaluation {
        model: args.model.clone(),
        weights: args.weights.weights,
        text,
        window: args.window,
        windows: args.windows,
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
    if args.windows.is_some() {
        return Err(usage("questions have no windows", "`--items` says how many questions to ask").into());
    }
    if args.restore.dgap.is_some() {
        let hint = "heads are judged on a text: `kvtune eval TEXT --dgap FILE`";
        return Err(usage("answers to questions are not repaired", hint).into());
    }
    if let Some(out) = &args.task.answers {
        let inputs = [&args.task.data, &args.task.train, &args.task.template].map(Option::as_deref);
        places::check("`--answers`", out, &inputs.into_iter().flatten().collect::<Vec<_>>())?;
    }
    let request = AnswerRequest {
        model: args.model.clone(),
        weights: args.weights.weights,
        spec: spec(task, &args.task),
        cache: args.cache.into(),
        configurations: configuration::all(&args.maps)?,
        lanes: args.task.lanes,
        save: args.task.answers.clone(),
    };
    let rows = session.with_context(false, |context| stages::ask(&request, context))?;
    if let Some(path) = &request.save {
        session.output.note(format_args!("answers in {}", path.display()));
    }
    Ok(session.output.data(&table::render(&rows, "configurations", args.format.format)?)?)
}

fn spec(task: &str, typed: &TaskArgs) -> AnswerSpec {
    AnswerSpec {
        task: task.to_owned(),
        data: typed.data.clone(),
        train: typed.train.clone(),
        template: typed.template.clone(),
        shots: typed.shots,
        items: typed.items,
        length: typed.length,
        max_new_tokens: typed.max_new_tokens,
        seed: typed.seed,
    }
}

fn text(typed: Option<&PathBuf>) -> Result<PathBuf, UsageError> {
    typed.cloned().ok_or_else(|| usage("perplexity needs a text", "name it, or a task with `--task`"))
}

fn refuse_what_is_for_questions(typed: &TaskArgs) -> Result<(), UsageError> {
    let given = [
        ("train", typed.train.is_some()),
        ("shots", typed.shots.is_some()),
        ("items", typed.items.is_some()),
        ("length", typed.length.is_some()),
        ("template", typed.template.is_some()),
        ("max-new-tokens", typed.max_new_tokens.is_some()),
        ("answers", typed.answers.is_some()),
    ];
    match given.into_iter().find(|&(_, is_given)| is_given) {
        Some((option, _)) => Err(usage(
            &format!("task `{PERPLEXITY}` has no use for `--{option}`"),
            "`--window` and `--windows` say how much of the text is read",
        )),
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
