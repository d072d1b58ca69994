use std::error::Error;
use std::fmt::Debug;

use rayon::prelude::*;

use super::{Document, Split, Trace, TraceMeta, log_sum_exp, short_sequences, top_k};
use crate::progress::Observer;

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

    /// Hidden states after the final norm at positions `from..tokens.len()`, in one pass: `[len − from, hidden_size]`.
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

/// Why a document could not be recorded; each but the last names it.
#[derive(Debug, thiserror::Error)]
pub enum RecordError<E: Error + 'static> {
    /// The model failed.
    #[error("the model failed on document `{id}`")]
    Model {
        /// The document.
        id: String,
        /// What it said.
        source: E,
    },
    /// The prompt has no token.
    #[error("the prompt of document `{id}` has no tokens, expected at least 1")]
    EmptyPrompt {
        /// The document.
        id: String,
    },
    /// The model generated nothing, not even EOS.
    #[error("the continuation of document `{id}` has no tokens, expected 1 to {max_new_tokens}")]
    EmptyContinuation {
        /// The document.
        id: String,
        /// As many as were asked for.
        max_new_tokens: usize,
    },
    /// A token that the model has no row for.
    #[error("document `{id}` has token {token}, but the vocabulary has {vocab_size}")]
    Token {
        /// The document.
        id: String,
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocab_size: usize,
    },
    /// The model's tables are not of the size it claims to have.
    #[error("document `{id}`: the model gave {found} values of {what}, expected {expected}")]
    Size {
        /// The document.
        id: String,
        /// Which table.
        what: &'static str,
        /// Its values.
        found: usize,
        /// Values it should have.
        expected: usize,
    },
    /// NaN or infinity.
    #[error("document `{id}`: {what} at position {position} are not finite")]
    NotFinite {
        /// The document.
        id: String,
        /// Which table.
        what: &'static str,
        /// Index into the document's tokens.
        position: usize,
    },
    /// The user asked to stop.
    #[error("interrupted after {done} of {total} documents")]
    Interrupted {
        /// Documents recorded and lost.
        done: usize,
        /// Documents asked for.
        total: usize,
    },
}

/// Records every prompt, in order.
///
/// `meta` says how: `max_new_tokens`, `top` (lowered to the vocabulary where that is smaller) and the model's sizes.
/// Tells the observer the trace's [`Trace::warnings`]. Equal inputs give equal traces. A caller that records
/// documents in parallel uses [`record_document`].
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
    /// What a user should know of it: sequences under 256 tokens, and a parallel pass that would have chosen other
    /// tokens than generation did in over 1 % of the positions.
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
/// EOS counts as a generated token, so that a continuation of EOS alone has one position. Of `meta` only `top`,
/// `max_new_tokens`, `hidden_size` and `vocab_size` are read.
///
/// # Errors
/// See [`RecordError`].
pub fn record_document<M: Continue>(
    model: &M,
    prompt: &EncodedPrompt,
    meta: &TraceMeta,
) -> Result<Document, RecordError<M::Error>> {
    let EncodedPrompt { id, domain, split, tokens } = prompt;
    let fail = |source| RecordError::Model { id: id.clone(), source };
    let Some(from) = tokens.len().checked_sub(1) else {
        return Err(RecordError::EmptyPrompt { id: id.clone() });
    };
    check_tokens(tokens, prompt, meta)?;
    let continuation = model.continue_greedily(tokens, meta.max_new_tokens).map_err(fail)?;
    if continuation.is_empty() {
        return Err(RecordError::EmptyContinuation { id: id.clone(), max_new_tokens: meta.max_new_tokens });
    }
    check_tokens(&continuation, prompt, meta)?;
    let tokens = [tokens.as_slice(), &continuation].concat();
    // The last token is only ever chosen, never read.
    let hidden = model.hidden_states(&tokens[..tokens.len() - 1], from).map_err(fail)?;
    check_table("hidden states", &hidden, continuation.len(), meta.hidden_size, from, id)?;
    let mut document = Document {
        id: id.clone(),
        domain: domain.clone(),
        split: *split,
        prompt_len: from + 1,
        tokens,
        top_ids: Vec::new(),
        top_logits: Vec::new(),
        log_sum_exp: Vec::new(),
        hidden: Vec::new(),
    };
    let rows_at_once = (LOGITS_AT_ONCE / meta.vocab_size.max(1)).max(1);
    for (chunk, rows) in hidden.chunks(rows_at_once * meta.hidden_size.max(1)).enumerate() {
        let logits = model.logits(rows).map_err(fail)?;
        let n_rows = rows.len() / meta.hidden_size.max(1);
        check_table("logits", &logits, n_rows, meta.vocab_size, from + chunk * rows_at_once, id)?;
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
mod tests {
    use std::sync::Mutex;

    use super::super::example;
    use super::*;
    use crate::progress::Silent;

    const EOS: u32 = 4;

    /// Counts upward in a vocabulary of 5, whose last token is EOS: the hidden state of a token is itself.
    #[derive(Default)]
    struct Counting {
        mute: bool,
        broken: Option<f32>,
        extra: usize,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("it never fails")]
    struct Never;

    impl Continue for Counting {
        type Error = Never;

        fn continue_greedily(&self, prompt: &[u32], max_new: usize) -> Result<Vec<u32>, Never> {
            let next = prompt.last().expect("the recorder refuses empty prompts") + 1;
            let all: Vec<_> = (next..=EOS).take(max_new).collect();
            Ok(if self.mute { Vec::new() } else { all })
        }

        fn hidden_states(&self, tokens: &[u32], from: usize) -> Result<Vec<f32>, Never> {
            let mut hidden: Vec<_> =
                tokens[from..].iter().flat_map(|&token| [token as f32, 0.5, -1.0]).collect();
            if let Some(broken) = self.broken {
                hidden[3] = broken;
            }
            hidden.resize(hidden.len() + self.extra, 0.0);
            Ok(hidden)
        }

        fn logits(&self, hidden: &[f32]) -> Result<Vec<f32>, Never> {
            let row = |state: &[f32]| {
                let next = state[0] + 1.0;
                [0.0, 1.0, 2.0, 3.0, 4.0].map(|id: f32| -(id - next).abs())
            };
            Ok(hidden.chunks(3).flat_map(row).collect())
        }
    }

    fn prompt(tokens: &[u32]) -> EncodedPrompt {
        EncodedPrompt {
            id: "search-000".into(),
            domain: "prose".into(),
            split: Split::Search,
            tokens: tokens.to_vec(),
        }
    }

    fn message(model: &Counting, tokens: &[u32]) -> String {
        let meta = example::trace().meta;
        record_document(model, &prompt(tokens), &meta).expect_err("it cannot be recorded").to_string()
    }

    #[test]
    fn row_t_chooses_token_t() {
        let document = record_document(&Counting::default(), &prompt(&[3, 0, 1]), &example::trace().meta)
            .expect("a document");
        assert_eq!((document.tokens.as_slice(), document.prompt_len), ([3, 0, 1, 2, 3, 4].as_slice(), 3));
        assert_eq!(document.positions(), 3);
        // Two largest of −|id − next|; the neighbors tie, the smaller id goes first.
        assert_eq!(document.top_ids, [2, 1, 3, 2, 4, 3]);
        assert_eq!(document.top_logits, [0.0, -1.0, 0.0, -1.0, 0.0, -1.0]);
        assert_eq!(document.hidden, [1.0, 0.5, -1.0, 2.0, 0.5, -1.0, 3.0, 0.5, -1.0]);
        // The last row: 1 + e⁻¹ + e⁻² + e⁻³ + e⁻⁴.
        let expected = (1.0 + [1.0_f32, 2.0, 3.0, 4.0].map(|n| (-n).exp()).iter().sum::<f32>()).ln();
        assert!((document.log_sum_exp[2] - expected).abs() < 1e-6);
        assert_eq!(document.repeated_choices(), 3);
    }

    #[test]
    fn a_continuation_of_eos_alone_is_one_position() {
        let document =
            record_document(&Counting::default(), &prompt(&[3]), &example::trace().meta).expect("a document");
        assert_eq!((document.tokens.as_slice(), document.positions()), ([3, EOS].as_slice(), 1));
    }

    #[test]
    fn a_model_that_breaks_its_word_is_an_error() {
        assert_eq!(
            message(&Counting::default(), &[]),
            "the prompt of document `search-000` has no tokens, expected at least 1"
        );
        assert_eq!(
            message(&Counting::default(), &[0, 9]),
            "document `search-000` has token 9, but the vocabulary has 5"
        );
        assert_eq!(
            message(&Counting { mute: true, ..Counting::default() }, &[1]),
            "the continuation of document `search-000` has no tokens, expected 1 to 8"
        );
        assert_eq!(
            message(&Counting { broken: Some(f32::NAN), ..Counting::default() }, &[0, 0]),
            "document `search-000`: hidden states at position 2 are not finite"
        );
        assert_eq!(
            message(&Counting { extra: 1, ..Counting::default() }, &[0]),
            "document `search-000`: the model gave 13 values of hidden states, expected 12"
        );
    }

    /// Keeps what it is told and stops after some documents.
    struct Listening {
        stop_after: u64,
        heard: Mutex<(u64, Vec<String>)>,
    }

    impl Observer for Listening {
        fn begin(&self, _stage: &str, _total: u64, _unit: &str) {}
        fn advance(&self, steps: u64) {
            self.heard.lock().expect("no test panicked holding it").0 += steps;
        }
        fn warn(&self, message: &str) {
            self.heard.lock().expect("no test panicked holding it").1.push(message.to_owned());
        }
        fn end(&self, summary: &str) {
            self.warn(summary);
        }
        fn interrupted(&self) -> bool {
            self.heard.lock().expect("no test panicked holding it").0 >= self.stop_after
        }
    }

    #[test]
    fn a_trace_holds_every_prompt_in_order_and_says_that_it_is_short() {
        let observer = Listening { stop_after: 9, heard: Mutex::default() };
        let prompts = [prompt(&[0]), prompt(&[2])];
        let meta = TraceMeta { top: 64, ..example::trace().meta };
        let trace = record(&Counting::default(), &prompts, meta, &observer).expect("a trace");
        assert_eq!((trace.meta.top, trace.positions()), (5, 4 + 2));
        let heard = observer.heard.into_inner().expect("no test panicked holding it");
        assert_eq!(heard.0, 2);
        assert!(heard.1[0].starts_with("2 of 2 sequences have fewer than 256 tokens"), "{:?}", heard.1);
        assert_eq!(heard.1[1..], ["2 documents, 6 positions"]);
    }

    #[test]
    fn choices_that_the_pass_does_not_repeat_are_counted() {
        let mut trace = example::trace();
        trace.documents[0].top_ids.swap(0, 1);
        assert_eq!(
            trace.warnings()[1],
            "one parallel pass chooses another token than generation at 1 of 3 positions"
        );
    }

    #[test]
    fn an_interrupted_recording_says_how_far_it_came() {
        let observer = Listening { stop_after: 1, heard: Mutex::default() };
        let prompts = [prompt(&[0]), prompt(&[2])];
        let error = record(&Counting::default(), &prompts, example::trace().meta, &observer)
            .expect_err("it was stopped");
        assert_eq!(error.to_string(), "interrupted after 1 of 2 documents");
    }

    #[test]
    fn a_recorded_trace_can_be_written_and_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.safetensors");
        let prompts = [prompt(&[0])];
        let trace = record(&Counting::default(), &prompts, example::trace().meta, &Silent).expect("a trace");
        trace.write(&path).expect("written");
        assert_eq!(Trace::read(&path).expect("read"), trace);
    }
}
