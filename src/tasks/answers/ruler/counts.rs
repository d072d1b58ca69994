use std::collections::BTreeSet;

use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::super::{AnswerError, AnswerSpec, AnswerTask, Grade, Item, Items, Metric, Response, Takes};
use super::{Family, Puzzle, RECALL, TAKES, grade};

/// Words that come often in `ruler-cwe`; RULER's number.
const COMMON: usize = 10;
/// How often they come, and how often the others do; RULER's numbers for short texts.
const OFTEN: usize = 10;
const SELDOM: usize = 3;
/// Words asked for in `ruler-fwe`; RULER's number.
const FREQUENT: usize = 3;
/// Exponent of the law by which words of `ruler-fwe` get rarer; RULER's number.
const EXPONENT: f64 = 2.0;
/// Words of `ruler-fwe`; the law makes those beyond too rare to be told apart.
const VOCABULARY: usize = 40;

/// A numbered list of words, ten of which come more often than the others; asked for are the ten.
#[derive(Clone, Copy, Debug)]
pub struct CommonWords;

/// Coded words, each rarer than the one before; asked for are the three most frequent.
#[derive(Clone, Copy, Debug)]
pub struct FrequentWords;

impl AnswerTask for CommonWords {
    fn name(&self) -> &'static str {
        "ruler-cwe"
    }

    fn takes(&self) -> Takes {
        TAKES
    }

    fn metrics(&self) -> &'static [Metric] {
        &[RECALL]
    }

    fn items(&self, spec: &AnswerSpec, count: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError> {
        let make = |rng| Box::new(Common::new(rng)) as Box<dyn Puzzle>;
        Family { task: self, stream: 6, new_tokens: 120, make: &make }.items(spec, count)
    }

    fn grade(&self, item: &Item, response: &Response) -> Grade {
        grade(item, response)
    }
}

impl AnswerTask for FrequentWords {
    fn name(&self) -> &'static str {
        "ruler-fwe"
    }

    fn takes(&self) -> Takes {
        TAKES
    }

    fn metrics(&self) -> &'static [Metric] {
        &[RECALL]
    }

    fn items(&self, spec: &AnswerSpec, count: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError> {
        let make = |rng| Box::new(Frequent::new(rng)) as Box<dyn Puzzle>;
        Family { task: self, stream: 7, new_tokens: 50, make: &make }.items(spec, count)
    }

    fn grade(&self, item: &Item, response: &Response) -> Grade {
        grade(item, response)
    }
}

/// Words that nobody has seen: three syllables, which gives 343,000, and four once many of those are used.
struct Words {
    rng: ChaCha8Rng,
    known: BTreeSet<String>,
    list: Vec<String>,
}

impl Words {
    fn new(rng: ChaCha8Rng) -> Self {
        Self { rng, known: BTreeSet::new(), list: Vec::new() }
    }

    /// The first `count` of them.
    fn first(&mut self, count: usize) -> &[String] {
        while self.list.len() < count {
            let word = self.draw();
            if self.known.insert(word.clone()) {
                self.list.push(word);
            }
        }
        &self.list[..count]
    }

    fn draw(&mut self) -> String {
        const STARTS: &[u8] = b"bdfgklmnprstvz";
        const VOWELS: &[u8] = b"aeiou";
        let syllables = if self.list.len() < 100_000 { 3 } else { 4 };
        let mut letter = |from: &[u8]| char::from(from[self.rng.random_range(0..from.len())]);
        (0..syllables).flat_map(|_| [letter(STARTS), letter(VOWELS)]).collect()
    }
}

struct Common {
    words: Words,
    seed: ChaCha8Rng,
}

impl Common {
    fn new(rng: ChaCha8Rng) -> Self {
        Self { words: Words::new(rng.clone()), seed: rng }
    }
}

impl Puzzle for Common {
    fn prompt(&mut self, units: usize) -> String {
        let words = self.words.first(COMMON + units);
        let times = |index: usize| if index < COMMON { OFTEN } else { SELDOM };
        let mut list: Vec<&str> = Vec::new();
        for (index, word) in words.iter().enumerate() {
            list.extend(std::iter::repeat_n(word.as_str(), times(index)));
        }
        list.shuffle(&mut self.seed.clone());
        let numbered: Vec<String> =
            (1..).zip(list).map(|(number, word)| format!("{number}. {word}")).collect();
        format!(
            "Below is a numbered list of words, some of which come more often than others. Remember those that come \
             most often.\n{}\nQuestion: Which {COMMON} words come most often in the list above?\n\
             Answer: The {COMMON} words that come most often are:",
            numbered.join(" ")
        )
    }

    fn answers(&self) -> Vec<String> {
        self.words.list[..COMMON.min(self.words.list.len())].to_vec()
    }
}

struct Frequent {
    words: Vec<String>,
    seed: ChaCha8Rng,
}

impl Frequent {
    fn new(rng: ChaCha8Rng) -> Self {
        Self { words: Words::new(rng.clone()).first(VOCABULARY).to_vec(), seed: rng }
    }

    /// How often word number `index` comes in a text of about `units` words: as `1 / (index + 1)²`, and the first ones
    /// always at different numbers.
    fn times(index: usize, units: usize) -> usize {
        let total: f64 = (1..=VOCABULARY).map(|rank| (rank as f64).powf(-EXPONENT)).sum();
        let share = (index as f64 + 1.0).powf(-EXPONENT) / total;
        (share * units as f64).floor() as usize + (FREQUENT + 1).saturating_sub(index)
    }
}

impl Puzzle for Frequent {
    fn prompt(&mut self, units: usize) -> String {
        let mut list: Vec<&str> = Vec::new();
        for (index, word) in self.words.iter().enumerate() {
            list.extend(std::iter::repeat_n(word.as_str(), Self::times(index, units)));
        }
        list.shuffle(&mut self.seed.clone());
        format!(
            "Below is a coded text. Count how often each coded word comes; the dots mean nothing.\n{}\n\
             Question: Which {FREQUENT} coded words come most often in the text above?\n\
             Answer: The {FREQUENT} coded words that come most often are:",
            list.join(" ... ")
        )
    }

    fn answers(&self) -> Vec<String> {
        self.words[..FREQUENT].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn counted(prompt: &str, word: &str) -> usize {
        prompt.split_whitespace().filter(|found| *found == word).count()
    }

    #[test]
    fn common_words_come_ten_times_and_the_others_three() {
        let mut common = Common::new(ChaCha8Rng::seed_from_u64(2));
        let prompt = common.prompt(30);
        assert!(common.answers().iter().all(|word| counted(&prompt, word) == OFTEN), "{prompt}");
        assert!(common.words.list[COMMON..].iter().all(|word| counted(&prompt, word) == SELDOM));
        assert_eq!(common.words.list.len(), COMMON + 30);
    }

    #[test]
    fn frequent_words_come_more_often_than_any_other_at_every_length() {
        for units in [0, 5, 50, 500] {
            let mut frequent = Frequent::new(ChaCha8Rng::seed_from_u64(2));
            let prompt = frequent.prompt(units);
            let counts: Vec<usize> = frequent.words.iter().map(|word| counted(&prompt, word)).collect();
            assert!(counts.windows(2).take(FREQUENT).all(|pair| pair[0] > pair[1]), "{units}: {counts:?}");
            assert!(counts.windows(2).all(|pair| pair[0] >= pair[1]), "{units}: {counts:?}");
        }
    }
}
