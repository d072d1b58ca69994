//! Prompts: generated from a seed, or cut from a file the user has.
//!
//! One small file per task, all on the trait [`Task`]; a spec names one, and [`prompts`] gives its documents,
//! split by split. To add a task, write its file and list it in [`TASKS`].
//!
//! | task | domain | what it is |
//! |---|---|---|
//! | `arithmetic-chain` | `arithmetic` | word problems of two to five steps, after worked examples |
//! | `ruler-niah` | `retrieval` | one sentence to be found in a long text |
//! | `plain-text` | `prose` | pieces of the user's own file |
//! | `narrative` | `prose` | generated story text, where there is no file |
//!
//! Knows nothing of models: a prompt's length is whatever the caller's `count_tokens` says. The splits of one
//! spec share no document, no problem and no worked example; generated filler sentences may recur, because
//! the grammar is finite. A document depends on the seed, its split and its number, so that asking for more
//! documents leaves those before as they were (`plain-text` draws all splits at once and makes no such
//! promise). All generated text is **ours**.

pub mod answers;
mod arithmetic;
mod error;
mod grow;
mod mixed;
mod narrative;
mod plain_text;
mod prose;
mod random;
mod retrieval;
mod spec;

use std::collections::HashSet;

use crate::trace::Split;

pub use arithmetic::ArithmeticChain;
pub use error::TaskError;
pub use mixed::mixed;
pub use narrative::Narrative;
pub use plain_text::PlainText;
pub use retrieval::RulerNiah;
pub use spec::{DocumentCounts, MAX_DOCUMENTS, MAX_MIN_TOKENS, TaskSpec};

/// Every built-in task, in the order in which help lists them.
pub const TASKS: [&dyn Task; 4] = [&ArithmeticChain, &RulerNiah, &PlainText, &Narrative];

/// What a model is asked to continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Unique among the prompts of one spec: `search-003`.
    pub id: String,
    /// What kind of text it is: `arithmetic`, `retrieval`, `prose`.
    pub domain: String,
    /// What the model reads.
    pub text: String,
    /// What a right continuation ends with, where the task knows one.
    pub answer: Option<String>,
}

/// One way to make prompts.
pub trait Task: Sync {
    /// The name in a job file.
    fn name(&self) -> &'static str;

    /// The [`Prompt::domain`] of all its prompts.
    fn domain(&self) -> &'static str;

    /// Whether `path` must be given; otherwise it must not be.
    fn reads_file(&self) -> bool {
        false
    }

    /// Whether `shots` may be given.
    fn has_shots(&self) -> bool {
        false
    }

    /// The documents of `spec`, splits in the order of [`Split::ALL`]; each has at least `min_tokens` by
    /// `count_tokens`.
    ///
    /// Callers want [`prompts`], which checks the spec first.
    ///
    /// # Errors
    /// What [`TaskError`] lists.
    fn prompts(
        &self,
        spec: &TaskSpec,
        count_tokens: &dyn Fn(&str) -> usize,
    ) -> Result<Vec<(Split, Prompt)>, TaskError>;
}

/// The task of that name.
///
/// # Errors
/// [`TaskError::Unknown`], with the nearest name there is.
pub fn task(name: &str) -> Result<&'static dyn Task, TaskError> {
    TASKS.into_iter().find(|task| task.name() == name).ok_or_else(|| TaskError::unknown(name))
}

/// The prompts that `spec` asks for: as many per split as it says, each at least `min_tokens` long.
///
/// `count_tokens` should count what the model will read, its chat template and BOS included. Equal specs give
/// equal prompts.
///
/// # Errors
/// A spec that its task cannot serve, a file that cannot be read or is too short: see [`TaskError`].
pub fn prompts(
    spec: &TaskSpec,
    count_tokens: &dyn Fn(&str) -> usize,
) -> Result<Vec<(Split, Prompt)>, TaskError> {
    let task = spec.check()?;
    let prompts = task.prompts(spec, count_tokens)?;
    check_distinct(&prompts, task)?;
    Ok(prompts)
}

fn check_distinct(prompts: &[(Split, Prompt)], task: &dyn Task) -> Result<(), TaskError> {
    let distinct = prompts.iter().map(|(_, prompt)| prompt.text.as_str()).collect::<HashSet<_>>().len();
    if distinct == prompts.len() {
        Ok(())
    } else {
        Err(TaskError::Exhausted { task: task.name(), found: distinct })
    }
}

/// `search-003`.
fn document_id(split: Split, index: usize) -> String {
    format!("{split}-{index:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words and punctuation marks: close enough to a tokenizer to test lengths with.
    pub(super) fn count_words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn generated() -> impl Iterator<Item = TaskSpec> {
        TASKS.into_iter().filter(|task| !task.reads_file()).map(|task| TaskSpec {
            documents: DocumentCounts { search: 3, select: 2, test: 2 },
            ..TaskSpec::named(task.name())
        })
    }

    #[test]
    fn every_prompt_reaches_the_length_asked() {
        for spec in generated() {
            for min_tokens in [1, 100, 700] {
                let spec = TaskSpec { min_tokens, ..spec.clone() };
                for (_, prompt) in prompts(&spec, &count_words).expect("prompts") {
                    assert!(count_words(&prompt.text) >= min_tokens, "{} {}", spec.name, prompt.id);
                }
            }
        }
    }

    #[test]
    fn the_seed_decides_everything() {
        for spec in generated() {
            let once = prompts(&spec, &count_words).expect("prompts");
            assert_eq!(once, prompts(&spec, &count_words).expect("prompts"));
            let other = TaskSpec { seed: 1, ..spec };
            assert_ne!(once, prompts(&other, &count_words).expect("prompts"));
        }
    }

    #[test]
    fn more_documents_leave_the_earlier_ones_as_they_were() {
        for spec in generated() {
            let few = prompts(&spec, &count_words).expect("prompts");
            let more =
                TaskSpec { documents: DocumentCounts { search: 5, select: 3, test: 2 }, ..spec.clone() };
            let more = prompts(&more, &count_words).expect("prompts");
            assert!(few.iter().all(|prompt| more.contains(prompt)), "{}", spec.name);
        }
    }

    #[test]
    fn counts_and_ids_follow_the_splits() {
        for spec in generated() {
            let ids: Vec<_> =
                prompts(&spec, &count_words).expect("prompts").into_iter().map(|(_, p)| p.id).collect();
            assert_eq!(
                ids,
                [
                    "search-000",
                    "search-001",
                    "search-002",
                    "select-000",
                    "select-001",
                    "test-000",
                    "test-001"
                ]
            );
        }
    }

    #[test]
    fn a_misspelled_task_is_told_the_nearest() {
        let error = prompts(&TaskSpec::named("arithmetic-chian"), &count_words).expect_err("no such task");
        assert_eq!(
            error.to_string(),
            "unknown task `arithmetic-chian`, expected one of `arithmetic-chain`, `ruler-niah`, `plain-text`, `narrative`"
        );
        assert_eq!(error.hint().as_deref(), Some("did you mean `arithmetic-chain`?"));
        let error = prompts(&TaskSpec::named("zzz"), &count_words).expect_err("no such task");
        assert_eq!(error.hint(), None);
    }

    #[test]
    fn a_tokenizer_that_counts_nothing_is_an_error() {
        for spec in generated() {
            let error = prompts(&spec, &|_| 0).expect_err("no length is ever reached");
            assert!(matches!(error, TaskError::PromptShort { found: 0, expected: 256, .. }), "{error}");
        }
    }
}
