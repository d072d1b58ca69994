use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::super::{AnswerError, AnswerSpec, AnswerTask, Grade, Item, Items, Metric, Response, Takes};
use super::{Family, Puzzle, RECALL, TAKES, grade, with_inserted};
use crate::tasks::prose::{Form, Prose};

/// Assignments after the first; RULER's number.
const HOPS: usize = 4;
/// Tokens of an answer: five names of five letters. RULER's 30 are too few where each letter is a token.
const NEW_TOKENS: usize = 48;

/// A chain of assignments scattered over a text, in order; asked for are all variables that hold the first one's value.
///
/// A second chain with another value is there as well, so that naming every variable takes reading.
#[derive(Clone, Copy, Debug)]
pub struct VariableTracking;

impl AnswerTask for VariableTracking {
    fn name(&self) -> &'static str {
        "ruler-vt"
    }

    fn takes(&self) -> Takes {
        TAKES
    }

    fn metrics(&self) -> &'static [Metric] {
        &[RECALL]
    }

    fn items(&self, spec: &AnswerSpec, count: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError> {
        let make = |rng| Box::new(Chains::new(rng)) as Box<dyn Puzzle>;
        Family { task: self, stream: 5, new_tokens: NEW_TOKENS, make: &make }.items(spec, count)
    }

    fn grade(&self, item: &Item, response: &Response) -> Grade {
        grade(item, response)
    }
}

struct Chains {
    prose: Prose,
    assignments: Vec<(f64, String)>,
    value: u32,
    names: Vec<String>,
}

impl Chains {
    fn new(mut rng: ChaCha8Rng) -> Self {
        let mut names: Vec<String> = Vec::new();
        while names.len() < 2 * (HOPS + 1) {
            let name: String = (0..5).map(|_| char::from(rng.random_range(b'A'..=b'Z'))).collect();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let value = rng.random_range(10_000..50_000);
        let other = rng.random_range(50_000..100_000);
        let (asked, decoy) = names.split_at(HOPS + 1);
        let mut assignments = chain(asked, value, &mut rng);
        assignments.extend(chain(decoy, other, &mut rng));
        let names = asked.to_vec();
        Self { prose: Prose::new(Form::Report, rng), assignments, value, names }
    }
}

/// `VAR A = 1.`, `VAR B = VAR A.`, … at places that ascend.
fn chain(names: &[String], value: u32, rng: &mut ChaCha8Rng) -> Vec<(f64, String)> {
    let mut places: Vec<f64> = names.iter().map(|_| rng.random_range(0.0..=1.0)).collect();
    places.sort_by(f64::total_cmp);
    let sentence = |index: usize| match index {
        0 => format!("VAR {} = {value}.", names[0]),
        _ => format!("VAR {} = VAR {}.", names[index], names[index - 1]),
    };
    places.into_iter().zip((0..names.len()).map(sentence)).collect()
}

impl Puzzle for Chains {
    fn prompt(&mut self, units: usize) -> String {
        let text = with_inserted(self.prose.sentences(units), &self.assignments);
        let value = self.value;
        format!(
            "Variables are set in the following text, some directly and some to another variable. Follow them.\n\n\
             {text}\n\nQuestion: Which variables have the value {value}? Name all {} of them.\n\
             Answer: The variables with the value {value} are:",
            self.names.len()
        )
    }

    fn answers(&self) -> Vec<String> {
        self.names.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn running_the_assignments_in_order_gives_the_answer() {
        for seed in 0..20 {
            let mut chains = Chains::new(ChaCha8Rng::seed_from_u64(seed));
            let prompt = chains.prompt(25);
            let mut values: HashMap<&str, u32> = HashMap::new();
            let text = prompt.split("Question:").next().expect("a text");
            for assignment in text.split("VAR ").collect::<Vec<_>>().windows(2).map(|pair| pair[1]) {
                let Some((name, value)) = assignment.split_once(" = ") else { continue };
                if let Ok(value) = value.split('.').next().expect("a value").parse() {
                    values.insert(name, value);
                }
            }
            for (name, from) in pairs(text) {
                let value = values[from];
                values.insert(name, value);
            }
            let mut found: Vec<&str> =
                values.iter().filter(|&(_, &value)| value == chains.value).map(|(&name, _)| name).collect();
            let mut expected = chains.answers();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    }

    /// `VAR B = VAR A.` as (B, A), in the order of the text.
    fn pairs(text: &str) -> Vec<(&str, &str)> {
        let parts: Vec<&str> = text.split("VAR ").collect();
        parts
            .windows(2)
            .filter_map(|pair| {
                let name = pair[0].strip_suffix(" = ")?;
                Some((name, pair[1].split('.').next()?))
            })
            .collect()
    }
}
