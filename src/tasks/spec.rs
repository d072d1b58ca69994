use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Task, TaskError, task};
use crate::trace::Split;

/// The most tokens that `min_tokens` may ask of a prompt; longer contexts than any model served here has.
pub const MAX_MIN_TOKENS: usize = 1 << 20;

/// The most documents that all splits of one spec may have together.
pub const MAX_DOCUMENTS: usize = 100_000;

/// How many documents each split gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DocumentCounts {
    /// Scored by the search.
    pub search: usize,
    /// Chooses from the front.
    pub select: usize,
    /// Read once.
    pub test: usize,
}

impl Default for DocumentCounts {
    fn default() -> Self {
        Self { search: 4, select: 8, test: 8 }
    }
}

impl DocumentCounts {
    /// The count of one split.
    pub fn of(self, split: Split) -> usize {
        match split {
            Split::Search => self.search,
            Split::Select => self.select,
            Split::Test => self.test,
        }
    }

    /// Documents of all splits together.
    pub fn total(self) -> usize {
        Split::ALL.into_iter().fold(0, |sum, split| sum.saturating_add(self.of(split)))
    }

    /// Every document's split and number within it, in order.
    pub(super) fn each(self) -> impl Iterator<Item = (Split, usize)> {
        Split::ALL.into_iter().flat_map(move |split| (0..self.of(split)).map(move |index| (split, index)))
    }
}

/// Which task, how many documents, how long, from which seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// One of [`super::TASKS`], by name.
    pub name: String,
    /// Tokens that each prompt has at least, counted as the caller counts.
    pub min_tokens: usize,
    /// Documents per split.
    pub documents: DocumentCounts,
    /// Decides everything that is drawn.
    pub seed: u64,
    /// The file that `plain-text` cuts; no other task takes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Worked examples before the question at least, more where the length asks for them; a task's own
    /// default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shots: Option<usize>,
}

impl TaskSpec {
    /// The task of that name, every other field at its default: 256 tokens, 4, 8 and 8 documents, seed 0.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            min_tokens: 256,
            documents: DocumentCounts::default(),
            seed: 0,
            path: None,
            shots: None,
        }
    }

    /// Whether its task can serve the spec at all, before anything is generated or read.
    ///
    /// # Errors
    /// A task nobody knows, a size out of range, a field that the task needs or has no use for.
    pub fn check(&self) -> Result<&'static dyn Task, TaskError> {
        let task = task(&self.name)?;
        self.check_for(task)?;
        Ok(task)
    }

    fn check_for(&self, task: &dyn Task) -> Result<(), TaskError> {
        let name = task.name();
        if self.min_tokens > MAX_MIN_TOKENS {
            return Err(TaskError::MinTokens { found: self.min_tokens });
        }
        if !(1..=MAX_DOCUMENTS).contains(&self.documents.total()) {
            return Err(TaskError::Documents { found: self.documents.total() });
        }
        match (&self.path, task.reads_file()) {
            (None, true) => return Err(TaskError::PathMissing { task: name }),
            (Some(path), false) => return Err(TaskError::PathUnused { task: name, path: path.clone() }),
            _ => {}
        }
        match self.shots {
            Some(shots) if !task.has_shots() => Err(TaskError::ShotsUnused { task: name, shots }),
            Some(shots) if shots > MAX_DOCUMENTS => Err(TaskError::Shots { found: shots }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::prompts;
    use super::*;

    fn message(spec: &TaskSpec) -> String {
        prompts(spec, &str::len).expect_err("the spec asks for what cannot be").to_string()
    }

    #[test]
    fn what_a_task_cannot_use_is_refused() {
        let spec = TaskSpec::named("ruler-niah");
        assert_eq!(
            message(&TaskSpec { shots: Some(3), ..spec.clone() }),
            "task `ruler-niah` has no worked examples, but `shots` is 3"
        );
        assert_eq!(
            message(&TaskSpec { path: Some("book.txt".into()), ..spec }),
            "task `ruler-niah` reads no file, but `path` is `book.txt`"
        );
        assert_eq!(
            message(&TaskSpec::named("plain-text")),
            "task `plain-text` needs a file, but `path` is missing"
        );
    }

    #[test]
    fn absurd_sizes_are_refused_before_anything_is_made() {
        let spec = TaskSpec::named("narrative");
        let documents = DocumentCounts { search: usize::MAX, select: 1, test: 1 };
        assert_eq!(
            message(&TaskSpec { documents, ..spec.clone() }),
            format!("`documents` asks for {} in all, but it must lie in 1..=100000", usize::MAX)
        );
        let documents = DocumentCounts { search: 0, select: 0, test: 0 };
        assert!(message(&TaskSpec { documents, ..spec.clone() }).starts_with("`documents` asks for 0"));
        assert_eq!(
            message(&TaskSpec { min_tokens: 2_000_000, ..spec }),
            "`min_tokens` is 2000000, but it must be at most 1048576"
        );
    }
}
