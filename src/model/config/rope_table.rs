//! `rope_parameters` of `config.json`, or `rope_scaling` in its older spelling.

use std::path::Path;

use serde_json::{Map, Value};

use super::rope::yarn_attention_factor;
use super::{Rope, Scaling};
use crate::model::ModelError;

/// The table that describes the rotary embedding, and where it stands.
pub(super) struct RopeTable<'a> {
    pub(super) path: &'a Path,
    /// The key in `config.json`.
    pub(super) prefix: &'static str,
    pub(super) table: Map<String, Value>,
}

impl RopeTable<'_> {
    pub(super) fn refuse_partial(&self) -> Result<(), ModelError> {
        let key = "partial_rotary_factor";
        match self.number(key)?.filter(|&factor| is_partial(factor)) {
            None => Ok(()),
            Some(factor) => Err(self.wrong(key, factor, "1: all channels of a head turn")),
        }
    }

    pub(super) fn scaling(&self, max_position_embeddings: usize) -> Result<Scaling, ModelError> {
        match self.kind()? {
            "default" => Ok(Scaling::Default),
            "linear" => Ok(Scaling::Linear { factor: self.factor()? }),
            "llama3" => Ok(Scaling::Llama3 {
                factor: self.factor()?,
                low_freq_factor: self.required("low_freq_factor")?,
                high_freq_factor: self.required("high_freq_factor")?,
                original_max_position_embeddings: self.original_context(max_position_embeddings)?,
            }),
            "yarn" => self.yarn(max_position_embeddings),
            unknown => {
                Err(self.wrong("rope_type", format!("`{unknown}`"), format!("one of {}", Rope::KNOWN)))
            }
        }
    }

    /// `rope_type`, or `type` as older files spell it.
    fn kind(&self) -> Result<&str, ModelError> {
        let found = self.table.get("rope_type").or_else(|| self.table.get("type"));
        match found {
            None | Some(Value::Null) if self.table.contains_key("factor") => {
                Err(self.wrong("rope_type", "missing", format!("one of {}", Rope::KNOWN)))
            }
            None | Some(Value::Null) => Ok("default"),
            Some(Value::String(kind)) => Ok(kind),
            Some(other) => Err(self.wrong("rope_type", other, format!("one of {}", Rope::KNOWN))),
        }
    }

    fn yarn(&self, max_position_embeddings: usize) -> Result<Scaling, ModelError> {
        let original = self.original_context(max_position_embeddings)?;
        let factor = match self.number("factor")? {
            Some(_) => self.factor()?,
            None => max_position_embeddings as f64 / original as f64,
        };
        let (mscale, mscale_all_dim) = (self.number("mscale")?, self.number("mscale_all_dim")?);
        let set = |value: Option<f64>, default| value.filter(|&v| v != 0.0).unwrap_or(default);
        Ok(Scaling::Yarn {
            factor,
            original_max_position_embeddings: original,
            beta_fast: set(self.number("beta_fast")?, 32.0),
            beta_slow: set(self.number("beta_slow")?, 1.0),
            truncate: self.table.get("truncate").and_then(Value::as_bool).unwrap_or(true),
            attention_factor: self
                .number("attention_factor")?
                .unwrap_or_else(|| yarn_attention_factor(factor, mscale, mscale_all_dim)),
        })
    }

    fn factor(&self) -> Result<f64, ModelError> {
        let factor = self.required("factor")?;
        if factor >= 1.0 { Ok(factor) } else { Err(self.wrong("factor", factor, "1 or more")) }
    }

    fn original_context(&self, default: usize) -> Result<usize, ModelError> {
        match self.table.get("original_max_position_embeddings") {
            None | Some(Value::Null) => Ok(default),
            Some(value) => value
                .as_u64()
                .filter(|&tokens| tokens > 0 && tokens <= 1 << 28)
                .map(|tokens| tokens as usize)
                .ok_or_else(|| self.wrong("original_max_position_embeddings", value, "a number of tokens")),
        }
    }

    fn required(&self, key: &str) -> Result<f64, ModelError> {
        self.number(key)?.ok_or_else(|| self.wrong(key, "missing", "a number"))
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, ModelError> {
        match self.table.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or_else(|| self.wrong(key, value, "a number")),
        }
    }

    fn wrong(&self, key: &str, found: impl std::fmt::Display, expected: impl Into<String>) -> ModelError {
        ModelError::key(self.path, &format!("{}.{key}", self.prefix), found, expected)
    }
}

/// Whether only some channels of a head turn.
pub(super) fn is_partial(factor: f64) -> bool {
    (factor - 1.0).abs() > f64::EPSILON
}
