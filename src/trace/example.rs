//! A small trace that is right in every respect, for tests to keep or to break.

use super::{Document, FORMAT, Split, Trace, TraceMeta};
use crate::tasks::TaskSpec;

/// Five tokens in the vocabulary, two largest logits, three hidden channels; two and one positions.
pub(super) fn trace() -> Trace {
    let meta = TraceMeta {
        format: FORMAT,
        version: "0.1.0".into(),
        model_id: "tiny".into(),
        model_fingerprint: "ab".repeat(32),
        n_layers: 2,
        hidden_size: 3,
        vocab_size: 5,
        task: TaskSpec::named("narrative"),
        bos: "none".into(),
        prompt_template: "raw".into(),
        top: 2,
        max_new_tokens: 8,
    };
    let first = Document {
        id: "search-000".into(),
        domain: "prose".into(),
        split: Split::Search,
        tokens: vec![1, 4, 0, 3],
        prompt_len: 2,
        top_ids: vec![0, 2, 3, 4],
        top_logits: vec![1.5, 0.5, 2.0, 2.0],
        log_sum_exp: vec![2.25, 3.0],
        hidden: vec![0.0, -1.0, 2.0, 0.5, 0.25, -0.0],
    };
    let second = Document {
        id: "test-000".into(),
        domain: "prose".into(),
        split: Split::Test,
        tokens: vec![2, 2, 1],
        prompt_len: 2,
        top_ids: vec![1, 0],
        top_logits: vec![0.0, -7.0],
        log_sum_exp: vec![0.5],
        hidden: vec![1.0, 1.0, 1.0],
    };
    Trace { meta, documents: vec![first, second] }
}
