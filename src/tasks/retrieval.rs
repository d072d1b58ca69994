//! `ruler-niah`: a needle in a haystack, after RULER (Hsieh et al., arXiv:2404.06654); all text is **ours**.

use std::collections::HashSet;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::grow::{smallest_reaching, units_from};
use super::prose::{Form, Prose};
use super::random::{document_rng, pick};
use super::{Prompt, Task, TaskError, TaskSpec, document_id};
use crate::trace::Split;

/// Sentences around the needle, at least.
const MIN_SENTENCES: usize = 8;
/// Draws in search of a key that was not used yet.
const ATTEMPTS: usize = 1000;

/// One sentence with a magic number in a long text; the question at the end asks for the number.
///
/// The needle's depth is uniform over the text. Filler sentences are added until the length is reached. Every
/// document of every split has a key of its own; filler may recur.
#[derive(Clone, Copy, Debug)]
pub struct RulerNiah;

impl Task for RulerNiah {
    fn name(&self) -> &'static str {
        "ruler-niah"
    }

    fn domain(&self) -> &'static str {
        "retrieval"
    }

    fn prompts(
        &self,
        spec: &TaskSpec,
        count_tokens: &dyn Fn(&str) -> usize,
    ) -> Result<Vec<(Split, Prompt)>, TaskError> {
        let mut keys = HashSet::new();
        let document = |(split, index)| {
            let mut rng = document_rng(spec.seed, 2, split, index);
            let needle = Needle::draw(&mut rng, &mut keys)?;
            let id = document_id(split, index);
            let mut haystack = Prose::new(Form::Report, rng);
            let mut render = |n| needle.render(&mut haystack, n);
            let sentences =
                smallest_reaching(spec.min_tokens, units_from(MIN_SENTENCES, spec.min_tokens), |n| {
                    count_tokens(&render(n))
                });
            let sentences = sentences.map_err(|found| TaskError::PromptShort {
                task: self.name(),
                id: id.clone(),
                found,
                expected: spec.min_tokens,
            })?;
            let text = render(sentences);
            let answer = Some(needle.number.to_string());
            Ok((split, Prompt { id, domain: self.domain().to_owned(), text, answer }))
        };
        spec.documents.each().map(document).collect()
    }
}

/// Something to have a magic number: `amber-anchor-42`.
pub(super) fn key(rng: &mut ChaCha8Rng) -> String {
    let (kind, thing) = (pick(rng, &KINDS), pick(rng, &THINGS));
    format!("{kind}-{thing}-{}", rng.random_range(10..100))
}

struct Needle {
    key: String,
    number: u32,
    /// Share of the sentences that stand before it, in 0..=1.
    depth: f64,
}

impl Needle {
    fn draw(rng: &mut ChaCha8Rng, keys: &mut HashSet<String>) -> Result<Self, TaskError> {
        for _ in 0..ATTEMPTS {
            let key = key(rng);
            if keys.insert(key.clone()) {
                let number = rng.random_range(1_000_000..10_000_000);
                return Ok(Self { key, number, depth: rng.random_range(0.0..=1.0) });
            }
        }
        Err(TaskError::Exhausted { task: RulerNiah.name(), found: keys.len() })
    }

    fn render(&self, haystack: &mut Prose, sentences: usize) -> String {
        let Self { key, number, depth } = self;
        let needle = format!("The special magic number for {key} is {number}.");
        let at = (depth * sentences as f64).round() as usize;
        let text = haystack.text(sentences, Some((at, &needle)));
        format!(
            "A special magic number is hidden in the following text. Remember it; you will be asked for it afterwards.\n\n\
             {text}\n\n\
             Question: What is the special magic number for {key} mentioned in the text above?\nAnswer:"
        )
    }
}

const KINDS: [&str; 20] = [
    "amber", "brave", "calm", "distant", "early", "faded", "gentle", "hollow", "ivory", "jolly", "little",
    "mellow", "narrow", "open", "plain", "quiet", "rapid", "silver", "tidy", "woven",
];

const THINGS: [&str; 20] = [
    "anchor", "bridge", "candle", "desert", "engine", "feather", "glacier", "hammer", "island", "jacket",
    "kettle", "ladder", "meadow", "needle", "orchid", "pepper", "ribbon", "saddle", "timber", "violin",
];

#[cfg(test)]
mod tests {
    use super::super::{DocumentCounts, prompts};
    use super::*;

    fn documents() -> Vec<Prompt> {
        let spec = TaskSpec {
            documents: DocumentCounts { search: 30, select: 30, test: 30 },
            ..TaskSpec::named("ruler-niah")
        };
        let words = |text: &str| text.split_whitespace().count();
        prompts(&spec, &words).expect("prompts").into_iter().map(|(_, prompt)| prompt).collect()
    }

    #[test]
    fn the_answer_stands_once_in_the_text_behind_its_key() {
        for Prompt { text, answer, .. } in documents() {
            let number = answer.expect("it has one");
            assert_eq!(text.matches(&number).count(), 1);
            let (_, rest) = text.split_once("The special magic number for ").expect("a needle");
            let (key, rest) = rest.split_once(" is ").expect("a needle");
            assert!(rest.starts_with(&number));
            assert!(text.ends_with(&format!("for {key} mentioned in the text above?\nAnswer:")));
        }
    }

    #[test]
    fn depths_spread_over_the_whole_text() {
        let mut quarters = [0; 4];
        for Prompt { text, .. } in documents() {
            let at = text.find("The special magic number").expect("a needle");
            quarters[4 * at / text.len()] += 1;
        }
        // 90 documents: about 22 a quarter, standard deviation about 4; fewer than 8 means a bias.
        assert!(quarters.iter().all(|&count| count >= 8), "{quarters:?}");
    }
}
