use std::collections::HashSet;
use std::fmt::Display;
use std::path::Path;

use super::super::{Document, FORMAT, Trace, TraceError};

/// Holds a trace to everything that its readers rely on.
pub(super) fn trace(trace: &Trace, path: &Path) -> Result<(), TraceError> {
    let meta = &trace.meta;
    if meta.format != FORMAT {
        return Err(TraceError::Format { path: path.to_owned(), found: meta.format.to_string() });
    }
    if meta.hidden_size == 0 {
        return Err(damaged(path, "hidden_size", 0, "at least 1"));
    }
    if !(1..=meta.vocab_size).contains(&meta.top) {
        let expected = format!("1 to {} (`vocab_size`)", meta.vocab_size);
        return Err(damaged(path, "top", meta.top, expected));
    }
    let mut ids = HashSet::new();
    for document in &trace.documents {
        if !ids.insert(&document.id) {
            return Err(damaged(path, "documents", format!("`{}` twice", document.id), "one of each"));
        }
        Check { trace, document, path }.document()?;
    }
    Ok(())
}

/// The error, with the values as they print.
pub(super) fn damaged(path: &Path, key: &str, found: impl Display, expected: impl Display) -> TraceError {
    TraceError::Damaged {
        path: path.to_owned(),
        key: key.to_owned(),
        found: found.to_string(),
        expected: expected.to_string(),
    }
}

struct Check<'a> {
    trace: &'a Trace,
    document: &'a Document,
    path: &'a Path,
}

impl Check<'_> {
    fn document(&self) -> Result<(), TraceError> {
        let Document { tokens, prompt_len, .. } = self.document;
        if !(1..tokens.len()).contains(prompt_len) {
            let expected = format!("at least 1 and less than its {} tokens", tokens.len());
            return Err(self.damaged("prompt_len", prompt_len, expected));
        }
        self.lengths()?;
        self.ids("tokens", tokens)?;
        self.ids("top_ids", &self.document.top_ids)?;
        self.finite("top_logits", &self.document.top_logits)?;
        self.finite("log_sum_exp", &self.document.log_sum_exp)?;
        self.finite("hidden", &self.document.hidden)?;
        self.order()
    }

    fn lengths(&self) -> Result<(), TraceError> {
        let (meta, document) = (&self.trace.meta, self.document);
        let positions = document.positions();
        for (key, found, width) in [
            ("top_ids", document.top_ids.len(), meta.top),
            ("top_logits", document.top_logits.len(), meta.top),
            ("log_sum_exp", document.log_sum_exp.len(), 1),
            ("hidden", document.hidden.len(), meta.hidden_size),
        ] {
            if Some(found) != positions.checked_mul(width) {
                return Err(self.damaged(
                    key,
                    format!("{found} values long"),
                    format!("{positions} rows of {width}"),
                ));
            }
        }
        Ok(())
    }

    fn ids(&self, key: &str, ids: &[u32]) -> Result<(), TraceError> {
        let vocab_size = self.trace.meta.vocab_size;
        match ids.iter().find(|&&id| id as usize >= vocab_size) {
            None => Ok(()),
            Some(id) => Err(self.damaged(key, id, format!("a token id below {vocab_size}"))),
        }
    }

    fn finite(&self, key: &str, values: &[f32]) -> Result<(), TraceError> {
        match values.iter().find(|value| !value.is_finite()) {
            None => Ok(()),
            Some(value) => Err(self.damaged(key, value, "a finite number")),
        }
    }

    /// Largest first, ties by id; and no logit above the log of the sum of all.
    fn order(&self) -> Result<(), TraceError> {
        let Document { top_ids, top_logits, log_sum_exp, .. } = self.document;
        let top = self.trace.meta.top;
        let rows = top_ids.chunks_exact(top).zip(top_logits.chunks_exact(top)).zip(log_sum_exp);
        for ((ids, logits), &log_sum_exp) in rows {
            let mut pairs = ids.windows(2).zip(logits.windows(2));
            let falls = |(id, logit): (&[u32], &[f32])| {
                logit[0] > logit[1] || (logit[0] >= logit[1] && id[0] < id[1])
            };
            if !pairs.all(falls) {
                return Err(self.damaged("top_logits", "out of order", "the largest first, ties by id"));
            }
            if log_sum_exp < logits[0] {
                let expected = format!("at least the largest logit, {}", logits[0]);
                return Err(self.damaged("log_sum_exp", log_sum_exp, expected));
            }
        }
        Ok(())
    }

    fn damaged(&self, key: &str, found: impl Display, expected: impl Display) -> TraceError {
        damaged(self.path, &format!("{key}` of document `{}", self.document.id), found, expected)
    }
}
