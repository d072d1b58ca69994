use crate::nearest::nearest;
use std::io;
use std::path::PathBuf;

use super::{MAX_DOCUMENTS, MAX_MIN_TOKENS, TASKS};

/// Why there are no prompts.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// No task of that name.
    #[error("unknown task `{found}`, expected one of {}", names())]
    Unknown {
        /// What was asked for.
        found: String,
        /// The name that it resembles most, if it resembles any.
        nearest: Option<&'static str>,
    },
    /// No document at all, or more than anyone means.
    #[error("`documents` asks for {found} in all, but it must lie in 1..={MAX_DOCUMENTS}")]
    Documents {
        /// All splits together.
        found: usize,
    },
    /// Longer than any context served here.
    #[error("`min_tokens` is {found}, but it must be at most {MAX_MIN_TOKENS}")]
    MinTokens {
        /// What was asked for.
        found: usize,
    },
    /// More worked examples than anyone means.
    #[error("`shots` is {found}, but it must be at most {MAX_DOCUMENTS}")]
    Shots {
        /// What was asked for.
        found: usize,
    },
    /// The task cuts a file and was given none.
    #[error("task `{task}` needs a file, but `path` is missing")]
    PathMissing {
        /// Its name.
        task: &'static str,
    },
    /// The task generates its text.
    #[error("task `{task}` reads no file, but `path` is `{}`", path.display())]
    PathUnused {
        /// Its name.
        task: &'static str,
        /// What was given.
        path: PathBuf,
    },
    /// The task has a question only.
    #[error("task `{task}` has no worked examples, but `shots` is {shots}")]
    ShotsUnused {
        /// Its name.
        task: &'static str,
        /// What was given.
        shots: usize,
    },
    /// The file cannot be read.
    #[error("cannot read prompt file `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not UTF-8.
    #[error("prompt file `{}` is not UTF-8 text: bad byte at offset {offset}", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Of the first byte that is not.
        offset: usize,
    },
    /// The file holds nothing but white space.
    #[error("prompt file `{}` is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file gives too few documents.
    #[error(
        "prompt file `{}` gives {found} distinct documents of at least {min_tokens} tokens, but `documents` asks for {expected}",
        path.display()
    )]
    FileShort {
        /// The file.
        path: PathBuf,
        /// The length asked.
        min_tokens: usize,
        /// Documents it gives.
        found: usize,
        /// Documents asked, all splits together.
        expected: usize,
    },
    /// A generated prompt does not reach its length, however much is added.
    #[error(
        "prompt `{id}` of task `{task}` counts {found} tokens however long it grows, expected at least {expected}"
    )]
    PromptShort {
        /// Name of the task.
        task: &'static str,
        /// Which document.
        id: String,
        /// Tokens counted at the end.
        found: usize,
        /// The length asked.
        expected: usize,
    },
    /// The generator has no further problem that was not used yet.
    #[error("task `{task}` has no more than {found} distinct problems at these settings")]
    Exhausted {
        /// Its name.
        task: &'static str,
        /// Distinct ones so far.
        found: usize,
    },
}

impl TaskError {
    /// `Unknown`, with the nearest name if one is near.
    pub(super) fn unknown(found: &str) -> Self {
        Self::Unknown { found: found.to_owned(), nearest: nearest(found, TASKS.map(|task| task.name())) }
    }

    /// What the user could do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { nearest, .. } => nearest.map(|name| format!("did you mean `{name}`?")),
            Self::PathMissing { .. } => {
                Some("set `path` to a UTF-8 text file, or use task `narrative`".into())
            }
            Self::FileShort { .. } => {
                Some("give a longer file, fewer `documents` or a smaller `min_tokens`".into())
            }
            Self::Exhausted { .. } => Some("ask for fewer `documents` or a smaller `min_tokens`".into()),
            _ => None,
        }
    }
}

/// `` `a`, `b`, `c` ``
fn names() -> String {
    TASKS.map(|task| format!("`{}`", task.name())).join(", ")
}
