//! `gpqa`: questions of graduate science (Rein et al., arXiv:2311.12022).

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::choice::{self, ACCURACY};
use super::records::{Record, csv};
use super::{
    AnswerError, AnswerSpec, AnswerTask, Ask, Gold, Grade, Item, ItemPrompt, Items, Metric, Response, Takes,
    WhenLong,
};

const COLUMNS: [&str; 5] =
    ["Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"];
const LETTERS: [&str; 4] = ["(A)", "(B)", "(C)", "(D)"];

/// CSV with the columns `Question`, `Correct Answer` and `Incorrect Answer 1` to `3`; the seed shuffles the choices.
#[derive(Clone, Copy, Debug)]
pub struct Gpqa;

impl AnswerTask for Gpqa {
    fn name(&self) -> &'static str {
        "gpqa"
    }

    fn takes(&self) -> Takes {
        Takes { data: true, ..Takes::default() }
    }

    fn metrics(&self) -> &'static [Metric] {
        &[ACCURACY]
    }

    fn items(&self, spec: &AnswerSpec, _: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError> {
        let records = csv(spec.data(self.name())?)?;
        let numbered = records.iter().enumerate().take(spec.most_items());
        let items = numbered.map(|(index, record)| item(index, record, spec.seed));
        Ok(Items { items: items.collect::<Result<_, _>>()?, examples_left_out: 0 })
    }

    fn grade(&self, item: &Item, response: &Response) -> Grade {
        choice::grade(item, response, false)
    }
}

fn item(index: usize, record: &Record, seed: u64) -> Result<Item, AnswerError> {
    record.expect(&COLUMNS)?;
    record.gold(COLUMNS[1])?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(index as u64);
    let mut order = [0, 1, 2, 3];
    order.shuffle(&mut rng);
    let mut rest = format!("Question: {}\nChoices:\n", record.text("Question")?.trim());
    for (letter, answer) in LETTERS.iter().zip(order) {
        rest += &format!("{letter} {}\n", record.text(COLUMNS[1 + answer])?.trim());
    }
    rest += "Answer:";
    Ok(Item {
        id: format!("gpqa-{index:04}"),
        set: "gpqa".into(),
        key: record.text("Question")?,
        prompt: ItemPrompt::Text { prefix: String::new(), rest },
        ask: Ask::Choose { continuations: LETTERS.map(|letter| format!(" {letter}")).to_vec() },
        gold: Gold::Choice(order.iter().position(|&answer| answer == 0).unwrap_or_default()),
        when_long: WhenLong::Skip,
    })
}

#[cfg(test)]
mod tests {
    use super::super::items;
    use super::super::records::tests::file;
    use super::*;

    #[test]
    fn the_right_answer_stands_behind_its_letter_wherever_it_was_shuffled_to() {
        let row = "q,right,wrong1,wrong2,wrong3,x\n".repeat(40);
        let file = file(&format!("{},Record ID\n{row}", COLUMNS.join(",")));
        let spec = AnswerSpec { data: Some(file.path().into()), ..AnswerSpec::named("gpqa") };
        let mut places = [0; 4];
        for item in items(&spec, &str::len).expect("items").items {
            let (ItemPrompt::Text { rest, .. }, Gold::Choice(right)) = (&item.prompt, &item.gold) else {
                panic!("a text with a choice")
            };
            assert!(rest.contains(&format!("{} right\n", LETTERS[*right])), "{rest}");
            places[*right] += 1;
        }
        assert!(places.iter().all(|&count| count > 0), "{places:?}");
    }
}
