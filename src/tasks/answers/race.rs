//! `race`: questions on a passage, from English exams (Lai et al., arXiv:1704.04683).

use super::choice::{self, ACCURACY, ACCURACY_PER_BYTE};
use super::records::{Record, json};
use super::{
    AnswerError, AnswerSpec, AnswerTask, Ask, Gold, Grade, Item, ItemPrompt, Items, Metric, Response, Takes,
    WhenLong,
};

/// JSON with `article`, `questions`, `options` and `answers`, an object a file or a line; or with `question` and
/// `answer`, one question a line.
///
/// The passage is the part of the prompt that its questions share; the choices are the options' texts.
#[derive(Clone, Copy, Debug)]
pub struct Race;

impl AnswerTask for Race {
    fn name(&self) -> &'static str {
        "race"
    }

    fn takes(&self) -> Takes {
        Takes { data: true, ..Takes::default() }
    }

    fn metrics(&self) -> &'static [Metric] {
        &[ACCURACY, ACCURACY_PER_BYTE]
    }

    fn items(&self, spec: &AnswerSpec, _: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError> {
        let mut items = Vec::new();
        for (number, record) in json(spec.data(self.name())?, None)?.iter().enumerate() {
            for (index, question) in questions(record)?.into_iter().enumerate() {
                items.push(question.item(format!("race-{number:04}-{index}")));
            }
            if items.len() >= spec.most_items() {
                break;
            }
        }
        items.truncate(spec.most_items());
        Ok(Items { items, examples_left_out: 0 })
    }

    fn grade(&self, item: &Item, response: &Response) -> Grade {
        choice::grade(item, response, true)
    }
}

struct Question {
    article: String,
    text: String,
    options: Vec<String>,
    right: usize,
}

fn questions(record: &Record) -> Result<Vec<Question>, AnswerError> {
    let article = record.text("article")?;
    if record.has("question") {
        record.expect(&["question", "options", "answer"])?;
        let options = record.texts("options")?;
        let right = record.letter("answer", options.len())?;
        record.filled("options", &options[right])?;
        return Ok(vec![Question { article, text: record.text("question")?, options, right }]);
    }
    record.expect(&["questions", "options", "answers"])?;
    let (texts, answers) = (record.texts("questions")?, record.texts("answers")?);
    let options = record.get("options").and_then(serde_json::Value::as_array);
    let options = options.filter(|options| options.len() == texts.len() && answers.len() == texts.len());
    let Some(options) = options else {
        return Err(record.error("`questions`, `options` and `answers` are not equally many".into()));
    };
    let question = |((text, options), answer): ((String, &serde_json::Value), String)| {
        let of_option = |option: &serde_json::Value| option.as_str().map(str::to_owned);
        let options: Option<Vec<String>> =
            options.as_array().and_then(|options| options.iter().map(of_option).collect());
        let options = options.ok_or_else(|| record.error("`options` is not lists of texts".into()))?;
        let right = record.letter_of(&answer, "answers", options.len())?;
        record.filled("options", &options[right])?;
        Ok(Question { article: article.clone(), text, options, right })
    };
    texts.into_iter().zip(options).zip(answers).map(question).collect()
}

impl Question {
    fn item(self, id: String) -> Item {
        Item {
            id,
            set: "race".into(),
            key: format!("{}\n{}", self.text, self.article),
            prompt: ItemPrompt::Text {
                prefix: format!("Article: {}\n\n", self.article.trim()),
                rest: format!("Question: {}\nAnswer:", self.text.trim()),
            },
            ask: Ask::Choose {
                continuations: self.options.iter().map(|option| format!(" {}", option.trim())).collect(),
            },
            gold: Gold::Choice(self.right),
            when_long: WhenLong::Skip,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::items;
    use super::super::records::tests::file;
    use super::*;

    fn found(text: &str) -> Result<Vec<Item>, AnswerError> {
        let file = file(text);
        let spec = AnswerSpec { data: Some(file.path().into()), ..AnswerSpec::named("race") };
        items(&spec, &str::len).map(|found| found.items)
    }

    #[test]
    fn a_passage_gives_an_item_for_each_question() {
        let items = found(
            "{\"article\": \"A cat sat.\", \"questions\": [\"Who sat?\", \"What did it do?\"],
              \"options\": [[\"A dog\", \"A cat\"], [\"Sit\", \"Run\"]], \"answers\": [\"B\", \"A\"]}",
        );
        let items = items.expect("items");
        assert_eq!(items.len(), 2);
        assert_eq!(items[0].gold, Gold::Choice(1));
        assert_eq!(items[1].ask, Ask::Choose { continuations: vec![" Sit".into(), " Run".into()] });
        let rest = "Question: What did it do?\nAnswer:".to_owned();
        assert_eq!(items[1].prompt, ItemPrompt::Text { prefix: "Article: A cat sat.\n\n".into(), rest });
    }

    #[test]
    fn a_question_a_line_is_read_too() {
        let line =
            "{\"article\": \"a\", \"question\": \"q\", \"options\": [\"x\", \"y\"], \"answer\": \"B\"}\n";
        assert_eq!(found(&line.repeat(2)).expect("items").len(), 2);
    }

    #[test]
    fn lists_that_do_not_match_are_named() {
        let error =
            found("{\"article\": \"a\", \"questions\": [\"q\"], \"options\": [[\"x\"]], \"answers\": []}");
        let error = error.expect_err("no answer").to_string();
        assert!(
            error.contains("line 1: `questions`, `options` and `answers` are not equally many"),
            "{error}"
        );
    }
}
