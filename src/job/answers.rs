use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Job;

use crate::cache::CacheKind;
use crate::score::Objective;
use crate::tasks::answers::AnswerSpec;
#[cfg(any(feature = "flex", feature = "cuda"))]
use crate::tasks::answers::Shares;

/// Questions that `objective: accuracy` marks maps by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AnswersSpec {
    /// What is asked; one task or several, since a map tuned on one can hurt another.
    pub tasks: Vec<Questions>,
    /// What several tasks make together.
    pub combine: Combine,
    /// Questions of each task in each split, at most.
    pub items: ItemCounts,
    /// What keys and values are held in meanwhile.
    pub cache: CacheKind,
    /// Whether a map that falls behind for sure is asked no more; with several tasks only where their mean counts and
    /// all have equally many questions.
    pub race: bool,
    /// Questions between two looks at who has fallen behind, and between two writes of the answers.
    pub block: usize,
    /// (Question, map) pairs that go side by side, at most.
    pub lanes: usize,
    /// Decides what is generated, which worked examples are drawn, and which split a question belongs to.
    pub seed: u64,
}

impl Default for AnswersSpec {
    fn default() -> Self {
        Self {
            tasks: Vec::new(),
            combine: Combine::default(),
            items: ItemCounts::default(),
            cache: CacheKind::Packed,
            race: true,
            block: 10,
            lanes: 64,
            seed: 0,
        }
    }
}

/// What several tasks make together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// The mean of their losses.
    #[default]
    Mean,
    /// The greatest of their losses.
    Worst,
    /// Nothing: each is an objective of its own, and the front is over bits and all of them. A map is chosen by its
    /// worst task.
    Each,
}

impl Job {
    /// The tasks, where each is an objective of its own.
    pub(super) fn each_task(&self) -> Option<&[Questions]> {
        let answers = self.answers.as_ref().filter(|_| self.search.objective == Objective::Accuracy)?;
        (answers.combine == Combine::Each).then_some(&answers.tasks)
    }

    /// Behind "lost": which of several tasks a loss of accuracy is in. Nothing where there is one; only accuracy has
    /// tasks (`check` refuses them beside another objective).
    pub(crate) fn lost_where(&self) -> &'static str {
        match self.answers.as_ref().filter(|answers| answers.tasks.len() > 1).map(|answers| answers.combine) {
            None => "",
            Some(Combine::Mean) => " on the mean of the tasks",
            Some(Combine::Worst | Combine::Each) => " in the worst task",
        }
    }
}

/// Questions of a task, split by split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ItemCounts {
    /// Marked by the search.
    pub search: u32,
    /// Choose from its front.
    pub select: u32,
    /// Read once.
    pub test: u32,
}

impl Default for ItemCounts {
    fn default() -> Self {
        Self { search: 40, select: 40, test: 80 }
    }
}

impl ItemCounts {
    /// Splits in the same proportion.
    #[cfg(any(feature = "flex", feature = "cuda"))]
    pub(super) fn shares(self) -> Shares {
        Shares { search: self.search, select: self.select, test: self.test }
    }

    /// Questions to generate so that chance leaves each split its number: all of them and half as many again.
    pub(super) fn to_generate(self) -> usize {
        let total = self.search as usize + self.select as usize + self.test as usize;
        total + total / 2 + 10
    }
}

/// One task of [`AnswersSpec`]; absent fields are the task's own choice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Questions {
    /// A task that `kvtune eval --task` knows, but `perplexity`.
    pub task: String,
    /// The file, or folder of files, that the items are read from.
    pub data: Option<PathBuf>,
    /// The file, or folder, that worked examples are read from.
    pub train: Option<PathBuf>,
    /// Prompt texts by set, in place of our own.
    pub template: Option<PathBuf>,
    /// Worked examples before the question.
    pub shots: Option<usize>,
    /// Tokens of a generated prompt and its answer.
    pub length: Option<usize>,
    /// Tokens of an answer at most.
    pub max_new_tokens: Option<usize>,
}

impl Questions {
    /// What the task is asked for: all that the file has, or as many as the splits want.
    pub(super) fn spec(&self, answers: &AnswersSpec) -> AnswerSpec {
        let generated = self.data.is_none().then(|| answers.items.to_generate());
        AnswerSpec {
            data: self.data.clone(),
            train: self.train.clone(),
            template: self.template.clone(),
            shots: self.shots,
            items: generated,
            length: self.length,
            max_new_tokens: self.max_new_tokens,
            seed: answers.seed,
            ..AnswerSpec::named(&self.task)
        }
    }

    /// The paths that a job's file names.
    pub(super) fn paths(&mut self) -> [(&'static str, &mut Option<PathBuf>); 3] {
        [
            ("answers.tasks.data", &mut self.data),
            ("answers.tasks.train", &mut self.train),
            ("answers.tasks.template", &mut self.template),
        ]
    }
}
