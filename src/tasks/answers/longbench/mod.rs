//! `longbench`: questions on long texts, twenty-one sets (Bai et al., arXiv:2308.14508).

mod sets;
mod template;

use super::metric::{best, characters, classification, f1, numbers, rouge_l, similarity, words};
use super::records::{Record, json};
use super::{
    AnswerError, AnswerSpec, AnswerTask, Ask, Gold, Grade, Item, ItemPrompt, Items, Metric, Response, Takes,
    WhenLong,
};
use sets::{Mark, Set};
use template::Templates;

/// JSON lines with `input`, `context`, `answers`, `dataset` and `all_classes`, as published; a file or a folder.
///
/// Prompts are our own words, in place of which `--template` takes a file of `set: "text with {context} and {input}"`,
/// the published `dataset2prompt.json` among them. A prompt too long for the context loses its middle, as there.
/// Chinese is counted in characters and ROUGE-L is that of whole texts, so figures of those sets are not comparable
/// with published ones.
#[derive(Clone, Copy, Debug)]
pub struct LongBench;

impl AnswerTask for LongBench {
    fn name(&self) -> &'static str {
        "longbench"
    }

    fn takes(&self) -> Takes {
        Takes { data: true, shots: false, template: true, writes: true }
    }

    fn metrics(&self) -> &'static [Metric] {
        const { &[Metric::graded("score")] }
    }

    fn items(&self, spec: &AnswerSpec, _: &dyn Fn(&str) -> usize) -> Result<Items, AnswerError> {
        let templates = Templates::read(spec.template.as_deref())?;
        let records = json(spec.data(self.name())?, None)?;
        let numbered = records.iter().enumerate().take(spec.most_items());
        let items = numbered.map(|(index, record)| item(index, record, &templates, spec.max_new_tokens));
        Ok(Items { items: items.collect::<Result<_, _>>()?, examples_left_out: 0 })
    }

    fn grade(&self, item: &Item, response: &Response) -> Grade {
        let (Some(set), Response::Text(text)) = (sets::set(&item.set), response) else {
            return Grade { extracted: None, scores: vec![0.0] };
        };
        let found = if set.first_line { first_line(text) } else { text.trim() };
        let score = match &item.gold {
            Gold::Texts(texts) => best(texts, |gold| score(set.mark, found, gold, &[])),
            Gold::Label { texts, classes } => best(texts, |gold| score(set.mark, found, gold, classes)),
            _ => 0.0,
        };
        Grade { extracted: Some(found.to_owned()).filter(|found| !found.is_empty()), scores: vec![score] }
    }
}

fn item(
    index: usize,
    record: &Record,
    templates: &Templates,
    max_new_tokens: Option<usize>,
) -> Result<Item, AnswerError> {
    record.expect(&["input", "context", "answers", "dataset"])?;
    let (name, input, context) = (record.text("dataset")?, record.text("input")?, record.text("context")?);
    let set = sets::set(&name)
        .ok_or_else(|| record.error(format!("`dataset` is `{name}`, expected one of {}", sets::names())))?;
    let texts = record.golds("answers")?;
    let gold = match set.mark {
        Mark::Classification => Gold::Label { texts, classes: record.texts("all_classes")? },
        _ => Gold::Texts(texts),
    };
    Ok(Item {
        id: format!("{name}-{index:04}"),
        prompt: ItemPrompt::Text { prefix: String::new(), rest: templates.fill(set, &context, &input) },
        ask: Ask::Write { stop: stop(set), max_new_tokens: max_new_tokens.unwrap_or(set.max_new_tokens) },
        key: format!("{input}\n{context}"),
        set: name,
        gold,
        when_long: WhenLong::CutMiddle,
    })
}

/// Dialogues are summarized in a line, and models go on to the next one.
fn stop(set: &Set) -> Vec<String> {
    if set.name == "samsum" { vec!["\n".into()] } else { Vec::new() }
}

fn score(mark: Mark, found: &str, gold: &str, classes: &[String]) -> f64 {
    match mark {
        Mark::F1 => f1(&words(found), &words(gold)),
        Mark::F1Chinese => f1(&characters(found), &characters(gold)),
        Mark::Rouge => rouge_l(&plain_words(found), &plain_words(gold)),
        Mark::RougeChinese => rouge_l(&characters(found), &characters(gold)),
        Mark::Classification => classification(found, gold, classes),
        Mark::Count => numbers(found, gold),
        // `Paragraph 7`, `段落7`: the number is what counts.
        Mark::Retrieval => {
            numbers(found, super::extract::digit_runs(gold).first().copied().unwrap_or_default())
        }
        Mark::Code => similarity(code_line(found), gold),
    }
}

fn plain_words(text: &str) -> Vec<String> {
    text.to_lowercase().split_whitespace().map(str::to_owned).collect()
}

fn first_line(text: &str) -> &str {
    text.trim_start_matches('\n').lines().next().unwrap_or_default().trim()
}

/// The first line that is neither a comment nor a fence.
fn code_line(text: &str) -> &str {
    let is_code = |line: &&str| !["`", "#", "//"].iter().any(|mark| line.contains(mark));
    text.trim_start_matches('\n').lines().find(is_code).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "marks are shares of small counts")]
mod tests {
    use super::super::items;
    use super::super::records::tests::file;
    use super::*;

    fn line(set: &str, answers: &str, classes: &str) -> String {
        format!(
            "{{\"input\": \"Who?\", \"context\": \"Ann came.\", \"answers\": {answers}, \"length\": 2, \
             \"dataset\": \"{set}\", \"language\": \"en\", \"all_classes\": {classes}, \"_id\": \"x\"}}\n"
        )
    }

    fn found(text: &str) -> Result<Vec<Item>, AnswerError> {
        let file = file(text);
        let spec = AnswerSpec { data: Some(file.path().into()), ..AnswerSpec::named("longbench") };
        items(&spec, &str::len).map(|found| found.items)
    }

    fn marked(set: &str, answers: &str, classes: &str, text: &str) -> f64 {
        let item = &found(&line(set, answers, classes)).expect("an item")[0];
        LongBench.grade(item, &Response::Text(text.into())).scores[0]
    }

    #[test]
    fn each_set_is_marked_its_own_way() {
        let none = "null";
        assert_eq!(marked("hotpotqa", "[\"Ann Lee\", \"Ann\"]", none, " Ann"), 1.0);
        assert_eq!(marked("dureader", "[\"北京\"]", none, "北京市"), 0.8);
        assert_eq!(marked("qmsum", "[\"x y z\"]", none, "X z"), 0.8);
        let classes = "[\"Food\", \"City\"]";
        assert_eq!(marked("trec", "[\"City\"]", classes, "City\nType: Food"), 1.0);
        assert_eq!(marked("trec", "[\"City\"]", classes, "City, Food"), 0.5);
        assert_eq!(marked("passage_retrieval_en", "[\"Paragraph 7\"]", none, " Paragraph 7"), 1.0);
        assert_eq!(marked("passage_count", "[\"7\"]", none, "7 or 8"), 0.5);
        assert_eq!(marked("lcc", "[\"return x\"]", none, "\n# a comment\nreturn y\n"), 14.0 / 16.0);
    }

    #[test]
    fn every_set_has_its_context_and_input_in_the_prompt() {
        for set in sets::SETS {
            let item = &found(&line(set.name, "[\"a\"]", "[\"a\"]")).expect("an item")[0];
            let ItemPrompt::Text { rest, .. } = &item.prompt else { panic!("a text") };
            assert!(rest.contains("Ann came."), "{}", set.name);
            assert_eq!(item.when_long, WhenLong::CutMiddle);
            assert_eq!(rest.contains("Who?"), set.template.contains("{input}"), "{}", set.name);
        }
        assert_eq!(sets::SETS.len(), 21);
    }

    #[test]
    fn unknown_sets_and_missing_answers_are_named() {
        let error = found(&line("nosuch", "[\"a\"]", "null")).expect_err("no such set").to_string();
        assert!(error.contains("line 1: `dataset` is `nosuch`, expected one of `narrativeqa`, "), "{error}");
        let error = found(&line("qasper", "[]", "null")).expect_err("none").to_string();
        assert!(error.ends_with("line 1: `answers` is empty, expected at least one right answer"), "{error}");
    }

    #[test]
    fn a_template_file_takes_the_place_of_our_words() {
        let data = file(&line("qasper", "[\"a\"]", "null"));
        let template = file("{\"qasper\": \"Read {context} and {input}\"}");
        let spec = AnswerSpec {
            data: Some(data.path().into()),
            template: Some(template.path().into()),
            ..AnswerSpec::named("longbench")
        };
        let item = items(&spec, &str::len).expect("items").items.remove(0);
        let rest = "Read Ann came. and Who?".to_owned();
        assert_eq!(item.prompt, ItemPrompt::Text { prefix: String::new(), rest });
        let template = file("qaspr: '{context}'\n");
        let spec = AnswerSpec { template: Some(template.path().into()), ..spec };
        let error = items(&spec, &str::len).expect_err("no such set").to_string();
        assert!(error.contains("unknown set `qaspr`"), "{error}");
    }
}
