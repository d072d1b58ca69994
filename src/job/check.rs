//! Ranges: what a type alone does not say.

use std::path::Path;

use crate::search::Algorithm;
use crate::tasks::{DocumentCounts, TASKS};
use crate::trace::TraceParams;

use super::error::JobError;
use super::fields::join;
use super::search_space::{Pairs, SearchSpace};
use super::spec::{Job, SearchSpec, SeedTable};

/// Field and message of the first value out of range.
type Found = Option<(String, String)>;

impl Job {
    pub(super) fn check(&self, path: &Path) -> Result<(), JobError> {
        let model = self.model.trim().is_empty().then(|| wrong("model", "is empty, expected a name or path"));
        let found = model.or_else(|| trace(&self.trace)).or_else(|| search(&self.search));
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
        .or_else(|| at_least_one("trace.max_new_tokens", trace.max_new_tokens))
}

fn unknown_task(found: &str) -> Found {
    let known: Vec<String> = TASKS.iter().map(|task| format!("`{}`", task.name())).collect();
    let unknown = TASKS.iter().all(|task| task.name() != found);
    unknown.then(|| {
        wrong("trace.task", &format!("unknown task `{found}`, expected one of {}", known.join(", ")))
    })
}

fn search(search: &SearchSpec) -> Found {
    at_least_one("search.evaluations", search.evaluations)
        .or_else(|| not_negative("search.max_loss", search.max_loss))
        .or_else(|| search.max_bits.and_then(|bits| positive("search.max_bits", bits)))
        .or_else(|| limits(search))
        .or_else(|| needs_a_table(search))
}

fn limits(search: &SearchSpec) -> Found {
    let storage = search.max_storage_bits.and_then(|limit| {
        at_least_one("search.max_storage_bits.context", limit.context)
            .or_else(|| positive("search.max_storage_bits.bits", limit.bits))
    });
    storage.or_else(|| {
        search.max_cache.and_then(|limit| {
            at_least_one("search.max_cache.context", limit.context)
                .or_else(|| at_least_one("search.max_cache.batch", limit.batch))
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
            ("model: ' '", "`model`: is empty, expected a name or path"),
        ];
        for (text, expected) in cases {
            let error = Job::parse(Path::new("j.yaml"), text, &Overrides::default()).expect_err(text);
            assert_eq!(error.to_string(), format!("`j.yaml`: field {expected}"));
        }
    }
}
