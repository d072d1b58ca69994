//! How a trace comes about: greedy generation, then one teacher-forced pass.

mod error;

use std::error::Error;

use rayon::prelude::*;

use super::{Document, Split, Trace, TraceMeta, log_sum_exp, short_sequences, top_k};
use crate::progress::Observer;

pub use error::RecordError;

/// Logits held at once, 64 MiB of them: a large vocabulary is read in few rows, a small one in many.
const LOGITS_AT_ONCE: usize = 1 << 24;

/// The full-precision model, as far as a recorder needs it.
pub trait Continue {
    /// What can go wrong in it.
    type Error: Error + Send + Sync + 'static;

    /// The greedy continuation of `prompt`, at most `max_new` tokens; EOS, where it comes, is the last one.
    ///
    /// # Errors
    /// The model's own.
    fn continue_greedily(&self, prompt: &[u32], max_new: usize) -> Result<Vec<u32>, Self::Error>;

    /// Hidden states after the final norm at positions `from..tokens.len()`, in one pass:
    /// `[len − from, hidden_size]`.
    ///
    /// # Errors
    /// The model's own.
    fn hidden_states(&self, tokens: &[u32], from: usize) -> Result<Vec<f32>, Self::Error>;

    /// Logits of such rows: `[rows, hidden_size]` → `[rows, vocab_size]`.
    ///
    /// # Errors
    /// The model's own.
    fn logits(&self, hidden: &[f32]) -> Result<Vec<f32>, Self::Error>;
}

/// A prompt as the model reads it: template and BOS applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedPrompt {
    /// Of the document it becomes.
    pub id: String,
    /// `arithmetic`, `retrieval`, `prose`.
    pub domain: String,
    /// Who may look at the document.
    pub split: Split,
    /// At least one.
    pub tokens: Vec<u32>,
}

/// Records every prompt, in order.
///
/// `meta` says how: `max_new_tokens`, `top` (lowered to the vocabulary where that is smaller) and the model's
/// sizes. Tells the observer the trace's [`Trace::warnings`]. Equal inputs give equal traces. A caller that
/// records documents in parallel uses [`record_document`].
///
/// # Errors
/// The first document's that fails, or [`RecordError::Interrupted`].
pub fn record<M: Continue>(
    model: &M,
    prompts: &[EncodedPrompt],
    mut meta: TraceMeta,
    observer: &dyn Observer,
) -> Result<Trace, RecordError<M::Error>> {
    meta.top = meta.top.min(meta.vocab_size);
    observer.begin("trace", prompts.len() as u64, "documents");
    let mut documents = Vec::with_capacity(prompts.len());
    for prompt in prompts {
        if observer.interrupted() {
            return Err(RecordError::Interrupted { done: documents.len(), total: prompts.len() });
        }
        documents.push(record_document(model, prompt, &meta)?);
        observer.advance(1);
    }
    let trace = Trace { meta, documents };
    trace.warnings().iter().for_each(|warning| observer.warn(warning));
    observer.end(&format!("{} documents, {} positions", trace.documents.len(), trace.positions()));
    Ok(trace)
}

impl Trace {
    /// What a user should know of it: sequences under 256 tokens, and a parallel pass that would have chosen
    /// other tokens than generation did in over 1 % of the positions.
    pub fn warnings(&self) -> Vec<String> {
        let positions = self.positions();
        let repeated: usize = self.documents.iter().map(Document::repeated_choices).sum();
        let others = positions - repeated;
        let others = (100 * others > positions).then(|| {
            format!(
                "one parallel pass chooses another token than generation at {others} of {positions} positions"
            )
        });
        short_sequences(&self.documents).into_iter().chain(others).collect()
    }
}

/// Records one prompt: its greedy continuation, then one teacher-forced pass over both.
///
/// EOS counts as a generated token, so that a continuation of EOS alone has one position. Of `meta` only
/// `top`, `max_new_tokens`, `hidden_size` and `vocab_size` are read.
///
/// # Errors
/// See [`RecordError`].
pub fn record_document<M: Continue>(
    model: &M,
    prompt: &EncodedPrompt,
    meta: &TraceMeta,
) -> Result<Document, RecordError<M::Error>> {
    let fail = |source| RecordError::Model { id: prompt.id.clone(), source };
    check_prompt(prompt, meta)?;
    let continuation = model.continue_greedily(&prompt.tokens, meta.max_new_tokens).map_err(fail)?;
    record_continuation(model, prompt, &continuation, meta)
}

/// Records one prompt with a greedy continuation that is known already, as a caller has it who continued many
/// prompts at once.
///
/// # Errors
/// See [`RecordError`].
pub fn record_continuation<M: Continue>(
    model: &M,
    prompt: &EncodedPrompt,
    continuation: &[u32],
    meta: &TraceMeta,
) -> Result<Document, RecordError<M::Error>> {
    let bare = BareDocument::new(prompt, continuation, meta)?;
    let fail = |source| RecordError::Model { id: prompt.id.clone(), source };
    let hidden = model.hidden_states(bare.read(), bare.from()).map_err(fail)?;
    bare.fill(model, hidden, meta)
}

/// A prompt and its continuation, of which the teacher-forced pass is still to come.
pub struct BareDocument(Document);

impl BareDocument {
    /// Checks both.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn new<E: Error>(
        prompt: &EncodedPrompt,
        continuation: &[u32],
        meta: &TraceMeta,
    ) -> Result<Self, RecordError<E>> {
        check_prompt(prompt, meta)?;
        let EncodedPrompt { id, domain, split, tokens } = prompt;
        if continuation.is_empty() {
            let max_new_tokens = meta.max_new_tokens;
            return Err(RecordError::EmptyContinuation { id: id.clone(), max_new_tokens });
        }
        check_tokens(continuation, prompt, meta)?;
        Ok(Self(Document {
            id: id.clone(),
            domain: domain.clone(),
            split: *split,
            prompt_len: tokens.len(),
            tokens: [tokens.as_slice(), continuation].concat(),
            top_ids: Vec::new(),
            top_logits: Vec::new(),
            log_sum_exp: Vec::new(),
            hidden: Vec::new(),
        }))
    }

    /// The tokens of the pass: all but the last, which is only ever chosen, never read.
    pub fn read(&self) -> &[u32] {
        &self.0.tokens[..self.0.tokens.len() - 1]
    }

    /// The first position of the pass that is kept.
    pub fn from(&self) -> usize {
        self.0.prompt_len - 1
    }

    /// The document, from the hidden states of the pass at positions [`from`](Self::from) and later, behind the
    /// final norm.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn fill<M: Continue>(
        self,
        model: &M,
        hidden: Vec<f32>,
        meta: &TraceMeta,
    ) -> Result<Document, RecordError<M::Error>> {
        let rows_at_once = (LOGITS_AT_ONCE / meta.vocab_size).max(1); // a token is below it, so it is not 0
        fill_tables(model, self.0, hidden, meta, rows_at_once)
    }
}

/// What is kept of the pass; logits come `rows_at_once`.
fn fill_tables<M: Continue>(
    model: &M,
    mut document: Document,
    hidden: Vec<f32>,
    meta: &TraceMeta,
    rows_at_once: usize,
) -> Result<Document, RecordError<M::Error>> {
    let (id, from) = (document.id.clone(), document.prompt_len - 1);
    let fail = |source| RecordError::Model { id: id.clone(), source };
    check_table("hidden states", &hidden, document.positions(), meta.hidden_size, from, &id)?;
    let width = meta.hidden_size.max(1);
    for (chunk, rows) in hidden.chunks(rows_at_once * width).enumerate() {
        let logits = model.logits(rows).map_err(fail)?;
        let first = from + chunk * rows_at_once;
        check_table("logits", &logits, rows.len() / width, meta.vocab_size, first, &id)?;
        document.append(&logits, meta);
    }
    document.hidden = hidden;
    Ok(document)
}

impl Document {
    /// Condenses rows of logits, `[rows, vocab_size]`, and adds them to the tables.
    fn append(&mut self, logits: &[f32], meta: &TraceMeta) {
        let condensed: Vec<_> = logits
            .par_chunks_exact(meta.vocab_size)
            .map(|row| (top_k(row, meta.top), log_sum_exp(row)))
            .collect();
        for (top, log_sum_exp) in condensed {
            self.top_ids.extend(top.iter().map(|(id, _)| id));
            self.top_logits.extend(top.iter().map(|(_, logit)| logit));
            self.log_sum_exp.push(log_sum_exp as f32);
        }
    }
}

fn check_prompt<E: Error>(prompt: &EncodedPrompt, meta: &TraceMeta) -> Result<(), RecordError<E>> {
    if prompt.tokens.is_empty() {
        return Err(RecordError::EmptyPrompt { id: prompt.id.clone() });
    }
    check_tokens(&prompt.tokens, prompt, meta)
}

fn check_tokens<E: Error>(
    tokens: &[u32],
    prompt: &EncodedPrompt,
    meta: &TraceMeta,
) -> Result<(), RecordError<E>> {
    match tokens.iter().find(|&&token| token as usize >= meta.vocab_size) {
        None => Ok(()),
        Some(&token) => Err(RecordError::Token { id: prompt.id.clone(), token, vocab_size: meta.vocab_size }),
    }
}

/// Whether a table of the model has `rows × width` finite values; its first row belongs to position `first`.
fn check_table<E: Error>(
    what: &'static str,
    values: &[f32],
    rows: usize,
    width: usize,
    first: usize,
    id: &str,
) -> Result<(), RecordError<E>> {
    let expected = rows.saturating_mul(width);
    if values.len() != expected {
        return Err(RecordError::Size { id: id.to_owned(), what, found: values.len(), expected });
    }
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(RecordError::NotFinite { id: id.to_owned(), what, position: first + at / width }),
    }
}

#[cfg(test)]
mod tests;
