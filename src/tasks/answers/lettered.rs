//! `mmlu` (Hendrycks et al., arXiv:2009.03300), `ceval` (Huang et al., arXiv:2305.08322): four choices, one letter.

use std::path::Path;

use super::choice::{self, ACCURACY, lettered, letters};
use super::records::{Record, csv, csv_of};
use super::{
    AnswerError, AnswerSpec, AnswerTask, Gold, Grade, Item, ItemPrompt, Items, Metric, Response, Takes,
    WhenLong, shots,
};

/// Worked examples where `--train` is given and nobody says how many; each subject publishes five.
const SHOTS: usize = 5;
const TAKES: Takes = Takes { data: true, shots: true, template: false, writes: false };
const COLUMNS: [&str; 6] = ["question", "A", "B", "C", "D", "answer"];

/// CSV without header: question, four choices, letter; one file a subject, `anatomy_test.csv`.
#[derive(Clone, Copy, Debug)]
pub struct Mmlu;

/// CSV with the columns `question`, `A` to `D` and `answer`; one file a subject, `law_val.csv`.
#[derive(Clone, Copy, Debug)]
pub struct Ceval;

impl AnswerTask for Mmlu {
    fn name(&self) -> &'static str {
        "mmlu"
    }

    fn takes(&self) -> Takes {
        TAKES
    }

    fn metrics(&self) -> &'static [Metric] {
        &[ACCURACY]
    }

    fn items(&self, spec: &AnswerSpec, _: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError> {
        let form = Form {
            task: self.name(),
            introduction: |subject| {
                format!("The following are multiple choice questions (with answers) about {subject}.\n\n")
            },
            answer: "Answer:",
        };
        form.items(spec, |path| csv_of(path, &COLUMNS))
    }

    fn grade(&self, item: &Item, response: &Response) -> Grade {
        choice::grade(item, response, false)
    }
}

impl AnswerTask for Ceval {
    fn name(&self) -> &'static str {
        "ceval"
    }

    fn takes(&self) -> Takes {
        TAKES
    }

    fn metrics(&self) -> &'static [Metric] {
        &[ACCURACY]
    }

    fn items(&self, spec: &AnswerSpec, _: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError> {
        let form = Form {
            task: self.name(),
            introduction: |subject| format!("以下是关于{subject}的单项选择题，请选出正确答案。\n\n"),
            answer: "答案：",
        };
        form.items(spec, csv)
    }

    fn grade(&self, item: &Item, response: &Response) -> Grade {
        choice::grade(item, response, false)
    }
}

/// What the two sets differ in.
struct Form {
    task: &'static str,
    introduction: fn(&str) -> String,
    answer: &'static str,
}

struct Question {
    subject: String,
    text: String,
    right: usize,
}

impl Form {
    fn items(
        &self,
        spec: &AnswerSpec,
        read: impl Fn(&Path) -> Result<Vec<Record>, AnswerError>,
    ) -> Result<Items, AnswerError> {
        let questions = |path: &Path| -> Result<Vec<Question>, AnswerError> {
            read(path)?.iter().map(|record| self.question(record)).collect()
        };
        let examples = match spec.examples(SHOTS) {
            Some((path, shots)) => Some((questions(path)?, (path, shots))),
            None => None,
        };
        let found = questions(spec.data(self.task)?)?.into_iter().take(spec.most_items());
        let is_example = |question: &Question| match &examples {
            Some((examples, (_, shots))) => {
                let own = examples.iter().filter(|example| example.subject == question.subject);
                own.take(*shots).any(|example| example.text == question.text)
            }
            None => false,
        };
        let (found, left_out): (Vec<_>, Vec<_>) =
            found.enumerate().partition(|(_, question)| !is_example(question));
        let item = |(index, question): (usize, Question)| {
            let prefix = match &examples {
                Some((examples, wanted)) => self.prefix(&question.subject, examples, *wanted)?,
                None => (self.introduction)(&question.subject),
            };
            Ok(Item {
                id: format!("{}-{index:05}", self.task),
                set: question.subject,
                key: question.text.clone(),
                prompt: ItemPrompt::Text { prefix, rest: question.text },
                ask: letters(4),
                gold: Gold::Choice(question.right),
                when_long: WhenLong::Skip,
            })
        };
        let items = found.into_iter().map(item).collect::<Result<_, AnswerError>>()?;
        Ok(Items { items, examples_left_out: left_out.len() })
    }

    fn question(&self, record: &Record) -> Result<Question, AnswerError> {
        record.expect(&COLUMNS)?;
        let choices: Vec<String> =
            COLUMNS[1..5].iter().map(|name| record.text(name)).collect::<Result<_, _>>()?;
        let text = format!("{}\n{}{}", record.text("question")?.trim(), lettered(&choices), self.answer);
        Ok(Question { subject: subject(&record.stem()), text, right: record.letter("answer", 4)? })
    }

    /// The introduction and the first examples of the same subject.
    fn prefix(
        &self,
        subject: &str,
        examples: &[Question],
        wanted: (&Path, usize),
    ) -> Result<String, AnswerError> {
        let own: Vec<&Question> = examples.iter().filter(|example| example.subject == subject).collect();
        let example = |question: &&Question| {
            format!("{} {}\n\n", question.text, char::from(b'A' + (question.right % 26) as u8))
        };
        let shown: String = shots::first(own, wanted)?.iter().map(example).collect();
        Ok((self.introduction)(subject) + &shown)
    }
}

/// `high_school_physics_test` → `high school physics`.
fn subject(stem: &str) -> String {
    let ends = ["_test", "_val", "_dev", "_train"];
    let name = ends.iter().find_map(|end| stem.strip_suffix(end)).unwrap_or(stem);
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::super::items;
    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        write("world_history_test.csv", "Who?,Ann,Bob,Cem,Dan,C\n\"When, then?\",1,2,3,4,A\n");
        std::fs::create_dir(folder.path().join("dev")).expect("a folder");
        write("dev/world_history_dev.csv", "Where?,here,there,up,down,B\n");
        write("law_val.csv", "id,question,A,B,C,D,answer\n0,何时？,一,二,三,四,D\n");
        folder
    }

    fn spec(task: &str, folder: &tempfile::TempDir, file: &str) -> AnswerSpec {
        AnswerSpec { data: Some(folder.path().join(file)), ..AnswerSpec::named(task) }
    }

    #[test]
    fn the_subject_and_its_examples_stand_before_the_question() {
        let folder = folder();
        let spec = AnswerSpec {
            train: Some(folder.path().join("dev")),
            shots: Some(1),
            ..spec("mmlu", &folder, "world_history_test.csv")
        };
        let found = items(&spec, &str::len).expect("items").items;
        let prefix = "The following are multiple choice questions (with answers) about world history.\n\n\
                      Where?\nA. here\nB. there\nC. up\nD. down\nAnswer: B\n\n";
        let rest = "Who?\nA. Ann\nB. Bob\nC. Cem\nD. Dan\nAnswer:";
        assert_eq!(found[0].prompt, ItemPrompt::Text { prefix: prefix.into(), rest: rest.into() });
        assert_eq!((&found[0].gold, &found[1].gold), (&Gold::Choice(2), &Gold::Choice(0)));
        assert_eq!(found[0].set, "world history");
    }

    #[test]
    fn questions_that_are_worked_examples_are_left_out_and_counted() {
        let folder = folder();
        let file = Some(folder.path().join("world_history_test.csv"));
        let spec =
            AnswerSpec { data: file.clone(), train: file, shots: Some(1), ..AnswerSpec::named("mmlu") };
        let found = items(&spec, &str::len).expect("items");
        assert_eq!((found.items.len(), found.examples_left_out), (1, 1));
        assert!(found.items[0].key.starts_with("When, then?"));
    }

    #[test]
    fn chinese_sets_have_their_own_words() {
        let folder = folder();
        let found = items(&spec("ceval", &folder, "law_val.csv"), &str::len).expect("items").items;
        let rest = "何时？\nA. 一\nB. 二\nC. 三\nD. 四\n答案：";
        assert!(matches!(&found[0].prompt, ItemPrompt::Text { rest: found, .. } if found == rest));
        assert_eq!(found[0].gold, Gold::Choice(3));
    }

    #[test]
    fn a_subject_without_enough_examples_is_an_error() {
        let folder = folder();
        let spec = AnswerSpec {
            train: Some(folder.path().join("dev")),
            ..spec("mmlu", &folder, "world_history_test.csv")
        };
        let error = items(&spec, &str::len).expect_err("one is not five").to_string();
        assert!(error.ends_with("has 1 worked examples, but `--shots` asks for 5"), "{error}");
    }

    #[test]
    fn a_missing_column_is_named() {
        let folder = folder();
        let path = folder.path().join("bad.csv");
        std::fs::write(&path, "question,A,B,C,D\nq,1,2,3,4\n").expect("written");
        let error = items(&spec("ceval", &folder, "bad.csv"), &str::len).expect_err("no answers").to_string();
        assert!(error.ends_with("but `answer` is missing"), "{error}");
    }
}
