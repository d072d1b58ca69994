//! `trace.safetensors`.
//!
//! With P scored positions and N tokens over all documents, and T = tokens − prompt_len of each document:
//!
//! | tensor | type, shape | rows |
//! |---|---|---|
//! | `tokens` | u32 `[N]` | prompt and continuation, document after document |
//! | `top_ids` | u32 `[P, top]` | T rows of each document, in the same order |
//! | `top_logits` | f32 `[P, top]` | likewise |
//! | `log_sum_exp` | f32 `[P]` | likewise |
//! | `hidden` | f32 `[P, hidden_size]` | likewise; last in the file |
//!
//! A document's rows are one range of each tensor, and its start is the sum of the T before it, so that a
//! mapped file of any length can be read document by document. The header's `__metadata__` has one entry,
//! `kvtune`: JSON of `{meta, documents}`, where a document is its id, domain, split, prompt_len and number of
//! tokens. One entry, because the order of several would not be fixed; equal traces are equal files.

mod check;
mod read;
mod write;

use serde::{Deserialize, Serialize};

use super::{Document, Split, TraceMeta};

/// The entry of `__metadata__`.
const ENTRY: &str = "kvtune";

const TOKENS: &str = "tokens";
const TOP_IDS: &str = "top_ids";
const TOP_LOGITS: &str = "top_logits";
const LOG_SUM_EXP: &str = "log_sum_exp";
const HIDDEN: &str = "hidden";

/// What the entry holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    meta: TraceMeta,
    documents: Vec<DocumentEntry>,
}

/// A document without its tables.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentEntry {
    id: String,
    domain: String,
    split: Split,
    prompt_len: usize,
    tokens: usize,
}

impl DocumentEntry {
    fn of(document: &Document) -> Self {
        Self {
            id: document.id.clone(),
            domain: document.domain.clone(),
            split: document.split,
            prompt_len: document.prompt_len,
            tokens: document.tokens.len(),
        }
    }
}

#[cfg(test)]
mod tests;
