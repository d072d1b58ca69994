use std::path::{Path, PathBuf};

use super::{AnswerError, AnswerTask, answer_task};

/// More worked examples than any context has room for.
const MAX_SHOTS: usize = 1000;
/// More items than anyone waits for.
const MAX_ITEMS: usize = 1_000_000;
/// Longer contexts than any model served here has.
const MAX_TOKENS: usize = 1 << 20;
/// Items that a task generates where nobody says how many.
const GENERATED_ITEMS: usize = 50;
/// Tokens of a generated prompt and its answer where nobody says how many.
const GENERATED_LENGTH: usize = 1024;

/// Which task, which files, how much of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerSpec {
    /// One of [`super::ANSWER_TASKS`], by name.
    pub task: String,
    /// The file, or folder of files, that the items are read from.
    pub data: Option<PathBuf>,
    /// The file, or folder, that worked examples are read from.
    pub train: Option<PathBuf>,
    /// Prompt texts by set, in YAML or JSON, in place of our own.
    pub template: Option<PathBuf>,
    /// Worked examples before the question; where absent, the task's own number with `train` and 0 without.
    pub shots: Option<usize>,
    /// Items at most, from the start of the file; 50 where they are generated and it is absent.
    pub items: Option<usize>,
    /// Tokens of a generated prompt and its answer; 1,024 where absent.
    pub length: Option<usize>,
    /// Tokens of an answer at most, in place of the task's own number.
    pub max_new_tokens: Option<usize>,
    /// Decides which worked examples are drawn, how choices are shuffled, and all that is generated.
    pub seed: u64,
}

/// Which fields of a spec a task has a use for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    /// `data`, and then it needs it; otherwise its items are generated, at any `length`.
    pub data: bool,
    /// `train` and `shots`.
    pub shots: bool,
    /// `template`.
    pub template: bool,
    /// `max_new_tokens`.
    pub writes: bool,
}

impl AnswerSpec {
    /// The task of that name, all else absent.
    pub fn named(task: &str) -> Self {
        Self {
            task: task.to_owned(),
            data: None,
            train: None,
            template: None,
            shots: None,
            items: None,
            length: None,
            max_new_tokens: None,
            seed: 0,
        }
    }

    /// Whether its task can serve the spec at all, before anything is generated or read.
    ///
    /// # Errors
    /// A task nobody knows, a number out of range, a field that the task needs or has no use for.
    pub fn check(&self) -> Result<&'static dyn AnswerTask, AnswerError> {
        let task = answer_task(&self.task)?;
        let (name, takes) = (task.name(), task.takes());
        if takes.data && self.data.is_none() {
            return Err(AnswerError::Missing {
                task: name,
                option: "data",
                why: "name the set's file, in the layout in which it is published",
            });
        }
        let unused = [
            ("data", self.data.is_some() && !takes.data),
            ("length", self.length.is_some() && takes.data),
            ("train", self.train.is_some() && !takes.shots),
            ("shots", self.shots.is_some() && !takes.shots),
            ("template", self.template.is_some() && !takes.template),
            ("max-new-tokens", self.max_new_tokens.is_some() && !takes.writes),
        ];
        if let Some((option, _)) = unused.into_iter().find(|&(_, is_unused)| is_unused) {
            return Err(AnswerError::Unused { task: name, option });
        }
        self.check_numbers()?;
        if self.shots.is_some_and(|shots| shots > 0) && self.train.is_none() {
            let why = "worked examples come from a file of their own, so that no item is among them";
            return Err(AnswerError::Missing { task: name, option: "train", why });
        }
        Ok(task)
    }

    fn check_numbers(&self) -> Result<(), AnswerError> {
        let numbers = [
            ("shots", self.shots, 0, MAX_SHOTS),
            ("items", self.items, 1, MAX_ITEMS),
            ("length", self.length, 1, MAX_TOKENS),
            ("max-new-tokens", self.max_new_tokens, 1, MAX_TOKENS),
        ];
        for (option, found, least, most) in numbers {
            if let Some(found) = found.filter(|found| !(least..=most).contains(found)) {
                return Err(AnswerError::Range { option, found, least, most });
            }
        }
        Ok(())
    }

    /// Where the items are; [`check`](Self::check) has seen that the task has the field.
    pub(super) fn data(&self, task: &'static str) -> Result<&Path, AnswerError> {
        let why = "name the set's file";
        self.data.as_deref().ok_or(AnswerError::Missing { task, option: "data", why })
    }

    /// The file of worked examples and how many to take; none where there are none to take.
    pub(super) fn examples(&self, default: usize) -> Option<(&Path, usize)> {
        let shots = self.shots.unwrap_or(default);
        self.train.as_deref().filter(|_| shots > 0).map(|path| (path, shots))
    }

    pub(super) fn most_items(&self) -> usize {
        self.items.unwrap_or(usize::MAX)
    }

    pub(super) fn generated_items(&self) -> usize {
        self.items.unwrap_or(GENERATED_ITEMS)
    }

    pub(super) fn generated_length(&self) -> usize {
        self.length.unwrap_or(GENERATED_LENGTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(spec: &AnswerSpec) -> String {
        spec.check().err().expect("the spec asks for what cannot be").to_string()
    }

    #[test]
    fn what_a_task_needs_or_cannot_use_is_said() {
        assert_eq!(message(&AnswerSpec::named("gsm8k")), "task `gsm8k` needs `--data`");
        let data = AnswerSpec { data: Some("d.jsonl".into()), ..AnswerSpec::named("gsm8k") };
        assert!(data.check().is_ok());
        assert_eq!(message(&AnswerSpec { shots: Some(4), ..data.clone() }), "task `gsm8k` needs `--train`");
        assert_eq!(
            message(&AnswerSpec { length: Some(4), ..data.clone() }),
            "task `gsm8k` has no use for `--length`"
        );
        assert_eq!(
            message(&AnswerSpec { task: "ruler-vt".into(), ..data }),
            "task `ruler-vt` has no use for `--data`"
        );
    }

    #[test]
    fn absurd_numbers_are_refused() {
        let spec = AnswerSpec { items: Some(0), ..AnswerSpec::named("ruler-vt") };
        assert_eq!(message(&spec), "`--items` is 0, but it must lie in 1..=1000000");
        let spec = AnswerSpec { length: Some(usize::MAX), ..AnswerSpec::named("ruler-vt") };
        assert!(message(&spec).starts_with("`--length` is 18446744073709551615"), "{}", message(&spec));
    }
}
