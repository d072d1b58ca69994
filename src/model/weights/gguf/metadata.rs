use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rlx_gguf::MetaValue;

use crate::model::ModelError;

/// Metadata of a GGUF file, read by type.
///
/// A key that is absent is `None`; one of another type is an error that names it.
#[derive(Debug)]
pub(crate) struct Metadata {
    path: PathBuf,
    values: HashMap<String, MetaValue>,
}

impl Metadata {
    pub(super) fn new(path: &Path, values: HashMap<String, MetaValue>) -> Self {
        Self { path: path.to_path_buf(), values }
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>, ModelError> {
        self.read(key, "a text", |value| match value {
            MetaValue::String(text) => Some(text.as_str()),
            _ => None,
        })
    }

    pub(crate) fn required_text(&self, key: &str) -> Result<&str, ModelError> {
        self.text(key)?.ok_or_else(|| self.missing(key, "a text"))
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, ModelError> {
        self.read(key, "true or false", |value| match value {
            MetaValue::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, ModelError> {
        self.read(key, "a number", |value| match value {
            MetaValue::F32(number) => Some(shortest(*number)),
            MetaValue::F64(number) => Some(*number),
            other => whole(other).map(|number| number as f64),
        })
    }

    /// A count; a list of one count per layer is read where all are the same.
    pub(crate) fn size(&self, key: &str) -> Result<Option<usize>, ModelError> {
        self.read(key, "a number, 0 or more, the same for all layers", |value| match value {
            MetaValue::Array(values) => {
                let first = whole(values.first()?)?;
                let same = values.iter().all(|value| whole(value) == Some(first));
                same.then(|| usize::try_from(first).ok()).flatten()
            }
            single => usize::try_from(whole(single)?).ok(),
        })
    }

    pub(crate) fn texts(&self, key: &str) -> Result<Option<Vec<&str>>, ModelError> {
        self.read(key, "a list of texts", |value| match value {
            MetaValue::Array(values) => values.iter().map(MetaValue::as_str).collect(),
            _ => None,
        })
    }

    pub(crate) fn sizes(&self, key: &str) -> Result<Option<Vec<u64>>, ModelError> {
        self.read(key, "a list of numbers, 0 or more", |value| match value {
            MetaValue::Array(values) => values.iter().map(whole).collect(),
            _ => None,
        })
    }

    pub(crate) fn missing(&self, key: &str, expected: &str) -> ModelError {
        ModelError::key(&self.path, key, "missing", expected)
    }

    fn read<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'a MetaValue) -> Option<T>,
    ) -> Result<Option<T>, ModelError> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        let wrong = || ModelError::key(&self.path, key, describe(value), expected);
        read(value).map(Some).ok_or_else(wrong)
    }
}

/// The decimal number that was meant: 1e-5 stored as f32 is 1e-5, not 9.99999974737875e-6.
fn shortest(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::from(number))
}

fn whole(value: &MetaValue) -> Option<u64> {
    match *value {
        MetaValue::U8(number) => Some(number.into()),
        MetaValue::U16(number) => Some(number.into()),
        MetaValue::U32(number) => Some(number.into()),
        MetaValue::U64(number) => Some(number),
        MetaValue::I8(number) => number.try_into().ok(),
        MetaValue::I16(number) => number.try_into().ok(),
        MetaValue::I32(number) => number.try_into().ok(),
        MetaValue::I64(number) => number.try_into().ok(),
        _ => None,
    }
}

fn describe(value: &MetaValue) -> String {
    match value {
        MetaValue::Array(values) => format!("a list of {}", values.len()),
        MetaValue::String(text) => format!("`{}`", text.chars().take(60).collect::<String>()),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(value: MetaValue) -> Metadata {
        Metadata::new(Path::new("m.gguf"), HashMap::from([("k".into(), value)]))
    }

    #[test]
    fn per_layer_counts_are_read_where_all_are_the_same() {
        let list = |counts: [u32; 3]| metadata(MetaValue::Array(counts.map(MetaValue::U32).to_vec()));
        assert_eq!(list([8, 8, 8]).size("k").expect("a count"), Some(8));
        let error = list([8, 4, 8]).size("k").expect_err("layers that differ").to_string();
        assert!(error.contains("`m.gguf`: `k` is a list of 3"), "{error}");
    }

    #[test]
    fn a_number_in_f32_is_the_decimal_that_was_meant() {
        assert_eq!(metadata(MetaValue::F32(1e-5)).number("k").expect("a number"), Some(1e-5));
    }

    #[test]
    fn a_negative_count_is_an_error_and_an_absent_key_is_none() {
        let metadata = metadata(MetaValue::I32(-1));
        assert!(metadata.size("k").is_err());
        assert_eq!(metadata.size("other").expect("absent"), None);
    }
}
