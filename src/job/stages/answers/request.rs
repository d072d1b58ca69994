use std::path::PathBuf;

use crate::cache::CacheKind;
use crate::job::stages::{Configuration, Restoration};
use crate::model::WeightType;
use crate::tasks::answers::{AnswerError, AnswerSpec};

/// A task that configurations shall be compared on.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerRequest {
    /// The model.
    pub model: String,
    /// What weights are held as.
    pub weights: WeightType,
    /// The task, its files and how much of them.
    pub spec: AnswerSpec,
    /// Several amounts of it, each in rows of its own.
    pub ladder: Ladder,
    /// What keys and values of the configurations are held in.
    pub cache: CacheKind,
    /// What to compare, besides full precision; may be nothing.
    pub configurations: Vec<Configuration>,
    /// (Item, configuration) pairs that go side by side, at most.
    pub lanes: usize,
    /// Heads that repair the configurations that they are for, in rows of their own.
    pub restoration: Option<Restoration>,
    /// Where every answer goes, as JSON lines.
    pub save: Option<PathBuf>,
}

/// What memory may be spent on besides bits. An empty list asks for what the spec says alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ladder {
    /// Worked examples before a question: every number is asked for itself.
    pub shots: Vec<usize>,
    /// Tokens of an answer at most: the longest is written, and the others are where it was then. The items are those
    /// that fit the context with the longest.
    pub max_new_tokens: Vec<usize>,
}

impl Ladder {
    /// One spec a number of worked examples, each with the longest limit.
    ///
    /// # Errors
    /// What is wrong with any number, be it cut to or asked for.
    pub(super) fn specs(&self, spec: &AnswerSpec) -> Result<Vec<AnswerSpec>, AnswerError> {
        for max_new_tokens in self.limits(spec) {
            AnswerSpec { max_new_tokens, ..spec.clone() }.check()?;
        }
        let shots = match &self.shots[..] {
            [] => vec![spec.shots],
            several => several.iter().map(|&shots| Some(shots)).collect(),
        };
        let max_new_tokens = self.max_new_tokens.iter().max().copied().or(spec.max_new_tokens);
        Ok(shots.into_iter().map(|shots| AnswerSpec { shots, max_new_tokens, ..spec.clone() }).collect())
    }

    /// The limits that answers are cut to.
    pub(super) fn limits(&self, spec: &AnswerSpec) -> Vec<Option<usize>> {
        match &self.max_new_tokens[..] {
            [] => vec![spec.max_new_tokens],
            several => several.iter().map(|&limit| Some(limit)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ladder_asks_every_number_of_examples_and_writes_the_longest_answer_once() {
        let gsm8k =
            AnswerSpec { data: Some("d".into()), train: Some("t".into()), ..AnswerSpec::named("gsm8k") };
        let spec = AnswerSpec { shots: Some(1), max_new_tokens: Some(9), ..gsm8k };
        let of = |ladder: &Ladder| -> Vec<_> {
            let specs = ladder.specs(&spec).expect("numbers that can be");
            specs.into_iter().map(|spec| (spec.shots, spec.max_new_tokens)).collect()
        };
        assert_eq!(of(&Ladder::default()), [(Some(1), Some(9))]);
        assert_eq!(Ladder::default().limits(&spec), [Some(9)]);
        let ladder = Ladder { shots: vec![0, 4], max_new_tokens: vec![20, 50] };
        assert_eq!(of(&ladder), [(Some(0), Some(50)), (Some(4), Some(50))]);
        assert_eq!(ladder.limits(&spec), [Some(20), Some(50)]);
        let nothing = Ladder { max_new_tokens: vec![0, 50], ..ladder };
        let message = nothing.specs(&spec).expect_err("an answer of no tokens").to_string();
        assert!(message.starts_with("`--max-new-tokens` is 0"), "{message}");
    }
}
