//! Tasks with answers: questions whose right answer is known, asked of a model and marked.
//!
//! One small file per task, all on the trait [`AnswerTask`]; [`items`] gives what a spec asks for. An [`Item`] is a
//! prompt, what is asked (free text, or a choice among continuations) and the right answer; whoever runs a model
//! hands the [`Response`] back to [`AnswerTask::grade`]. To add a task, write its file and list it in
//! [`ANSWER_TASKS`].
//!
//! | tasks | read | marked by |
//! |---|---|---|
//! | `gsm8k`, `gsm8k-multiturn` | jsonl | the last number, or the one behind `####` |
//! | `mmlu`, `ceval`, `gpqa` | csv | the likeliest letter |
//! | `race`, `truthfulqa-mc1`, `truthfulqa-mc2` | json, jsonl | the likeliest answer |
//! | `triviaqa` | json, jsonl | exact match and F1 over aliases |
//! | `longbench` | jsonl | each of its sets by its own metric |
//! | `ruler-*` | nothing, generated | share of the expected strings that were written |
//!
//! Prompt forms and extraction are those of lm-evaluation-harness and of LongBench's published code; texts are our own
//! words where those are longer than a label. Knows no model: the caller counts the tokens.

mod choice;
mod error;
mod extract;
mod gpqa;
mod gsm8k;
mod item;
mod lettered;
mod longbench;
mod metric;
mod race;
mod records;
mod ruler;
mod shots;
mod spec;
mod split;
mod triviaqa;
mod truthfulqa;

pub use error::AnswerError;
pub use gpqa::Gpqa;
pub use gsm8k::{Gsm8k, Gsm8kMultiturn};
pub use item::{Ask, Gold, Grade, Item, ItemPrompt, Items, Metric, Response, Turn, WhenLong};
pub use lettered::{Ceval, Mmlu};
pub use longbench::LongBench;
pub use race::Race;
pub use ruler::{CommonWords, FrequentWords, Niah, VariableTracking};
pub use spec::{AnswerSpec, Takes};
pub use split::{Parts, Shares, split, split_of};
pub use triviaqa::TriviaQa;
pub use truthfulqa::TruthfulQa;

/// Every task with answers, in the order in which help lists them.
pub const ANSWER_TASKS: [&dyn AnswerTask; 17] = [
    &Gsm8k,
    &Gsm8kMultiturn,
    &Mmlu,
    &Ceval,
    &Race,
    &TruthfulQa::Mc1,
    &TruthfulQa::Mc2,
    &Gpqa,
    &TriviaQa,
    &LongBench,
    &Niah::Single,
    &Niah::MultiKey,
    &Niah::MultiValue,
    &Niah::MultiQuery,
    &VariableTracking,
    &CommonWords,
    &FrequentWords,
];

/// One kind of questions, and how answers to them are marked.
pub trait AnswerTask: Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// Which fields of a spec it has a use for.
    fn takes(&self) -> Takes;

    /// What [`Grade::scores`] lists, the main one first.
    fn metrics(&self) -> &'static [Metric];

    /// The items of `spec`, in the order of the file.
    ///
    /// Callers want [`items`], which checks the spec first.
    ///
    /// # Errors
    /// What [`AnswerError`] lists.
    fn items(&self, spec: &AnswerSpec, count_tokens: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError>;

    /// Marks what a model answered. A response of another kind than the item asked for scores 0.
    fn grade(&self, item: &Item, response: &Response) -> Grade;
}

/// The task of that name.
///
/// # Errors
/// [`AnswerError::Unknown`], with the nearest name there is.
pub fn answer_task(name: &str) -> Result<&'static dyn AnswerTask, AnswerError> {
    ANSWER_TASKS.into_iter().find(|task| task.name() == name).ok_or_else(|| AnswerError::unknown(name))
}

/// The items that `spec` asks for; equal specs on equal files give equal items.
///
/// `count_tokens` is asked by the tasks that generate text of a given length.
///
/// # Errors
/// A spec that its task cannot serve, a file that cannot be read or is not what the task reads.
pub fn items(spec: &AnswerSpec, count_tokens: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError> {
    let task = spec.check()?;
    let found = task.items(spec, count_tokens)?;
    if found.items.is_empty() { Err(AnswerError::NoItems { task: task.name() }) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_every_task_has_a_metric() {
        let mut names = ANSWER_TASKS.map(AnswerTask::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ANSWER_TASKS.len());
        assert!(ANSWER_TASKS.into_iter().all(|task| !task.metrics().is_empty()));
    }

    #[test]
    fn a_right_answer_without_text_is_named_with_its_line() {
        let trivia = |answer: &str| format!(r#"{{"question": "q", "answer": {answer}}}"#);
        let longbench = |answers: &str| {
            format!(r#"{{"input": "i", "context": "c", "dataset": "qasper", "answers": {answers}}}"#)
        };
        let race = |options: &str| {
            format!(r#"{{"article": "a", "question": "q", "options": {options}, "answer": "B"}}"#)
        };
        let mc1 = |targets: &str| format!(r#"{{"question": "q", "mc1_targets": {targets}}}"#);
        let gpqa = |right: &str| {
            let names = "Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3";
            format!("{names}\nq,{right},x,y,z")
        };
        let cases = [
            (
                "gsm8k",
                r##"{"question": "q", "answer": "so it is\n####  "}"##.into(),
                "`answer` has no result",
            ),
            ("triviaqa", trivia(r#"{"value": " "}"#), "`value` has an empty right answer"),
            (
                "triviaqa",
                trivia(r#"{"value": "a", "aliases": ["b", ""]}"#),
                "`aliases` has an empty right answer",
            ),
            ("longbench", longbench(r#"["a", " "]"#), "`answers` has an empty right answer"),
            ("race", race(r#"["x", " "]"#), "`options` has an empty right answer"),
            ("gpqa", gpqa(" "), "`Correct Answer` has an empty right answer"),
            ("truthfulqa-mc1", mc1(r#"{" ": 1, "b": 0}"#), "expected answers"),
            ("mmlu", "q,1,2,3,4,A\nq,1,2,3,4,".into(), "`answer` is ``, expected a letter"),
        ];
        for (task, text, expected) in cases {
            let text = if text.contains('\n') { text } else { format!("\n{text}\n") };
            let file = records::tests::file(&text);
            let spec = AnswerSpec { data: Some(file.path().into()), ..AnswerSpec::named(task) };
            let error = items(&spec, &str::len).expect_err("refused").to_string();
            let start = format!("`{}`, line 2: {expected}", file.path().display());
            assert!(error.starts_with(&start), "{task}: {error}");
        }
    }

    #[test]
    fn a_misspelled_task_is_told_the_nearest() {
        let error = items(&AnswerSpec::named("gms8k"), &str::len).expect_err("no such task");
        assert!(error.to_string().starts_with("unknown task `gms8k`, expected one of `gsm8k`, "), "{error}");
        assert_eq!(error.hint().as_deref(), Some("did you mean `gsm8k`?"));
    }
}
