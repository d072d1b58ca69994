//! Ranges: what a type alone does not say.

use std::path::Path;

use crate::cache::CacheKind;
use crate::score::Objective;
use crate::search::Algorithm;
use crate::tasks::{DocumentCounts, TASKS, TaskError};
use crate::trace::TraceParams;

use super::answers::{AnswersSpec, Combine, ItemCounts, Questions};
use super::error::JobError;
use super::fields::join;
use super::search_space::{Pairs, SearchSpace};
use super::spec::{Job, SearchSpec, SeedTable};

/// The most evaluations that a job may ask for.
const MAX_EVALUATIONS: usize = 1_000_000;
/// The most tokens a sequence that a limit may speak of.
const MAX_CONTEXT: usize = 1 << 24;
/// The most sequences that a limit may speak of.
const MAX_BATCH: usize = 1 << 16;

/// Field and message of the first value out of range.
type Found = Option<(String, String)>;

impl Job {
    pub(super) fn check(&self, path: &Path) -> Result<(), JobError> {
        let model = self.model.trim().is_empty().then(|| wrong("model", "is empty, expected a name or path"));
        let found = model
            .or_else(|| trace(&self.trace))
            .or_else(|| search(&self.search))
            .or_else(|| answers(self.search.objective, self.answers.as_ref()))
            .or_else(|| evaluations_of_each(&self.search, self.answers.as_ref()));
        refuse(path, "", found)
    }
}

impl SearchSpace {
    pub(super) fn check(&self, path: &Path, at: &str) -> Result<(), JobError> {
        let found = pairs(&self.pairs)
            .or_else(|| self.scheme.check().err().map(|error| wrong("scheme", &error.to_string())))
            .or_else(|| not_negative("prune.tolerance", self.prune.tolerance))
            .or_else(|| positive("cluster.eps", self.cluster.eps))
            .or_else(|| at_least_one("cluster.min_samples", self.cluster.min_samples));
        refuse(path, at, found)
    }
}

fn refuse(path: &Path, at: &str, found: Found) -> Result<(), JobError> {
    match found {
        Some((field, message)) => Err(JobError::value(path, join(at, &field), message)),
        None => Ok(()),
    }
}

fn trace(trace: &TraceParams) -> Found {
    let DocumentCounts { search, select, test } = trace.documents;
    unknown_task(&trace.task)
        .or_else(|| at_least_one("trace.documents.search", search))
        .or_else(|| at_least_one("trace.documents.select", select))
        .or_else(|| at_least_one("trace.documents.test", test))
        .or_else(|| at_least_one("trace.min_tokens", trace.min_tokens))
        .or_else(|| trace.check().err().map(|error| wrong("trace", &error.to_string())))
        .or_else(|| trace.task_spec().check().err().map(|error| wrong("trace", &with_hint(&error))))
}

/// Message and hint as one text, which is taken apart again where it is printed.
fn with_hint(error: &TaskError) -> String {
    error.hint().map_or_else(|| error.to_string(), |hint| format!("{error}\n\nhint: {hint}"))
}

fn unknown_task(found: &str) -> Found {
    let known: Vec<String> = TASKS.iter().map(|task| format!("`{}`", task.name())).collect();
    let unknown = TASKS.iter().all(|task| task.name() != found);
    unknown.then(|| {
        wrong("trace.task", &format!("unknown task `{found}`, expected one of {}", known.join(", ")))
    })
}

fn search(search: &SearchSpec) -> Found {
    within("search.evaluations", search.evaluations, MAX_EVALUATIONS)
        .or_else(|| not_negative("search.max_loss", search.max_loss))
        .or_else(|| search.max_bits.and_then(|bits| positive("search.max_bits", bits)))
        .or_else(|| limits(search))
        .or_else(|| needs_a_table(search))
}

fn answers(objective: Objective, answers: Option<&AnswersSpec>) -> Found {
    let Some(answers) = answers else {
        let message = "is `accuracy`, but the job has no `answers` that say what is asked\n\nhint: add \
                       `answers: {tasks: [{task: ruler-niah-single, length: 512}]}`";
        return (objective == Objective::Accuracy).then(|| wrong("search.objective", message));
    };
    if objective != Objective::Accuracy {
        let message = format!("is `{objective}`, but the job has `answers`, which only `accuracy` looks at");
        return Some(wrong("search.objective", &message));
    }
    let ItemCounts { search, select, test } = answers.items;
    if answers.cache == CacheKind::Full {
        return Some(wrong(
            "answers.cache",
            "is `full`, which codes nothing, expected `packed` or `simulated`",
        ));
    }
    let no_task = answers.tasks.is_empty();
    no_task
        .then(|| wrong("answers.tasks", "names no task, expected one or more"))
        .or_else(|| answers.tasks.iter().find_map(|questions| questions_of(questions, answers)))
        .or_else(|| repeated(&answers.tasks))
        .or_else(|| at_least_one("answers.items.search", search as usize))
        .or_else(|| at_least_one("answers.items.select", select as usize))
        .or_else(|| at_least_one("answers.items.test", test as usize))
        .or_else(|| at_least_one("answers.block", answers.block))
        .or_else(|| within("answers.lanes", answers.lanes, MAX_BATCH))
}

fn repeated(tasks: &[Questions]) -> Found {
    let (_, again) = tasks.iter().enumerate().find(|(index, task)| tasks[..*index].contains(task))?;
    let message = format!("names `{}` twice with the same fields, expected each task once", again.task);
    Some(wrong("answers.tasks", &message))
}

/// Where every task is an objective, each has a search of its own, and so has the worst of them.
fn evaluations_of_each(search: &SearchSpec, answers: Option<&AnswersSpec>) -> Found {
    let answers = answers.filter(|answers| answers.combine == Combine::Each)?;
    let (found, least) = (search.evaluations, answers.tasks.len() + 1);
    let message = format!(
        "is {found}, expected {least} or more: `combine: each` searches once a task and once for all"
    );
    (found < least).then(|| wrong("search.evaluations", &message))
}

fn questions_of(questions: &Questions, answers: &AnswersSpec) -> Found {
    let error = questions.spec(answers).check().err()?;
    let message = error.hint().map_or_else(|| error.to_string(), |hint| format!("{error}\n\nhint: {hint}"));
    Some(wrong("answers.tasks", &message))
}

fn limits(search: &SearchSpec) -> Found {
    let storage = search.max_storage_bits.and_then(|limit| {
        within("search.max_storage_bits.context", limit.context, MAX_CONTEXT)
            .or_else(|| positive("search.max_storage_bits.bits", limit.bits))
    });
    storage.or_else(|| {
        search.max_cache.and_then(|limit| {
            within("search.max_cache.context", limit.context, MAX_CONTEXT)
                .or_else(|| within("search.max_cache.batch", limit.batch, MAX_BATCH))
                .or_else(|| {
                    (limit.bytes.0 == 0).then(|| wrong("search.max_cache.bytes", "is 0, expected 1 or more"))
                })
        })
    })
}

fn needs_a_table(search: &SearchSpec) -> Found {
    let tableless = search.algorithm == Algorithm::Additive && search.seed_table == SeedTable::None;
    tableless.then(|| {
        wrong("search.seed_table", "is `none`, but `algorithm: additive` needs `isolated-kl` or `e_o`")
    })
}

fn pairs(pairs: &Pairs) -> Found {
    let expanded = pairs.expand();
    if expanded.is_empty() {
        return Some(wrong("pairs", "names no pair, expected one or more"));
    }
    let twice = expanded.iter().enumerate().find(|&(i, pair)| expanded[..i].contains(pair));
    twice.map(|(_, pair)| wrong("pairs", &format!("names `{pair}` twice")))
}

fn at_least_one(field: &str, found: usize) -> Found {
    (found == 0).then(|| wrong(field, "is 0, expected 1 or more"))
}

/// From 1 to `most`, which is more than anyone means and few enough to count with.
fn within(field: &str, found: usize, most: usize) -> Found {
    (!(1..=most).contains(&found)).then(|| wrong(field, &format!("is {found}, expected 1 to {most}")))
}

fn positive(field: &str, found: f64) -> Found {
    let fine = found.is_finite() && found > 0.0;
    (!fine).then(|| wrong(field, &format!("is {found}, expected a number above 0")))
}

fn not_negative(field: &str, found: f64) -> Found {
    let fine = found.is_finite() && found >= 0.0;
    (!fine).then(|| wrong(field, &format!("is {found}, expected 0 or more")))
}

fn wrong(field: &str, message: &str) -> (String, String) {
    (field.to_owned(), message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::read::Overrides;
    use super::*;

    #[test]
    fn a_value_out_of_range_names_field_and_value() {
        let cases = [
            ("trace: {documents: {select: 0}}", "`trace.documents.select`: is 0, expected 1 or more"),
            ("search: {max_loss: -1}", "`search.max_loss`: is -1, expected 0 or more"),
            ("search: {max_bits: .nan}", "`search.max_bits`: is NaN, expected a number above 0"),
            (
                "search: {max_cache: {context: 8, bytes: 0}}",
                "`search.max_cache.bytes`: is 0, expected 1 or more",
            ),
            ("search_space: {pairs: []}", "`search_space.pairs`: names no pair, expected one or more"),
            ("search_space: {pairs: [KV8, K8V8]}", "`search_space.pairs`: names `KV8` twice"),
            (
                "search_space: {cluster: {eps: 0}}",
                "`search_space.cluster.eps`: is 0, expected a number above 0",
            ),
            (
                "search: {algorithm: additive, seed_table: none}",
                "`search.seed_table`: is `none`, but `algorithm: additive` needs `isolated-kl` or `e_o`",
            ),
            (
                "search_space: {scheme: {key: {residual: 33}}}",
                "`search_space.scheme`: `key.residual` is 33, but on the channel axis it must be a positive multiple \
                 of `group` (32)\n\nhint: set `residual: 32`",
            ),
            (
                "trace: {task: arithmetic}",
                "`trace.task`: unknown task `arithmetic`, expected one of `arithmetic-chain`, `ruler-niah`, \
                 `plain-text`, `narrative`",
            ),
            (
                "trace: {task: plain-text}",
                "`trace`: task `plain-text` needs a file, but `path` is missing\n\nhint: set `path` to a UTF-8 text file, \
                 or use task `narrative`",
            ),
            (
                "trace: {max_new_tokens: 18446744073709551615}",
                "`trace`: `max_new_tokens` is 18446744073709551615, but it must lie in 1..=1048576",
            ),
            (
                "trace: {documents: {test: 999999999999}}",
                "`trace`: `documents` asks for 1000000000011 in all, but it must lie in 1..=100000",
            ),
            ("search: {evaluations: 1000001}", "`search.evaluations`: is 1000001, expected 1 to 1000000"),
            ("model: ' '", "`model`: is empty, expected a name or path"),
        ];
        for (text, expected) in cases {
            let error = Job::parse(Path::new("j.yaml"), text, &Overrides::default()).expect_err(text);
            assert_eq!(error.to_string(), format!("`j.yaml`: field {expected}"));
        }
    }
}
