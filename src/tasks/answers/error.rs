use crate::nearest::nearest;
use std::io;
use std::path::PathBuf;

use super::{ANSWER_TASKS, AnswerTask};

/// Why there are no questions to ask.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// No task of that name.
    #[error("unknown task `{found}`, expected one of {}", names())]
    Unknown {
        /// What was asked for.
        found: String,
        /// The name that it resembles most, if it resembles any.
        nearest: Option<&'static str>,
    },
    /// The task needs a field that the spec lacks.
    #[error("task `{task}` needs `--{option}`")]
    Missing {
        /// Its name.
        task: &'static str,
        /// The field, as it is typed.
        option: &'static str,
        /// What it is for.
        why: &'static str,
    },
    /// The task has no use for a field.
    #[error("task `{task}` has no use for `--{option}`")]
    Unused {
        /// Its name.
        task: &'static str,
        /// The field, as it is typed.
        option: &'static str,
    },
    /// A number beyond what makes sense.
    #[error("`--{option}` is {found}, but it must lie in {least}..={most}")]
    Range {
        /// The field, as it is typed.
        option: &'static str,
        /// What was asked for.
        found: usize,
        /// The least that makes sense.
        least: usize,
        /// The most that makes sense.
        most: usize,
    },
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing in the file.
    #[error("`{}` is empty, expected {expected}", path.display())]
    Empty {
        /// The file or folder.
        path: PathBuf,
        /// What should be in it.
        expected: &'static str,
    },
    /// A line that is not what it should be.
    #[error("`{}`, {place}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// `line 3`, or `entry 3` of a JSON list.
        place: String,
        /// Found against expected.
        message: String,
    },
    /// Other columns than the set is published with.
    #[error("`{}`, {place}: found the columns {}, but {} is missing", path.display(), list(found), list(missing))]
    Columns {
        /// The file.
        path: PathBuf,
        /// Where.
        place: String,
        /// What is there.
        found: Vec<String>,
        /// What is expected and not there.
        missing: Vec<String>,
    },
    /// Fewer worked examples than asked for.
    #[error("`{}` has {found} worked examples, but `--shots` asks for {expected}", path.display())]
    Examples {
        /// The file.
        path: PathBuf,
        /// How many there are.
        found: usize,
        /// How many were asked for.
        expected: usize,
    },
    /// A text of that length cannot be made.
    #[error(
        "task `{task}` cannot fill {length} tokens: its shortest prompt has {shortest} and {answer} may follow"
    )]
    Length {
        /// Its name.
        task: &'static str,
        /// The length asked.
        length: usize,
        /// Tokens of the shortest prompt.
        shortest: usize,
        /// Tokens of the answer.
        answer: usize,
    },
    /// Nothing is left.
    #[error("task `{task}` has no item left beside its worked examples")]
    NoItems {
        /// Its name.
        task: &'static str,
    },
}

impl AnswerError {
    /// `Unknown`, with the nearest name if one is near.
    pub(super) fn unknown(found: &str) -> Self {
        Self::Unknown {
            found: found.to_owned(),
            nearest: nearest(found, ANSWER_TASKS.map(|task| task.name())),
        }
    }

    /// What the user could do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { nearest, .. } => nearest.map(|name| format!("did you mean `{name}`?")),
            Self::Missing { why, .. } => Some((*why).to_owned()),
            Self::Columns { .. } => Some("give the file in the layout in which the set is published".into()),
            Self::Examples { .. } => Some("ask for fewer `--shots`, or give a longer `--train` file".into()),
            Self::Length { .. } => Some("raise `--length`".into()),
            Self::NoItems { .. } => Some("give another `--train` file, or fewer `--shots`".into()),
            _ => None,
        }
    }

    /// Whether it is in what was typed, rather than in a file.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Unknown { .. }
                | Self::Missing { .. }
                | Self::Unused { .. }
                | Self::Range { .. }
                | Self::Length { .. }
        )
    }
}

/// `` `a`, `b`, `c` ``
fn names() -> String {
    list(&ANSWER_TASKS.map(AnswerTask::name))
}

fn list<T: std::fmt::Display>(names: &[T]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
