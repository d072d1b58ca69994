//! The questions of one split.

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::job::stages::answers::encode;
use crate::job::stages::ledger::hex;
use crate::job::stages::session::Session;
use crate::job::stages::{StageError, fit};
use crate::job::{AnswersSpec, Questions};
use crate::model::Tokenizer;
use crate::score::{Question, Reply};
use crate::tasks::answers::{self, AnswerTask, Item};
use crate::trace::Split;

/// Questions of all tasks in turn, so that every block has some of each.
pub(super) struct Paper {
    entries: Vec<Entry>,
    /// Beside the entries, as whoever asks wants them.
    questions: Vec<Question>,
    skipped: usize,
}

struct Entry {
    task: usize,
    grader: &'static dyn AnswerTask,
    item: Item,
    key: String,
}

impl Paper {
    pub(super) fn read(
        session: &Session<'_>,
        spec: &AnswersSpec,
        tokenizer: &Tokenizer,
        split: Split,
        count: &dyn Fn(&str) -> usize,
    ) -> Result<Self, StageError> {
        let mut by_task = Vec::new();
        let mut skipped = 0;
        for (task, questions) in spec.tasks.iter().enumerate() {
            let of_task = questions.spec(spec);
            let grader = of_task.check()?;
            fit::questions(&of_task, session)?;
            let found = answers::items(&of_task, count)?.items;
            let parts = answers::split(found, spec.seed, spec.items.shares());
            let (mut items, most) = match split {
                Split::Search => (parts.search, spec.items.search),
                Split::Select => (parts.select, spec.items.select),
                Split::Test => (parts.test, spec.items.test),
            };
            items.truncate(most as usize);
            if items.is_empty() {
                return Err(no_questions(questions, split));
            }
            let asked = encode::encode(items, session, tokenizer)?;
            skipped += asked.skipped;
            let entry = |(item, question): (Item, Question)| {
                let key = key(&item);
                (Entry { task, grader, item, key }, question)
            };
            by_task.push(asked.items.into_iter().zip(asked.questions).map(entry).collect());
        }
        let (entries, questions) = in_turn(by_task).into_iter().unzip();
        Ok(Self { entries, questions, skipped })
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Blocks of `size` questions a task, in order.
    pub(super) fn blocks(&self, size: usize) -> Vec<Range<usize>> {
        let tasks = self.entries.iter().map(|entry| entry.task + 1).max().unwrap_or(1);
        let size = (size * tasks).max(1);
        (0..self.len()).step_by(size).map(|start| start..(start + size).min(self.len())).collect()
    }

    /// Whether all tasks have equally many questions.
    pub(super) fn is_even(&self) -> bool {
        let mut counts = std::collections::BTreeMap::new();
        self.entries.iter().for_each(|entry| *counts.entry(entry.task).or_insert(0_usize) += 1);
        let mut counts = counts.into_values();
        let first = counts.next();
        counts.all(|count| Some(count) == first)
    }

    pub(super) fn task(&self, question: usize) -> usize {
        self.entries[question].task
    }

    pub(super) fn id(&self, question: usize) -> &str {
        &self.entries[question].item.id
    }

    pub(super) fn key(&self, question: usize) -> &str {
        &self.entries[question].key
    }

    pub(super) fn keys(&self, block: Range<usize>) -> impl Iterator<Item = &str> {
        self.entries[block].iter().map(|entry| entry.key.as_str())
    }

    pub(super) fn questions(&self, block: Range<usize>) -> &[Question] {
        &self.questions[block]
    }

    /// The task's main metric.
    pub(super) fn grade(&self, question: usize, reply: &Reply) -> f64 {
        let Entry { grader, item, .. } = &self.entries[question];
        grader.grade(item, &reply.response).scores.first().copied().unwrap_or(0.0)
    }

    /// Tokens of the longest question with its answer.
    pub(super) fn longest(&self) -> usize {
        self.questions.iter().map(Question::longest).max().unwrap_or(0)
    }

    pub(super) fn longest_prefix(&self) -> usize {
        self.questions.iter().map(|question| question.prefix.len()).max().unwrap_or(0)
    }

    pub(super) fn content_key(&self) -> String {
        let keys: Vec<&str> = self.keys(0..self.len()).collect();
        hex(&Sha256::digest(keys.join("\0")))
    }

    pub(super) fn summary(&self) -> String {
        let left_out = match self.skipped {
            0 => String::new(),
            skipped => format!(", {skipped} left out, longer than the context"),
        };
        format!("{} questions{left_out}", self.len())
    }
}

fn no_questions(questions: &Questions, split: Split) -> StageError {
    StageError::Unmet {
        message: format!("no question of `{}` falls into the {split} split", questions.task),
        hint: Some("raise its number in `answers.items`, or name a larger file".into()),
    }
}

/// Prompt, what is asked and the right answer.
fn key(item: &Item) -> String {
    hex(&Sha256::digest(format!("{:?}\0{:?}\0{:?}", item.prompt, item.ask, item.gold)))
}

/// The first of each list, the second of each, and so on.
fn in_turn<T>(lists: Vec<Vec<T>>) -> Vec<T> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(lists.iter_mut().filter_map(Iterator::next));
        if all.len() == before {
            return all;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_take_turns_until_all_are_through() {
        assert_eq!(in_turn(vec![vec![1, 2, 3], vec![], vec![10]]), [1, 10, 2, 3]);
    }
}
