//! `narrative`: a story from the grammar, where the user has no file of prose.

use super::grow::{smallest_reaching, units_from};
use super::prose::{Form, Prose};
use super::random::document_rng;
use super::{Prompt, Task, TaskError, TaskSpec, document_id};
use crate::trace::Split;

/// Generated story text, to be continued; it has no question and no answer.
///
/// It stands in for prose where there is no file: real prose is more varied, and figures that matter should
/// come from `plain-text`.
#[derive(Clone, Copy, Debug)]
pub struct Narrative;

impl Task for Narrative {
    fn name(&self) -> &'static str {
        "narrative"
    }

    fn domain(&self) -> &'static str {
        "prose"
    }

    fn prompts(
        &self,
        spec: &TaskSpec,
        count_tokens: &dyn Fn(&str) -> usize,
    ) -> Result<Vec<(Split, Prompt)>, TaskError> {
        let document = |(split, index)| {
            let mut prose = Prose::new(Form::Story, document_rng(spec.seed, 3, split, index));
            let id = document_id(split, index);
            let sentences = smallest_reaching(spec.min_tokens, units_from(3, spec.min_tokens), |n| {
                count_tokens(&prose.text(n, None))
            });
            let sentences = sentences.map_err(|found| TaskError::PromptShort {
                task: self.name(),
                id: id.clone(),
                found,
                expected: spec.min_tokens,
            })?;
            let text = prose.text(sentences, None);
            Ok((split, Prompt { id, domain: self.domain().to_owned(), text, answer: None }))
        };
        spec.documents.each().map(document).collect()
    }
}
