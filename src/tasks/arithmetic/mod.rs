//! `arithmetic-chain`: word problems in the manner of GSM8K, all of them **ours**.

mod settings;
mod story;

use std::collections::HashSet;

use rand_chacha::ChaCha8Rng;

use super::grow::{smallest_reaching, units_from};
use super::random::document_rng;
use super::{Prompt, Task, TaskError, TaskSpec, document_id};
use crate::trace::Split;
use story::{Problem, problem};

/// Worked examples where the spec names no number: enough to show the form of an answer.
const DEFAULT_SHOTS: usize = 2;
/// Draws in search of a problem that was not used yet.
const ATTEMPTS: usize = 1000;

/// Multi-step word problems after worked examples; the answer is a positive integer.
///
/// A worked example ends with `The answer is N.`, the prompt with `Answer:`. Examples are added until the
/// length is reached. No problem occurs twice, in any document of any split.
#[derive(Clone, Copy, Debug)]
pub struct ArithmeticChain;

impl Task for ArithmeticChain {
    fn name(&self) -> &'static str {
        "arithmetic-chain"
    }

    fn domain(&self) -> &'static str {
        "arithmetic"
    }

    fn has_shots(&self) -> bool {
        true
    }

    fn prompts(
        &self,
        spec: &TaskSpec,
        count_tokens: &dyn Fn(&str) -> usize,
    ) -> Result<Vec<(Split, Prompt)>, TaskError> {
        let mut used = HashSet::new();
        let document = |(split, index)| {
            let rng = document_rng(spec.seed, 1, split, index);
            let prompt = self.document(spec, document_id(split, index), rng, &mut used, count_tokens)?;
            Ok((split, prompt))
        };
        spec.documents.each().map(document).collect()
    }
}

impl ArithmeticChain {
    fn document(
        &self,
        spec: &TaskSpec,
        id: String,
        mut rng: ChaCha8Rng,
        used: &mut HashSet<String>,
        count_tokens: &dyn Fn(&str) -> usize,
    ) -> Result<Prompt, TaskError> {
        let asked = fresh(&mut rng, used)?;
        let mut examples = Vec::new();
        let mut failure = None;
        let range = units_from(spec.shots.unwrap_or(DEFAULT_SHOTS), spec.min_tokens);
        let shots = smallest_reaching(spec.min_tokens, range, |shots| {
            while examples.len() < shots && failure.is_none() {
                match fresh(&mut rng, used) {
                    Ok(example) => examples.push(example),
                    Err(error) => failure = Some(error),
                }
            }
            count_tokens(&render(&examples[..shots.min(examples.len())], &asked))
        });
        if let Some(error) = failure {
            return Err(error);
        }
        let shots = shots.map_err(|found| TaskError::PromptShort {
            task: self.name(),
            id: id.clone(),
            found,
            expected: spec.min_tokens,
        })?;
        Ok(Prompt {
            id,
            domain: self.domain().to_owned(),
            text: render(&examples[..shots], &asked),
            answer: Some(asked.answer.to_string()),
        })
    }
}

/// A problem that no document used yet.
fn fresh(rng: &mut ChaCha8Rng, used: &mut HashSet<String>) -> Result<Problem, TaskError> {
    for _ in 0..ATTEMPTS {
        let drawn = problem(rng);
        if used.insert(drawn.question.clone()) {
            return Ok(drawn);
        }
    }
    Err(TaskError::Exhausted { task: ArithmeticChain.name(), found: used.len() })
}

fn render(examples: &[Problem], asked: &Problem) -> String {
    let mut text: String =
        examples.iter().map(|p| format!("Question: {}\nAnswer: {}\n\n", p.question, p.solution)).collect();
    text.push_str(&format!("Question: {}\nAnswer:", asked.question));
    text
}

#[cfg(test)]
mod tests {
    use super::super::{DocumentCounts, prompts};
    use super::*;

    fn spec() -> TaskSpec {
        TaskSpec {
            documents: DocumentCounts { search: 40, select: 40, test: 40 },
            ..TaskSpec::named("arithmetic-chain")
        }
    }

    fn words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn questions(text: &str) -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix("Question: ")).collect()
    }

    #[test]
    fn no_problem_occurs_twice_in_any_split() {
        let prompts = prompts(&spec(), &words).expect("prompts");
        let all: Vec<_> = prompts.iter().flat_map(|(_, prompt)| questions(&prompt.text)).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }

    #[test]
    fn a_prompt_is_examples_then_a_bare_question() {
        let (_, prompt) = prompts(&TaskSpec { shots: Some(3), min_tokens: 1, ..spec() }, &words)
            .expect("prompts")
            .swap_remove(0);
        assert_eq!(questions(&prompt.text).len(), 4);
        assert_eq!(prompt.text.matches("The answer is ").count(), 3);
        assert!(prompt.text.ends_with("?\nAnswer:"));
        assert!(prompt.answer.expect("it has one").parse::<u64>().expect("a number") > 0);
    }

    #[test]
    fn no_example_is_more_than_the_length_needs() {
        let spec = TaskSpec { shots: Some(0), min_tokens: 300, ..spec() };
        for (_, prompt) in prompts(&spec, &words).expect("prompts") {
            let (_, without_first) = prompt.text.split_once("\n\n").expect("there are examples");
            assert!(words(&prompt.text) >= 300);
            // Examples differ in length; the longest has fewer than 120 words.
            assert!(words(without_first) < 300 + 120);
        }
    }
}
