//! `--answers`: a line that says where the file comes from, then one line an item and configuration, and where several
//! numbers of worked examples are asked, all of them once for each.

use std::path::Path;

use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{AnswerRequest, Plan, Sheet};
use crate::job::stages::dgap::restoration::Repair;
use crate::job::stages::session::Session;
use crate::job::stages::{ConfigurationBits, StageError};
use crate::report::{ModelRecord, write_atomic};
use crate::tasks::answers::{Gold, Response};

/// The format that this version writes.
const FORMAT: u32 = 2;

#[derive(Serialize)]
struct Line<'a> {
    shots: Option<usize>,
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

/// Writes all answers, item by item, as long as they were written.
pub(super) fn write(path: &Path, sheets: &[Sheet<'_>], session: &Session<'_>) -> Result<(), StageError> {
    let Some(first) = sheets.first() else { return Ok(()) };
    let provenance = provenance(first, sheets, session)?;
    Ok(write_atomic(path, |file| {
        writeln!(file, "{provenance}")?;
        for sheet in sheets {
            for item in 0..sheet.plan.asked.items.len() {
                for configuration in 0..sheet.plan.entries.len() {
                    writeln!(file, "{}", serde_json::to_string(&line(sheet, item, configuration))?)?;
                }
            }
        }
        Ok(())
    })?)
}

fn line<'a>(sheet: &'a Sheet<'_>, index: usize, configuration: usize) -> Line<'a> {
    let Plan { spec, task, asked, entries, .. } = sheet.plan;
    let (item, grade) = (&asked.items[index], &sheet.graded[configuration][index]);
    let reply = &sheet.replies[configuration][index];
    let names = task.metrics().iter().map(|metric| metric.name.to_owned());
    Line {
        shots: spec.shots,
        item: &item.id,
        set: &item.set,
        configuration: &entries[configuration].configuration.name,
        scores: names.zip(grade.scores.iter().map(|&score| score.into())).collect(),
        extracted: grade.extracted.as_deref(),
        gold: &item.gold,
        response: &reply.response,
        prompt_tokens: asked.questions[index].prompt_len(),
        new_tokens: reply.tokens.len(),
    }
}

fn provenance(first: &Sheet<'_>, sheets: &[Sheet<'_>], session: &Session<'_>) -> Result<String, StageError> {
    let Plan { request, spec, task, repair, entries, .. } = first.plan;
    let each = |of: fn(&Plan<'_>) -> usize| sheets.iter().map(|sheet| of(sheet.plan)).collect::<Vec<_>>();
    let model = ModelRecord {
        id: session.resolved.id.clone(),
        sha256: session.fingerprint.clone(),
        layers: session.n_layers(),
    };
    let configurations = entries.iter().map(|entry| {
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
        "template": file(spec.template.as_deref())?, "length": spec.length, "max_new_tokens": spec.max_new_tokens,
        "shots": sheets.iter().map(|sheet| sheet.plan.spec.shots).collect::<Vec<_>>(),
        "items": each(|plan| plan.asked.items.len()), "skipped": each(|plan| plan.asked.skipped),
        "cut": each(|plan| plan.asked.cut), "cache": request.cache, "dgap": heads(request, repair.as_ref())?,
        "configurations": configurations.collect::<Vec<_>>(),
        "metrics": task.metrics().iter().map(|metric| metric.name).collect::<Vec<_>>(),
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
