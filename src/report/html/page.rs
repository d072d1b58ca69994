use minijinja::{Environment, Value};
use serde::Serialize;

use super::ReportError;
use super::answer::{Answer, answer};
use super::example::{Example, example};
use super::extras::{Section, sections as extras};
use super::folder::Folder;
use super::memory::{MemoryRow, rows as memory};
use super::sections::{Chart, Group, Point, groups, heatmap, pareto, points, progress, strip};
use crate::report::{
    AgreementMatrix, EvaluationRow, ParetoRow, PrecisionFile, SensitivityRow, agreement_matrices,
};

const TEMPLATE: &str = include_str!("report.html.j2");
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Version of the data block.
const FORMAT: u32 = 1;

/// What the template is filled with.
#[derive(Serialize)]
struct Page<'a> {
    title: String,
    style: &'static str,
    script: &'static str,
    answer: Option<Answer>,
    gaps: Vec<String>,
    resume: String,
    memory: Vec<MemoryRow>,
    strip: Option<Chart>,
    pareto: Option<Chart>,
    points: Vec<Point>,
    heatmap: Option<Chart>,
    groups: Vec<Group>,
    sizes: Option<[f64; 3]>,
    agreement: Vec<AgreementMatrix>,
    progress: Option<Chart>,
    example: Option<Example>,
    extras: Vec<Section>,
    provenance: Vec<(&'static str, String)>,
    version: &'static str,
    job: Option<String>,
    data: &'a str,
}

/// The rows behind the figures, as the CSVs beside the page have them.
#[derive(Serialize)]
struct Data<'a> {
    format: u32,
    version: &'static str,
    model: Option<&'a crate::report::ModelRecord>,
    seed: Option<u64>,
    precision: Option<String>,
    pareto: &'a [ParetoRow],
    sensitivity: &'a [SensitivityRow],
    evaluations: &'a [EvaluationRow],
}

/// The page as text.
pub(super) fn render(folder: &Folder) -> Result<String, ReportError> {
    let data = data(folder)?;
    let mut environment = Environment::new();
    environment.add_filter("bytes", |bytes: u64| crate::job::size(bytes));
    environment.add_filter("grouped", super::answer::grouped);
    environment.add_filter("fixed", |value: f64, digits: usize| format!("{value:.digits$}"));
    environment.add_template(super::FILE, TEMPLATE)?;
    let page = Value::from_serialize(page(folder, &data));
    Ok(environment.get_template(super::FILE)?.render(page)?)
}

fn page<'a>(folder: &Folder, data: &'a str) -> Page<'a> {
    let answer = answer(folder);
    let model = folder.model().unwrap_or("a model");
    Page {
        title: answer.as_ref().map_or_else(|| format!("{model}: no map yet"), |answer| answer.title.clone()),
        style: STYLE,
        script: SCRIPT,
        gaps: folder.gaps.iter().map(ToString::to_string).collect(),
        resume: format!("kvtune calibrate {}", folder.path.join("job.yaml").display()),
        memory: memory(folder),
        strip: strip(folder),
        pareto: pareto(folder),
        points: points(folder),
        heatmap: heatmap(folder),
        groups: groups(folder),
        sizes: folder.space.as_ref().map(|file| file.log10_sizes),
        agreement: agreement_matrices(&folder.prompts),
        progress: progress(folder),
        example: example(folder),
        extras: extras(folder),
        provenance: provenance(folder),
        version: env!("CARGO_PKG_VERSION"),
        job: folder.job.as_ref().and_then(|job| job.to_yaml().ok()),
        answer,
        data,
    }
}

/// Where the result comes from, a name and a value each.
fn provenance(folder: &Folder) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(run) = &folder.run {
        rows.push(("model", run.model.id.clone()));
        rows.push(("sha256 of its weights", run.model.sha256.clone()));
        rows.push(("layers", run.model.layers.to_string()));
        rows.push(("made by", format!("kvtune {}", run.version)));
        rows.push(("seed of the search", run.seed.to_string()));
    }
    if let Some(job) = &folder.job {
        rows.push(("scheme", scheme(&job.search_space.scheme)));
        rows.push(("task", format!("{}, seed {}", job.trace.task_spec().name, job.trace.seed)));
        rows.push(("searcher", format!("{}, {} evaluations", job.search.algorithm, job.search.evaluations)));
    }
    match &folder.trace {
        Some(meta) => {
            rows.push(("prompt template", meta.prompt_template.clone()));
            rows.push(("BOS", meta.bos.clone()));
            rows.push(("longest continuation", format!("{} tokens", meta.max_new_tokens)));
        }
        None => rows
            .push(("prompt template, BOS", String::from("stand in `trace.safetensors`, which is not here"))),
    }
    rows
}

fn scheme(scheme: &crate::quant::Scheme) -> String {
    let text = serde_json::to_string(scheme).unwrap_or_default();
    text.replace('"', "").replace(',', ", ")
}

/// JSON that may stand in a `script` element: no `<` is left that could end it.
fn data(folder: &Folder) -> Result<String, ReportError> {
    let data = Data {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION"),
        model: folder.run.as_ref().map(|run| &run.model),
        seed: folder.run.as_ref().map(|run| run.seed),
        precision: folder.precision.as_ref().map(|PrecisionFile { map, .. }| map.to_string()),
        pareto: &folder.pareto,
        sensitivity: &folder.sensitivity,
        evaluations: &folder.evaluations,
    };
    Ok(serde_json::to_string(&data)?.replace('<', "\\u003c"))
}
