//! Heads for other engines: a logits processor in Python.

use std::path::Path;

use super::error::DgapError;
use super::file::hexadecimal;
use super::heads::{Corrector, Head};
use super::set::Heads;
use crate::report::write_text;

/// The processor, whose `WEIGHTS` and `ABOUT` are filled in.
const TEMPLATE: &str = include_str!("processor.py");

/// Writes a self-contained Python file with the detector and one corrector of the heads at `path`: the one asked
/// for, else of those that read logits alone the one with the best figure on held-out documents.
///
/// # Errors
/// [`DgapError::NoHead`] for a corrector that reads hidden states, which an engine does not show its processors.
pub fn python(path: &Path, corrector: Option<Corrector>, out: &Path) -> Result<(), DgapError> {
    let heads = Heads::read(path)?;
    let logits_only = |head: &&Head<Corrector>| !head.kind.reads_hidden();
    let no_head = || DgapError::NoHead {
        path: path.to_owned(),
        found: corrector.map_or(String::from("corrector that reads logits alone"), |kind| kind.to_string()),
        known: names(heads.correctors.iter().filter(logits_only)),
    };
    let figure = |head: &&Head<Corrector>| least(&heads, head.kind);
    let candidates = heads.correctors.iter().filter(logits_only);
    let chosen = match corrector {
        Some(kind) => candidates.clone().find(|head| head.kind == kind),
        None => candidates.clone().min_by(|a, b| figure(a).total_cmp(&figure(b))),
    };
    let chosen = chosen.ok_or_else(no_head)?;
    Ok(write_text(out, &text(&heads, heads.detector(path)?, chosen))?)
}

fn names<'a>(heads: impl Iterator<Item = &'a Head<Corrector>>) -> String {
    let names: Vec<String> = heads.map(|head| head.kind.to_string()).collect();
    if names.is_empty() { String::from("none") } else { names.join(", ") }
}

fn least(heads: &Heads, kind: Corrector) -> f64 {
    let record = heads.about.heads.iter().find(|record| record.name == kind.to_string());
    let epochs = record.map_or(&[][..], |record| &record.epochs);
    epochs.iter().map(|epoch| epoch.held_out).fold(f64::INFINITY, f64::min)
}

fn text(heads: &Heads, detector: &Head<super::heads::Detector>, corrector: &Head<Corrector>) -> String {
    let about = &heads.about;
    let mut weights = String::new();
    let mut add = |name: &str, shape: [usize; 2], data: &[f32]| {
        let [rows, cols] = shape;
        weights += &format!("    \"{name}\": (({rows}, {cols}), \"{}\"),\n", hexadecimal(data));
    };
    let width = about.shape.features;
    add("features.mean", [1, width], &heads.features.mean);
    add("features.deviation", [1, width], &heads.features.deviation);
    for (part, matrices) in [("detector", &detector.weights), ("corrector", &corrector.weights)] {
        matrices
            .iter()
            .for_each(|matrix| add(&format!("{part}.{}", matrix.name), matrix.shape, &matrix.data));
    }
    let bounds = about.training.bounds;
    let entries = [
        format!("    \"version\": {:?},\n", about.version),
        format!("    \"model\": {:?},\n", about.model_fingerprint),
        format!("    \"setting\": {:?},\n", about.setting.to_string()),
        format!("    \"seed\": {},\n", about.training.seed),
        format!("    \"top_k\": {},\n", about.shape.top_k),
        format!("    \"detector\": \"{}\",\n", detector.kind),
        format!("    \"corrector\": \"{}\",\n", corrector.kind),
        format!("    \"threshold\": {:?},\n", about.threshold.risk),
        format!("    \"clip\": {:?},\n", bounds.clip),
        format!("    \"keep_mass\": {},\n", if bounds.keep_mass { "True" } else { "False" }),
    ];
    TEMPLATE
        .replace("ABOUT = {}\n", &format!("ABOUT = {{\n{}}}\n", entries.concat()))
        .replace("WEIGHTS = {}\n", &format!("WEIGHTS = {{\n{weights}}}\n"))
}
