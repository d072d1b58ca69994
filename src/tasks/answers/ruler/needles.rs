use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::super::{AnswerError, AnswerSpec, AnswerTask, Grade, Item, Items, Metric, Response, Takes};
use super::{FOUND, Family, Puzzle, RECALL, TAKES, grade, with_inserted};
use crate::tasks::prose::{Form, Prose};
use crate::tasks::retrieval;

/// Keys, or values of one key, where several are hidden; RULER's number.
const SEVERAL: usize = 4;
/// Tokens of an answer; RULER's number.
const NEW_TOKENS: usize = 128;

/// Sentences with magic numbers in a long text, and questions for some of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Niah {
    /// One sentence is hidden, and asked for.
    Single,
    /// Sentences with four keys are hidden, one is asked for.
    MultiKey,
    /// One key has four numbers, all are asked for.
    MultiValue,
    /// Sentences with four keys are hidden, all are asked for.
    MultiQuery,
}

impl Niah {
    fn keys(self) -> usize {
        if matches!(self, Self::MultiKey | Self::MultiQuery) { SEVERAL } else { 1 }
    }

    fn values(self) -> usize {
        if self == Self::MultiValue { SEVERAL } else { 1 }
    }

    fn asked(self) -> usize {
        if self == Self::MultiQuery { SEVERAL } else { 1 }
    }
}

impl AnswerTask for Niah {
    fn name(&self) -> &'static str {
        match self {
            Self::Single => "ruler-niah-single",
            Self::MultiKey => "ruler-niah-multikey",
            Self::MultiValue => "ruler-niah-multivalue",
            Self::MultiQuery => "ruler-niah-multiquery",
        }
    }

    fn takes(&self) -> Takes {
        TAKES
    }

    fn metrics(&self) -> &'static [Metric] {
        match self {
            Self::Single | Self::MultiKey => &[FOUND],
            Self::MultiValue | Self::MultiQuery => &[RECALL],
        }
    }

    fn items(&self, spec: &AnswerSpec, count: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError> {
        let make = |rng| Box::new(Haystack::new(*self, rng)) as Box<dyn Puzzle>;
        Family { task: self, stream: 1 + *self as u64, new_tokens: NEW_TOKENS, make: &make }
            .items(spec, count)
    }

    fn grade(&self, item: &Item, response: &Response) -> Grade {
        grade(item, response)
    }
}

struct Haystack {
    prose: Prose,
    /// Share of the text before each, and the sentence.
    needles: Vec<(f64, String)>,
    asked: Vec<String>,
    answers: Vec<String>,
}

impl Haystack {
    fn new(kind: Niah, mut rng: ChaCha8Rng) -> Self {
        let mut keys: Vec<String> = Vec::new();
        while keys.len() < kind.keys() {
            let key = retrieval::key(&mut rng);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let (mut needles, mut answers) = (Vec::new(), Vec::new());
        for (index, key) in keys.iter().enumerate() {
            for _ in 0..kind.values() {
                let number = rng.random_range(1_000_000..10_000_000).to_string();
                let sentence = format!("One of the special magic numbers for {key} is {number}.");
                needles.push((rng.random_range(0.0..=1.0), sentence));
                answers.extend(Some(number).filter(|_| index < kind.asked()));
            }
        }
        keys.truncate(kind.asked());
        Self { prose: Prose::new(Form::Report, rng), needles, asked: keys, answers }
    }
}

impl Puzzle for Haystack {
    fn prompt(&mut self, units: usize) -> String {
        let text = with_inserted(self.prose.sentences(units), &self.needles);
        let keys = self.asked.join(", ");
        let (numbers, are) = if self.answers.len() == 1 { ("number", "is") } else { ("numbers", "are") };
        format!(
            "Special magic numbers are hidden in the following text. Remember them; you will be asked for them \
             afterwards.\n\n{text}\n\nQuestion: What {are} the special magic {numbers} for {keys} mentioned in the \
             text above?\nAnswer: The special magic {numbers} for {keys} mentioned in the text {are}"
        )
    }

    fn answers(&self) -> Vec<String> {
        self.answers.clone()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_number_stands_once_and_only_asked_keys_are_in_the_question() {
        for (kind, needles, answers) in
            [(Niah::Single, 1, 1), (Niah::MultiKey, 4, 1), (Niah::MultiValue, 4, 4), (Niah::MultiQuery, 4, 4)]
        {
            let mut puzzle = Haystack::new(kind, ChaCha8Rng::seed_from_u64(5));
            let prompt = puzzle.prompt(30);
            assert_eq!(prompt.matches("One of the special magic numbers for").count(), needles, "{kind:?}");
            assert_eq!(puzzle.answers().len(), answers);
            assert!(puzzle.answers().iter().all(|number| prompt.matches(number.as_str()).count() == 1));
            let question = prompt.rsplit("Question:").next().expect("a question");
            assert!(puzzle.asked.iter().all(|key| question.matches(key.as_str()).count() == 2), "{question}");
        }
    }
}
