//! `docs/job.md`: every field of a job, from the structs themselves. `KVTUNE_BLESS=1` writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use serde_yaml::Value;

use super::fields::{job_template, join};
use super::{AnswersSpec, Job};

/// Where the structs are: the fields' path, their source, and the struct's name there.
const STRUCTS: [(&str, &str, &str); 16] = [
    ("", include_str!("spec.rs"), "Job"),
    ("search_space", include_str!("search_space.rs"), "SearchSpace"),
    ("search_space.scheme", include_str!("../quant/scheme.rs"), "Scheme"),
    ("search_space.scheme.key", include_str!("../quant/scheme.rs"), "TensorSpec"),
    ("search_space.scheme.value", include_str!("../quant/scheme.rs"), "TensorSpec"),
    ("search_space.sensitivity", include_str!("search_space.rs"), "SensitivitySpec"),
    ("search_space.prune", include_str!("search_space.rs"), "PruneSpec"),
    ("search_space.cluster", include_str!("search_space.rs"), "ClusterSpec"),
    ("trace", include_str!("../trace/params.rs"), "TraceParams"),
    ("trace.documents", include_str!("../tasks/spec.rs"), "DocumentCounts"),
    ("search", include_str!("spec.rs"), "SearchSpec"),
    ("search.max_storage_bits", include_str!("spec.rs"), "StorageLimit"),
    ("search.max_cache", include_str!("spec.rs"), "CacheLimit"),
    ("answers", include_str!("answers.rs"), "AnswersSpec"),
    ("answers.items", include_str!("answers.rs"), "ItemCounts"),
    ("answers.tasks[]", include_str!("answers.rs"), "Questions"),
];

/// Fields that are one value to a user, whatever they are inside.
const WHOLE: [&str; 2] = ["search_space.pairs", "search_space.cluster.groups"];

const HEAD: &str = "\
# Job reference

Generated from the types; do not edit.
Every field has a default, and a field that nobody knows is an error that names the nearest one.
Paths are looked for beside the job's file, then in the current directory.
The README explains the options of schemes and searches; `kvtune calibrate --dry-run` shows what a job would do.
";

/// The page.
fn page() -> String {
    let job = Job { answers: Some(AnswersSpec::default()), ..Job::default() };
    let defaults = serde_yaml::to_value(job).expect("a job is YAML");
    let mut out = HEAD.to_owned();
    for (path, source, name) in STRUCTS {
        let title = if path.is_empty() { String::from("The job") } else { format!("`{path}`") };
        write!(out, "\n## {title}\n\n| field | default | what |\n|---|---|---|\n").expect("a string");
        for (field, said) in fields(source, name) {
            let path = join(path, &field);
            let default = shown(&path, at(&defaults, &path));
            writeln!(out, "| `{field}` | {default} | {said} |").expect("a string");
        }
    }
    out
}

/// Names and first paragraphs of the fields of a struct.
fn fields(source: &str, name: &str) -> Vec<(String, String)> {
    let body = source.split_once(&format!("pub struct {name} {{\n")).expect("the struct").1;
    let body = body.split_once("\n}").expect("its end").0;
    let (mut found, mut said) = (Vec::new(), String::new());
    for line in body.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            said = format!("{said} {}", text.trim()).trim().to_owned();
        } else if let Some((field, _)) = line.strip_prefix("pub ").and_then(|rest| rest.split_once(':')) {
            found.push((field.to_owned(), std::mem::take(&mut said).replace('|', "\\|")));
        }
    }
    found
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, field| value.get(field))
}

fn shown(path: &str, value: Option<&Value>) -> String {
    match value {
        Some(value @ Value::Mapping(_)) if WHOLE.contains(&path) => {
            let json = serde_json::to_string(value).expect("JSON");
            format!("`{}`", json.replace('"', "").replace(':', ": ").replace(',', ", "))
        }
        None | Some(Value::Null) => String::from("none"),
        Some(Value::String(text)) if text.is_empty() => String::from("by model and scheme"),
        Some(Value::Mapping(_)) => String::from("see below"),
        Some(value) => format!("`{}`", serde_yaml::to_string(value).expect("YAML").trim()),
    }
}

/// The paths of all fields of a value.
fn paths(value: &Value, at: &str, found: &mut Vec<String>) {
    if let Value::Sequence(items) = value {
        return items.iter().for_each(|item| paths(item, &format!("{at}[]"), found));
    }
    let Value::Mapping(fields) = value else { return };
    for (key, inner) in fields {
        let path = join(at, key.as_str().expect("a name"));
        found.push(path.clone());
        if !WHOLE.contains(&path.as_str()) {
            paths(inner, &path, found);
        }
    }
}

#[test]
fn every_field_that_a_job_may_have_is_described() {
    let mut expected = Vec::new();
    paths(&job_template(), "", &mut expected);
    let of = |(path, source, name): &(&str, &str, &str)| -> Vec<String> {
        fields(source, name)
            .into_iter()
            .map(|(field, said)| {
                assert!(!said.is_empty(), "{path}.{field} says nothing");
                join(path, &field)
            })
            .collect()
    };
    let mut described: Vec<String> = STRUCTS.iter().flat_map(of).collect();
    expected.sort();
    described.sort();
    assert_eq!(described, expected);
}

#[test]
fn the_job_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/job.md");
    if std::env::var_os("KVTUNE_BLESS").is_some() {
        std::fs::write(&path, page()).expect("written");
    }
    let found = std::fs::read_to_string(&path).expect("docs/job.md");
    assert!(found == page(), "docs/job.md is stale: KVTUNE_BLESS=1 cargo test --workspace --lib reference");
}
