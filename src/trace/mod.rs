//! The calibration artifact: prompts, the full-precision model's own continuation, and what it computed
//! there.
//!
//! [`record`] makes a [`Trace`] with any model that is [`Continue`]; [`Trace::write`] and [`Trace::read`]
//! keep it as `trace.safetensors`, whose layout `file/mod.rs` describes. Search, scores and everything later read
//! the same trace. Knows nothing of quantization.

mod decoder;
mod document;
mod error;
mod file;
mod key;
mod meta;
mod params;
mod record;
mod top;

pub use document::{Document, Split, short_sequences};
pub use error::TraceError;
pub use meta::{FORMAT, TOP, TraceMeta};
pub use params::{TraceParams, TraceParamsError};
pub use record::{
    BareDocument, Continue, EncodedPrompt, RecordError, record, record_continuation, record_document,
};
pub use top::{log_sum_exp, top_k};

/// Everything that was recorded of one model on one task.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Where it comes from.
    pub meta: TraceMeta,
    /// In the order of the prompts.
    pub documents: Vec<Document>,
}

impl Trace {
    /// The documents that one stage may look at.
    pub fn split(&self, split: Split) -> impl Iterator<Item = &Document> {
        self.documents.iter().filter(move |document| document.split == split)
    }

    /// Scored positions of all documents.
    pub fn positions(&self) -> usize {
        self.documents.iter().map(Document::positions).sum()
    }
}

#[cfg(test)]
mod example;
