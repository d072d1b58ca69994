//! `triviaqa`: questions of a quiz, without their documents (Joshi et al., arXiv:1705.03551).

use std::collections::HashSet;
use std::path::Path;

use super::metric::{best, exact, f1, words};
use super::records::{Record, json};
use super::{
    AnswerError, AnswerSpec, AnswerTask, Ask, Gold, Grade, Item, ItemPrompt, Items, Metric, Response, Takes,
    WhenLong, shots,
};

/// Worked examples where `--train` is given and nobody says how many.
const SHOTS: usize = 5;
/// Tokens of an answer: names are short.
const NEW_TOKENS: usize = 32;
/// Where an answer ends, as lm-evaluation-harness has it.
const STOP: [&str; 3] = ["\n", ".", ","];

/// JSON with `Question` and `Answer` (`Value`, `Aliases`) below `Data`, as published; or JSON lines with `question` and
/// `answer` (`value`, `aliases`).
///
/// An answer is held against every alias, and the best counts.
#[derive(Clone, Copy, Debug)]
pub struct TriviaQa;

impl AnswerTask for TriviaQa {
    fn name(&self) -> &'static str {
        "triviaqa"
    }

    fn takes(&self) -> Takes {
        Takes { data: true, shots: true, template: false, writes: true }
    }

    fn metrics(&self) -> &'static [Metric] {
        const { &[Metric::binary("exact_match"), Metric::graded("f1")] }
    }

    fn items(&self, spec: &AnswerSpec, _: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError> {
        let examples = match spec.examples(SHOTS) {
            Some((path, shots)) => shots::drawn(questions(path)?, (path, shots), spec.seed)?,
            None => Vec::new(),
        };
        let shown: HashSet<&str> = examples.iter().map(|question| question.text.as_str()).collect();
        let prefix: String = examples.iter().map(Question::worked).collect();
        let (mut items, mut examples_left_out) = (Vec::new(), 0);
        for (index, question) in questions(spec.data(self.name())?)?.into_iter().enumerate() {
            if items.len() == spec.most_items() {
                break;
            }
            if shown.contains(question.text.as_str()) {
                examples_left_out += 1;
                continue;
            }
            items.push(Item {
                id: format!("triviaqa-{index:05}"),
                set: self.name().to_owned(),
                key: question.text.clone(),
                prompt: ItemPrompt::Text { prefix: prefix.clone(), rest: question.asked() },
                ask: Ask::Write {
                    stop: STOP.map(str::to_owned).to_vec(),
                    max_new_tokens: spec.max_new_tokens.unwrap_or(NEW_TOKENS),
                },
                gold: Gold::Texts(question.aliases),
                when_long: WhenLong::Skip,
            });
        }
        Ok(Items { items, examples_left_out })
    }

    fn grade(&self, item: &Item, response: &Response) -> Grade {
        let (Gold::Texts(aliases), Response::Text(text)) = (&item.gold, response) else {
            return Grade { extracted: None, scores: vec![0.0; 2] };
        };
        let found = text.trim();
        let overlap = |alias: &str| f1(&words(found), &words(alias));
        let scores = vec![best(aliases, |alias| exact(found, alias)), best(aliases, overlap)];
        Grade { extracted: Some(found.to_owned()).filter(|found| !found.is_empty()), scores }
    }
}

struct Question {
    text: String,
    /// The usual name first.
    aliases: Vec<String>,
}

impl Question {
    fn of(record: &Record) -> Result<Self, AnswerError> {
        let names = match record.has("Question") {
            true => ["Question", "Answer", "Value", "Aliases"],
            false => ["question", "answer", "value", "aliases"],
        };
        record.expect(&names[..2])?;
        let answer = record.inner(names[1])?;
        let mut aliases = vec![answer.gold(names[2])?];
        if answer.has(names[3]) {
            let others = answer.texts(names[3])?;
            others.iter().try_for_each(|alias| answer.filled(names[3], alias))?;
            aliases.extend(others);
        }
        Ok(Self { text: record.text(names[0])?, aliases })
    }

    fn asked(&self) -> String {
        format!("Question: {}\nAnswer:", self.text.trim())
    }

    fn worked(&self) -> String {
        format!("{} {}\n\n", self.asked(), self.aliases[0])
    }
}

fn questions(path: &Path) -> Result<Vec<Question>, AnswerError> {
    json(path, Some("Data"))?.iter().map(Question::of).collect()
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "marks are shares of small counts")]
mod tests {
    use super::super::items;
    use super::super::records::tests::file;
    use super::*;

    fn found(text: &str) -> Vec<Item> {
        let file = file(text);
        let spec = AnswerSpec { data: Some(file.path().into()), ..AnswerSpec::named("triviaqa") };
        items(&spec, &str::len).expect("items").items
    }

    const LINE: &str = r#"{"question": "Which city?", "answer": {"value": "New York City", "aliases": ["NYC", "The Big Apple"]}}"#;

    #[test]
    fn both_published_layouts_are_read() {
        let published = r#"{"Data": [{"Question": "Which city?", "Answer": {"Value": "New York City",
            "Aliases": ["NYC", "The Big Apple"], "NormalizedAliases": ["nyc"]}}], "Version": 1.0}"#;
        assert_eq!(found(published), found(LINE));
    }

    #[test]
    fn the_best_alias_counts() {
        let item = &found(LINE)[0];
        let scores = |text: &str| TriviaQa.grade(item, &Response::Text(text.into())).scores;
        assert_eq!(scores(" the big apple"), [1.0, 1.0]);
        // Two of two words found, of three expected: 2·2/(2+3).
        assert_eq!(scores(" New York"), [0.0, 0.8]);
        assert_eq!(scores(" Boston"), [0.0, 0.0]);
    }
}
