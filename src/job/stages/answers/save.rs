//! `--answers`: a line that says where the file comes from, then one line an item and configuration.

use std::path::Path;

use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{AnswerRequest, Results};
use crate::job::stages::dgap::restoration::Repair;
use crate::job::stages::session::Session;
use crate::job::stages::{ConfigurationBits, StageError};
use crate::report::{ModelRecord, write_atomic};
use crate::tasks::answers::{Gold, Response};

/// The format that this version writes.
const FORMAT: u32 = 1;

#[derive(Serialize)]
struct Line<'a> {
    item: &'a str,
    set: &'a str,
    configuration: &'a str,
    scores: serde_json::Map<String, serde_json::Value>,
    extracted: Option<&'a str>,
    gold: &'a Gold,
    response: &'a Response,
    prompt_tokens: usize,
    new_tokens: usize,
}

/// Writes all answers, item by item.
pub(super) fn write(
    path: &Path,
    results: &Results<'_>,
    (request, repair): (&AnswerRequest, Option<&Repair<'_>>),
    session: &Session<'_>,
) -> Result<(), StageError> {
    let provenance = provenance(results, (request, repair), session)?;
    Ok(write_atomic(path, |file| {
        writeln!(file, "{provenance}")?;
        for item in 0..results.asked.items.len() {
            for configuration in 0..results.entries.len() {
                writeln!(file, "{}", serde_json::to_string(&line(results, item, configuration))?)?;
            }
        }
        Ok(())
    })?)
}

fn line<'a>(results: &'a Results<'_>, index: usize, configuration: usize) -> Line<'a> {
    let (item, grade) = (&results.asked.items[index], &results.graded[configuration][index]);
    let reply = &results.replies[configuration][index];
    let names = results.task.metrics().iter().map(|metric| metric.name.to_owned());
    Line {
        item: &item.id,
        set: &item.set,
        configuration: &results.entries[configuration].configuration.name,
        scores: names.zip(grade.scores.iter().map(|&score| score.into())).collect(),
        extracted: grade.extracted.as_deref(),
        gold: &item.gold,
        response: &reply.response,
        prompt_tokens: results.asked.questions[index].prompt_len(),
        new_tokens: reply.new_tokens,
    }
}

fn provenance(
    results: &Results<'_>,
    (request, repair): (&AnswerRequest, Option<&Repair<'_>>),
    session: &Session<'_>,
) -> Result<String, StageError> {
    let spec = &request.spec;
    let model = ModelRecord {
        id: session.resolved.id.clone(),
        sha256: session.fingerprint.clone(),
        layers: session.n_layers(),
    };
    let configurations = results.entries.iter().map(|entry| {
        let configuration = &entry.configuration;
        let bits = match &configuration.bits {
            ConfigurationBits::Map(map) => map.to_string(),
            ConfigurationBits::Uniform(pair) => pair.to_string(),
        };
        let repaired = entry.repairs.is_some();
        json!({"name": configuration.name, "scheme": configuration.scheme, "map": bits, "repaired": repaired})
    });
    let provenance = json!({
        "format": FORMAT, "version": env!("CARGO_PKG_VERSION"), "model": model, "seed": spec.seed,
        "task": spec.task, "data": file(spec.data.as_deref())?, "train": file(spec.train.as_deref())?,
        "template": file(spec.template.as_deref())?, "shots": spec.shots, "length": spec.length,
        "max_new_tokens": spec.max_new_tokens, "items": results.asked.items.len(),
        "skipped": results.asked.skipped, "cut": results.asked.cut, "cache": request.cache,
        "dgap": heads(request, repair)?, "configurations": configurations.collect::<Vec<_>>(), "metrics":
            results.task.metrics().iter().map(|metric| metric.name).collect::<Vec<_>>(),
    });
    Ok(json!({"kvtune": provenance}).to_string())
}

/// The file of the heads, and how they are used.
fn heads(request: &AnswerRequest, repair: Option<&Repair<'_>>) -> Result<serde_json::Value, StageError> {
    let mut heads = file(request.restoration.as_ref().map(|restoration| restoration.heads.as_path()))?;
    if let (Some(fields), Some(repair)) = (heads.as_object_mut(), repair) {
        fields.insert(String::from("corrector"), json!(repair.corrector()));
        fields.insert(String::from("risk"), json!(repair.risk()));
    }
    Ok(heads)
}

/// A file's name and hash; of a folder its name alone.
fn file(path: Option<&Path>) -> Result<serde_json::Value, StageError> {
    let Some(path) = path else { return Ok(serde_json::Value::Null) };
    if path.is_dir() {
        return Ok(json!({"path": path}));
    }
    let bytes = std::fs::read(path)
        .map_err(|source| crate::report::FileError::Read { path: path.to_owned(), source })?;
    let digest = Sha256::digest(&bytes);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(json!({"path": path, "sha256": hex}))
}
