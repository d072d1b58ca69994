//! `gsm8k`, `gsm8k-multiturn`: grade-school word problems (Cobbe et al., arXiv:2110.14168).

use std::collections::HashSet;
use std::path::Path;

use super::extract::{MARKER, last_number, marked_number, plain_number};
use super::item::mark;
use super::records::{Record, json};
use super::{
    AnswerError, AnswerSpec, AnswerTask, Ask, Gold, Grade, Item, ItemPrompt, Items, Metric, Response, Takes,
    WhenLong, shots,
};

/// Worked examples where `--train` is given and nobody says how many; lm-evaluation-harness's number.
const SHOTS: usize = 5;
/// Tokens of an answer; lm-evaluation-harness's number.
const NEW_TOKENS: usize = 256;
/// Where an answer ends: a model that goes on asks itself the next question.
const STOP: [&str; 3] = ["Question:", "</s>", "<|im_end|>"];

const METRICS: [Metric; 2] = [Metric::binary("flexible_match"), Metric::binary("strict_match")];
const TAKES: Takes = Takes { data: true, shots: true, template: false, writes: true };

/// Questions and worked examples as one text.
///
/// The examples are drawn once by the seed and stand before every item (lm-evaluation-harness draws them anew for
/// each). An item that is among them is left out.
#[derive(Clone, Copy, Debug)]
pub struct Gsm8k;

/// The same as a conversation: each example is a question of the user and an answer of the model.
#[derive(Clone, Copy, Debug)]
pub struct Gsm8kMultiturn;

impl AnswerTask for Gsm8k {
    fn name(&self) -> &'static str {
        "gsm8k"
    }

    fn takes(&self) -> Takes {
        TAKES
    }

    fn metrics(&self) -> &'static [Metric] {
        &METRICS
    }

    fn items(&self, spec: &AnswerSpec, _: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError> {
        read(self.name(), spec, |examples, problem| {
            let example = |problem: &Problem| format!("{} {}\n\n", problem.asked(), problem.answer);
            let prefix = examples.iter().map(example).collect();
            ItemPrompt::Text { prefix, rest: problem.asked() }
        })
    }

    fn grade(&self, item: &Item, response: &Response) -> Grade {
        grade(item, response)
    }
}

impl AnswerTask for Gsm8kMultiturn {
    fn name(&self) -> &'static str {
        "gsm8k-multiturn"
    }

    fn takes(&self) -> Takes {
        TAKES
    }

    fn metrics(&self) -> &'static [Metric] {
        &METRICS
    }

    fn items(&self, spec: &AnswerSpec, _: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError> {
        read(self.name(), spec, |examples, problem| ItemPrompt::Chat {
            examples: examples.iter().map(|problem| (problem.asked(), problem.answer.clone())).collect(),
            question: problem.asked(),
        })
    }

    fn grade(&self, item: &Item, response: &Response) -> Grade {
        grade(item, response)
    }
}

struct Problem {
    question: String,
    /// The solution, its result behind [`MARKER`].
    answer: String,
}

impl Problem {
    fn of(record: &Record) -> Result<Self, AnswerError> {
        record.expect(&["question", "answer"])?;
        let problem = Self { question: record.text("question")?, answer: record.text("answer")? };
        match problem.answer.contains(MARKER) && !problem.result().is_empty() {
            true => Ok(problem),
            false => Err(record.error(format!("`answer` has no result behind `{MARKER}`"))),
        }
    }

    fn asked(&self) -> String {
        format!("Question: {}\nAnswer:", self.question)
    }

    fn result(&self) -> &str {
        self.answer.rsplit(MARKER).next().unwrap_or_default().trim()
    }
}

fn problems(path: &Path) -> Result<Vec<Problem>, AnswerError> {
    json(path, None)?.iter().map(Problem::of).collect()
}

fn read(
    task: &'static str,
    spec: &AnswerSpec,
    prompt: impl Fn(&[Problem], &Problem) -> ItemPrompt,
) -> Result<Items, AnswerError> {
    let examples = match spec.examples(SHOTS) {
        Some((path, shots)) => shots::drawn(problems(path)?, (path, shots), spec.seed)?,
        None => Vec::new(),
    };
    let shown: HashSet<&str> = examples.iter().map(|problem| problem.question.as_str()).collect();
    let (mut items, mut examples_left_out) = (Vec::new(), 0);
    for (index, problem) in problems(spec.data(task)?)?.iter().enumerate() {
        if items.len() == spec.most_items() {
            break;
        }
        if shown.contains(problem.question.as_str()) {
            examples_left_out += 1;
            continue;
        }
        items.push(Item {
            id: format!("{task}-{index:04}"),
            set: task.to_owned(),
            key: problem.question.clone(),
            prompt: prompt(&examples, problem),
            ask: Ask::Write {
                stop: STOP.map(str::to_owned).to_vec(),
                max_new_tokens: spec.max_new_tokens.unwrap_or(NEW_TOKENS),
            },
            gold: Gold::Texts(vec![problem.result().to_owned()]),
            when_long: WhenLong::Skip,
        });
    }
    Ok(Items { items, examples_left_out })
}

fn grade(item: &Item, response: &Response) -> Grade {
    let (Gold::Texts(gold), Response::Text(text)) = (&item.gold, response) else {
        return Grade { extracted: None, scores: vec![0.0; METRICS.len()] };
    };
    let is_right = |found: Option<&str>| {
        let found = found.map(plain_number);
        mark(found.is_some_and(|found| gold.iter().any(|gold| plain_number(gold) == found)))
    };
    let (flexible, strict) = (last_number(text), marked_number(text));
    Grade { extracted: flexible.map(str::to_owned), scores: vec![is_right(flexible), is_right(strict)] }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "marks are 0 or 1")]
mod tests {
    use super::super::items;
    use super::super::records::tests::file;
    use super::*;

    const PROBLEMS: &str = "{\"question\": \"2+2?\", \"answer\": \"2+2=<<2+2=4>>4\\n#### 4\"}
{\"question\": \"How much?\", \"answer\": \"It is $1,200.\\n#### 1,200\"}
{\"question\": \"3+3?\", \"answer\": \"#### 6\"}
";

    fn spec(task: &str, file: &tempfile::NamedTempFile) -> AnswerSpec {
        AnswerSpec { data: Some(file.path().into()), ..AnswerSpec::named(task) }
    }

    #[test]
    fn a_prompt_is_the_examples_and_then_the_question() {
        let (data, train) =
            (file(&PROBLEMS[PROBLEMS.find("{\"question\": \"3").expect("there")..]), file(PROBLEMS));
        let spec = AnswerSpec { train: Some(train.path().into()), shots: Some(1), ..spec("gsm8k", &data) };
        // The seed that draws the first example.
        let drawn = (0..50).find_map(|seed| {
            let found = items(&AnswerSpec { seed, ..spec.clone() }, &str::len).ok()?.items.remove(0);
            matches!(&found.prompt, ItemPrompt::Text { prefix, .. } if prefix.contains("2+2?"))
                .then_some(found)
        });
        let ItemPrompt::Text { prefix, rest } = drawn.expect("one of fifty draws it").prompt else {
            panic!("a text")
        };
        assert_eq!(prefix, "Question: 2+2?\nAnswer: 2+2=<<2+2=4>>4\n#### 4\n\n");
        assert_eq!(rest, "Question: 3+3?\nAnswer:");
    }

    #[test]
    fn a_conversation_has_a_pair_of_turns_for_each_example() {
        let (data, train) = (file("{\"question\": \"5+5?\", \"answer\": \"#### 10\"}"), file(PROBLEMS));
        let spec =
            AnswerSpec { train: Some(train.path().into()), shots: Some(3), ..spec("gsm8k-multiturn", &data) };
        let found = items(&spec, &str::len).expect("an item").items.remove(0);
        let ItemPrompt::Chat { examples, question } = found.prompt else { panic!("a conversation") };
        assert_eq!(question, "Question: 5+5?\nAnswer:");
        assert!(examples.contains(&("Question: 3+3?\nAnswer:".into(), "#### 6".into())));
        assert_eq!(examples.len(), 3);
    }

    #[test]
    fn items_that_are_worked_examples_are_left_out_and_counted() {
        let data = file(PROBLEMS);
        let spec = AnswerSpec { train: Some(data.path().into()), shots: Some(2), ..spec("gsm8k", &data) };
        let found = items(&spec, &str::len).expect("an item");
        assert_eq!((found.items.len(), found.examples_left_out), (1, 2));
        let error = items(&AnswerSpec { shots: Some(3), ..spec }, &str::len).expect_err("none is left");
        assert_eq!(error.to_string(), "task `gsm8k` has no item left beside its worked examples");
    }

    #[test]
    fn answers_are_marked_strictly_and_flexibly() {
        let item = items(&spec("gsm8k", &file(PROBLEMS)), &str::len).expect("items").items.remove(1);
        let scores = |text: &str| Gsm8k.grade(&item, &Response::Text(text.into())).scores;
        assert_eq!(scores(" so\n#### 1200"), [1.0, 1.0]);
        assert_eq!(scores(" the answer is $1,200."), [1.0, 0.0]);
        assert_eq!(scores("#### 1200 apples, and 5 more"), [0.0, 1.0]);
        assert_eq!(scores("no idea"), [0.0, 0.0]);
        assert_eq!(Gsm8k.grade(&item, &Response::LogLikelihoods(vec![])).scores, [0.0, 0.0]);
    }

    #[test]
    fn an_answer_without_marker_is_named_with_its_line() {
        let data =
            file("{\"question\": \"a\", \"answer\": \"#### 1\"}\n{\"question\": \"b\", \"answer\": \"2\"}\n");
        let error = items(&spec("gsm8k", &data), &str::len).expect_err("no marker").to_string();
        assert!(error.ends_with(", line 2: `answer` has no result behind `#### `"), "{error}");
    }
}
