//! Which fields exist: those of a template, a value of the struct itself with every optional part filled in.
//!
//! So no list of names is kept by hand, and a field added to a struct is known here at once.

use std::path::PathBuf;

use serde_yaml::{Mapping, Value};

use super::answers::{AnswersSpec, Questions};
use super::search_space::{ClusterSpec, SearchSpace};
use super::spec::{CacheLimit, Job, SearchSpec, StorageLimit};
use super::units::ByteSize;
use crate::space::GroupRange;
use crate::trace::TraceParams;

/// A job with no optional part missing.
pub(super) fn job_template() -> Value {
    let storage = StorageLimit { context: 1, bits: 1.0 };
    let cache = CacheLimit { context: 1, batch: 1, bytes: ByteSize(1) };
    let search = SearchSpec {
        max_bits: Some(1.0),
        max_storage_bits: Some(storage),
        max_cache: Some(cache),
        ..SearchSpec::default()
    };
    let trace = TraceParams { path: Some(PathBuf::from("text")), shots: Some(1), ..TraceParams::default() };
    let path = Some(PathBuf::from("file"));
    let questions = Questions {
        data: path.clone(),
        train: path.clone(),
        template: path,
        shots: Some(1),
        length: Some(1),
        max_new_tokens: Some(1),
        ..Questions::default()
    };
    let answers = Some(AnswersSpec { tasks: vec![questions], ..AnswersSpec::default() });
    serde_yaml::to_value(Job { trace, search, answers, search_space: full_space(), ..Job::default() })
        .unwrap_or_default()
}

/// A search space with no optional part missing.
pub(super) fn space_template() -> Value {
    serde_yaml::to_value(full_space()).unwrap_or_default()
}

fn full_space() -> SearchSpace {
    let cluster = ClusterSpec { groups: Some(GroupRange { fewest: 1, most: 1 }), ..ClusterSpec::default() };
    SearchSpace { cluster, ..SearchSpace::default() }
}

/// The first field of `value` that `template` does not have, by path, with the names that it does have there.
pub(super) fn unknown(value: &Value, template: &Value, at: &str) -> Option<(String, Vec<String>)> {
    let (Value::Mapping(fields), Value::Mapping(known)) = (value, template) else { return None };
    fields.iter().find_map(|(key, inner)| {
        let path = join(at, &name(key));
        match known.get(key) {
            Some(template) => unknown(inner, template, &path),
            None => Some((path, known.keys().map(name).collect())),
        }
    })
}

/// `search` and `max_bits` make `search.max_bits`.
pub(super) fn join(at: &str, field: &str) -> String {
    match (at, field) {
        ("", field) => field.to_owned(),
        (at, "") => at.to_owned(),
        (at, field) => format!("{at}.{field}"),
    }
}

/// A key as its author wrote it.
fn name(key: &Value) -> String {
    match key {
        Value::String(text) => text.clone(),
        other => serde_yaml::to_string(other).unwrap_or_default().trim().to_owned(),
    }
}

/// Drops fields without a value, so that `trace:` alone means its defaults.
pub(super) fn drop_empty(value: &mut Value) {
    if let Value::Mapping(fields) = value {
        fields.retain(|_, inner| !inner.is_null());
        fields.values_mut().for_each(drop_empty);
    }
}

/// Takes from `defaults` every field that is missing, at any depth.
pub(super) fn fill(fields: &mut Mapping, defaults: &Mapping) {
    for (key, default) in defaults {
        match (fields.get_mut(key), default) {
            (None, _) => {
                fields.insert(key.clone(), default.clone());
            }
            (Some(Value::Mapping(inner)), Value::Mapping(default)) => fill(inner, default),
            (Some(_), _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(yaml: &str) -> Value {
        serde_yaml::from_str(yaml).expect("YAML")
    }

    #[test]
    fn an_unknown_field_is_found_at_any_depth() {
        let (path, known) = unknown(&value("search: {max_cache: {bytez: 1}}"), &job_template(), "")
            .expect("bytez is unknown");
        assert_eq!(path, "search.max_cache.bytez");
        assert_eq!(known, ["context", "batch", "bytes"]);
    }

    #[test]
    fn the_template_knows_every_part() {
        for template in [job_template(), space_template()] {
            assert_eq!(unknown(&template, &template, ""), None);
            assert!(!format!("{template:?}").contains("Null"), "an optional part is not filled in");
        }
    }

    #[test]
    fn filling_keeps_what_is_there() {
        let (mut fields, defaults) = (value("{a: {x: 1}}"), value("{a: {x: 2, y: 3}, b: 4}"));
        let (Value::Mapping(inner), Value::Mapping(defaults)) = (&mut fields, &defaults) else { panic!() };
        fill(inner, defaults);
        assert_eq!(fields, value("{a: {x: 1, y: 3}, b: 4}"));
    }
}
