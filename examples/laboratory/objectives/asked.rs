//! Answers of maps to a task's questions, asked by the product and kept as it writes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use kvtune::cache::CacheKind;
use kvtune::cli::registry;
use kvtune::job::stages::{AnswerRequest, Configuration, ConfigurationBits, Context, Ladder, ask};
use kvtune::model::WeightType;
use kvtune::precision::PrecisionMap;
use kvtune::tasks::answers::{AnswerSpec, Response};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::bench::digest;
use crate::folder::Folder;
use crate::told::Told;

/// What full precision is called among the answers.
const FULL: &str = "full";

/// Maps that answer.
pub(super) struct Asking<'a> {
    pub(super) folder: &'a Folder,
    pub(super) maps: &'a [PrecisionMap],
    /// Hash of model, scheme and trace.
    pub(super) inputs: &'a str,
    pub(super) lanes: usize,
    pub(super) threads: usize,
    pub(super) out: &'a Path,
}

/// A map on a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) items: usize,
    pub(super) full_score: f64,
    pub(super) score: f64,
    /// Share of items whose answer is another than full precision's.
    pub(super) changed: f64,
}

/// An answer, as `kvtune eval --answers` writes it.
#[derive(Clone, Debug, Deserialize)]
struct Answer {
    item: String,
    configuration: String,
    scores: BTreeMap<String, f64>,
    extracted: Option<String>,
    response: Response,
}

impl Answer {
    /// What was written, or which choice was taken.
    fn said(&self) -> Option<&str> {
        match &self.response {
            Response::Text(text) => Some(text),
            Response::LogLikelihoods(_) => self.extracted.as_deref(),
        }
    }
}

impl Asking<'_> {
    /// One outcome a map. Answers stand in a file of their own, named by all that they depend on, so that a run which
    /// was stopped asks only the tasks that are left.
    pub(super) fn outcomes(&self, spec: &AnswerSpec) -> anyhow::Result<Vec<Outcome>> {
        let path = self.file(spec)?;
        if path.exists() {
            eprintln!("{}: answers in {}", spec.task, path.display());
        } else {
            self.ask(spec, &path)?;
        }
        let metric = spec.check()?.metrics().first().context("a task has a metric")?.name;
        let names: Vec<String> = (0..self.maps.len()).map(map_name).collect();
        outcomes(&read(&path)?, &names, metric).with_context(|| path.display().to_string())
    }

    fn file(&self, spec: &AnswerSpec) -> anyhow::Result<PathBuf> {
        let maps: Vec<String> = self.maps.iter().map(ToString::to_string).collect();
        let files = [&spec.data, &spec.train, &spec.template].map(Option::as_deref);
        let files = files.into_iter().map(content).collect::<anyhow::Result<Vec<_>>>()?;
        let key = digest(&[self.inputs, &format!("{spec:?}"), &maps.join("\n"), &files.concat()]);
        Ok(self.out.join(format!("objectives-{}-{key}.jsonl", spec.task)))
    }

    fn ask(&self, spec: &AnswerSpec, path: &Path) -> anyhow::Result<()> {
        let configuration = |(index, map): (usize, &PrecisionMap)| Configuration {
            name: map_name(index),
            scheme: self.folder.job.search_space.scheme.clone(),
            bits: ConfigurationBits::Map(map.clone()),
        };
        let request = AnswerRequest {
            model: self.folder.job.model.clone(),
            weights: WeightType::F32,
            spec: spec.clone(),
            ladder: Ladder::default(),
            cache: CacheKind::Packed,
            configurations: self.maps.iter().enumerate().map(configuration).collect(),
            lanes: self.lanes,
            save: Some(path.to_owned()),
            restoration: None,
        };
        let context = Context {
            observer: &Told::default(),
            registry: registry(true),
            device: "cpu".parse()?,
            stream_weights: false,
            force: false,
            threads: self.threads,
            available_memory: None,
            command: String::new(),
        };
        ask(&request, &context)?;
        Ok(())
    }
}

fn map_name(index: usize) -> String {
    format!("map {index}")
}

/// A hash of what a file holds; of a folder, or of no file, its name.
fn content(path: Option<&Path>) -> anyhow::Result<String> {
    let Some(path) = path else { return Ok(String::new()) };
    if path.is_dir() {
        return Ok(path.display().to_string());
    }
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    Ok(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// All answers behind the first line, which says where they are from.
fn read(path: &Path) -> anyhow::Result<Vec<Answer>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let answer = |(index, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("`{}`, line {}", path.display(), index + 1))
    };
    text.lines().enumerate().skip(1).map(answer).collect()
}

/// Each configuration beside full precision, on the same items.
fn outcomes(answers: &[Answer], names: &[String], metric: &str) -> anyhow::Result<Vec<Outcome>> {
    let of = |name: &str| -> BTreeMap<&str, &Answer> {
        let own = answers.iter().filter(|answer| answer.configuration == name);
        own.map(|answer| (answer.item.as_str(), answer)).collect()
    };
    let full = of(FULL);
    names.iter().map(|name| outcome(&of(name), &full, metric).with_context(|| name.clone())).collect()
}

fn outcome(
    map: &BTreeMap<&str, &Answer>,
    full: &BTreeMap<&str, &Answer>,
    metric: &str,
) -> anyhow::Result<Outcome> {
    if full.is_empty() || !map.keys().eq(full.keys()) {
        bail!("answers to {} items, expected the {} of full precision", map.len(), full.len());
    }
    let items = full.len();
    let mean = |answers: &BTreeMap<&str, &Answer>| -> anyhow::Result<f64> {
        let scores = answers.values().map(|answer| answer.scores.get(metric).copied());
        let sum: Option<f64> = scores.sum();
        Ok(sum.with_context(|| format!("an answer has no `{metric}`"))? / items as f64)
    };
    let changed = map.values().zip(full.values()).filter(|(map, full)| map.said() != full.said()).count();
    let changed = changed as f64 / items as f64;
    Ok(Outcome { items, full_score: mean(full)?, score: mean(map)?, changed })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"kvtune": {"format": 1}}
{"item": "a", "set": "s", "configuration": "full", "scores": {"m": 1.0}, "extracted": "4", "gold": {"texts": ["4"]}, "response": {"text": " 4"}, "prompt_tokens": 3, "new_tokens": 1}
{"item": "a", "set": "s", "configuration": "map 0", "scores": {"m": 1.0}, "extracted": "4", "gold": {"texts": ["4"]}, "response": {"text": " So 4"}, "prompt_tokens": 3, "new_tokens": 1}
{"item": "b", "set": "s", "configuration": "full", "scores": {"m": 1.0}, "extracted": "A", "gold": {"choice": 0}, "response": {"log_likelihoods": [-1.0, -2.0]}, "prompt_tokens": 3, "new_tokens": 0}
{"item": "b", "set": "s", "configuration": "map 0", "scores": {"m": 0.0}, "extracted": "B", "gold": {"choice": 0}, "response": {"log_likelihoods": [-2.0, -1.0]}, "prompt_tokens": 3, "new_tokens": 0}
{"item": "c", "set": "s", "configuration": "full", "scores": {"m": 0.0}, "extracted": "B", "gold": {"choice": 0}, "response": {"log_likelihoods": [-2.0, -1.0]}, "prompt_tokens": 3, "new_tokens": 0}
{"item": "c", "set": "s", "configuration": "map 0", "scores": {"m": 0.0}, "extracted": "B", "gold": {"choice": 0}, "response": {"log_likelihoods": [-2.5, -1.5]}, "prompt_tokens": 3, "new_tokens": 0}
{"item": "d", "set": "s", "configuration": "full", "scores": {"m": 0.0}, "extracted": null, "gold": {"texts": ["4"]}, "response": {"text": "no"}, "prompt_tokens": 3, "new_tokens": 1}
{"item": "d", "set": "s", "configuration": "map 0", "scores": {"m": 0.0}, "extracted": null, "gold": {"texts": ["4"]}, "response": {"text": "no"}, "prompt_tokens": 3, "new_tokens": 1}
"#;

    fn answers() -> Vec<Answer> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), FILE).expect("written");
        read(file.path()).expect("answers")
    }

    #[test]
    fn a_text_or_a_choice_that_differs_counts_as_changed_and_a_likelihood_does_not() {
        let found = outcomes(&answers(), &["map 0".into()], "m").expect("outcomes");
        assert_eq!(found, [Outcome { items: 4, full_score: 0.5, score: 0.25, changed: 0.5 }]);
    }

    #[test]
    fn answers_that_do_not_go_together_are_refused() {
        let mut answers = answers();
        assert!(outcomes(&answers, &["map 0".into()], "other").is_err());
        assert!(outcomes(&answers, &["map 1".into()], "m").is_err());
        answers.pop();
        assert!(outcomes(&answers, &["map 0".into()], "m").is_err(), "an item less");
    }
}
