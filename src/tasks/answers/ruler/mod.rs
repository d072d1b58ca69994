//! `ruler-*`: long texts with something to be found, followed or counted, generated from a seed at any length, after
//! RULER (Hsieh et al., arXiv:2404.06654); all text is **ours**.

mod counts;
mod needles;
mod tracking;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::metric::recall;
use super::{
    AnswerError, AnswerSpec, AnswerTask, Ask, Gold, Grade, Item, ItemPrompt, Items, Metric, Response, Takes,
    WhenLong,
};
use crate::tasks::grow::smallest_reaching;

pub use counts::{CommonWords, FrequentWords};
pub use needles::Niah;
pub use tracking::VariableTracking;

const TAKES: Takes = Takes { data: false, shots: false, template: false, writes: true };

/// A text that grows unit by unit around what is asked.
trait Puzzle {
    /// The prompt with `units` units of filler.
    fn prompt(&mut self, units: usize) -> String;

    /// All strings that a right answer contains.
    fn answers(&self) -> Vec<String>;
}

/// What the tasks of this family differ in.
struct Family<'a> {
    task: &'a dyn AnswerTask,
    /// Tells the random numbers of one seed apart.
    stream: u64,
    new_tokens: usize,
    make: &'a dyn Fn(ChaCha8Rng) -> Box<dyn Puzzle>,
}

impl Family<'_> {
    /// The items of a spec: each as long as its prompt and answer together may be, and not a unit longer.
    fn items(&self, spec: &AnswerSpec, count_tokens: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError> {
        let items = (0..spec.generated_items()).map(|index| self.item(index, spec, count_tokens));
        Ok(Items { items: items.collect::<Result<_, _>>()?, examples_left_out: 0 })
    }

    fn item(
        &self,
        index: usize,
        spec: &AnswerSpec,
        count_tokens: &dyn Fn(&str) -> usize,
    ) -> Result<Item, AnswerError> {
        let mut rng = ChaCha8Rng::seed_from_u64(spec.seed);
        rng.set_stream(self.stream << 48 | index as u64);
        let mut puzzle = (self.make)(rng);
        let new_tokens = spec.max_new_tokens.unwrap_or(self.new_tokens);
        let (length, task) = (spec.generated_length(), self.task.name());
        let room = length.saturating_sub(new_tokens);
        let shortest = count_tokens(&puzzle.prompt(0));
        if shortest > room {
            return Err(AnswerError::Length { task, length, shortest, answer: new_tokens });
        }
        // No unit is without a token, so that so many are too many.
        let most = room + 1;
        let beyond = smallest_reaching(room + 1, 0..=most, |units| count_tokens(&puzzle.prompt(units)));
        let units = beyond.map_or(most, |beyond| beyond.saturating_sub(1));
        let rest = puzzle.prompt(units);
        Ok(Item {
            id: format!("{task}-{index:04}"),
            set: task.to_owned(),
            key: rest.clone(),
            prompt: ItemPrompt::Text { prefix: String::new(), rest },
            ask: Ask::Write { stop: Vec::new(), max_new_tokens: new_tokens },
            gold: Gold::Texts(puzzle.answers()),
            when_long: WhenLong::Skip,
        })
    }
}

/// The share of what was asked for that the answer contains.
const RECALL: Metric = Metric::graded("recall");
/// The same, where one thing is asked for.
const FOUND: Metric = Metric::binary("found");

fn grade(item: &Item, response: &Response) -> Grade {
    let (Gold::Texts(expected), Response::Text(text)) = (&item.gold, response) else {
        return Grade { extracted: None, scores: vec![0.0] };
    };
    let named: Vec<&str> = expected.iter().filter(|gold| text.contains(*gold)).map(String::as_str).collect();
    let extracted = Some(named.join(", ")).filter(|named| !named.is_empty());
    Grade { extracted, scores: vec![recall(text, expected)] }
}

/// Sentences with others put between them, `at` such shares of the way; equal places keep their order.
fn with_inserted(sentences: &[String], inserted: &[(f64, String)]) -> String {
    let place = |share: f64| (share * sentences.len() as f64).round() as usize;
    let mut text = Vec::new();
    for index in 0..=sentences.len() {
        text.extend(inserted.iter().filter(|(share, _)| place(*share) == index).map(|(_, own)| own.as_str()));
        text.extend(sentences.get(index).map(String::as_str));
    }
    text.join(" ")
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "marks are shares of small counts")]
mod tests {
    use super::super::{ANSWER_TASKS, items};
    use super::*;

    fn count_words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn all() -> impl Iterator<Item = &'static dyn AnswerTask> {
        ANSWER_TASKS.into_iter().filter(|task| task.name().starts_with("ruler-"))
    }

    #[test]
    fn prompts_fill_the_length_and_no_more() {
        for task in all() {
            for length in [400, 1500] {
                let spec =
                    AnswerSpec { length: Some(length), items: Some(3), ..AnswerSpec::named(task.name()) };
                for item in items(&spec, &count_words).expect("items").items {
                    let (ItemPrompt::Text { rest, .. }, Ask::Write { max_new_tokens, .. }) =
                        (&item.prompt, &item.ask)
                    else {
                        panic!("a text to write on")
                    };
                    let total = count_words(rest) + max_new_tokens;
                    assert!(total <= length && total + 60 > length, "{}: {total} of {length}", item.id);
                }
            }
        }
    }

    #[test]
    fn the_seed_decides_everything_and_more_items_leave_the_first_as_they_were() {
        for task in all() {
            let spec = AnswerSpec { items: Some(2), ..AnswerSpec::named(task.name()) };
            let once = items(&spec, &count_words).expect("items");
            assert_eq!(once, items(&spec, &count_words).expect("items"));
            let more = items(&AnswerSpec { items: Some(4), ..spec.clone() }, &count_words).expect("items");
            assert_eq!(once.items, more.items[..2]);
            assert_ne!(once, items(&AnswerSpec { seed: 1, ..spec }, &count_words).expect("items"));
        }
    }

    #[test]
    fn naming_all_is_1_and_naming_none_is_0() {
        for task in all() {
            let spec = AnswerSpec { items: Some(1), ..AnswerSpec::named(task.name()) };
            let item = items(&spec, &count_words).expect("an item").items.remove(0);
            let Gold::Texts(gold) = &item.gold else { panic!("texts") };
            let mark = |text: &str| task.grade(&item, &Response::Text(text.into())).scores;
            assert_eq!(mark(&gold.join(" and ")), [1.0]);
            assert_eq!(mark("nothing"), [0.0]);
            assert_eq!(mark(&gold[0]), [1.0 / gold.len() as f64]);
        }
    }

    #[test]
    fn a_length_that_holds_nothing_is_refused_with_the_numbers() {
        let spec = AnswerSpec { length: Some(40), ..AnswerSpec::named("ruler-niah-single") };
        let error = items(&spec, &count_words).expect_err("too short").to_string();
        assert!(
            error.starts_with("task `ruler-niah-single` cannot fill 40 tokens: its shortest prompt has "),
            "{error}"
        );
    }

    #[test]
    fn sentences_are_put_where_their_share_says() {
        let sentences = ["a", "b"].map(str::to_owned);
        let inserted = [(1.0, "Z".to_owned()), (0.0, "X".to_owned()), (0.5, "Y".to_owned())];
        assert_eq!(with_inserted(&sentences, &inserted), "X a Y b Z");
    }
}
