//! More positions to learn from than the job's trace has (**ours**).

use std::ops::ControlFlow;

use super::super::StageError;
use super::super::session::Session;
use crate::cache::{CacheKind, Units};
use crate::dgap::Setting;
use crate::model::generate::{Batch, LANES, continue_many};
use crate::model::{Decoder, DecoderBackend, ModelError, Sampling};
use crate::parallel::in_order;
use crate::score::simulation;
use crate::trace::{Document, EncodedPrompt, RecordError, Split, Trace, record_continuation};

/// Where more positions come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MorePositions {
    /// The prompts themselves: the first tokens of each are a short prompt, which the rest of it continues. Those of
    /// the search split are learned from, those of the select split stop training and set the threshold.
    pub prompts: bool,
    /// What the quantized model itself writes after the prompts of the search split.
    pub own_text: bool,
}

impl MorePositions {
    /// What tells a file of such a trace from others.
    pub(super) fn suffix(self) -> String {
        let part = |is_there: bool, name: &'static str| if is_there { name } else { "" };
        [part(self.prompts, "-prompts"), part(self.own_text, "-own")].concat()
    }
}

/// Tokens of a prompt that stay a prompt.
const KEPT: usize = 32;

/// What the names of documents end in that were made from another one's prompt.
const PROMPT: &str = "-prompt";
const OWN: &str = "-own";

/// The document that a document was made from, or itself.
pub(super) fn source(id: &str) -> &str {
    id.strip_suffix(PROMPT).or_else(|| id.strip_suffix(OWN)).unwrap_or(id)
}

/// A text to record: what is given, and what follows.
type Text = (EncodedPrompt, Vec<u32>);

/// The trace with more documents, scored at full precision as all others are.
pub(super) fn extended<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    trace: &Trace,
    setting: &Setting,
    more: MorePositions,
) -> Result<Trace, StageError> {
    let mut texts = Vec::new();
    if more.prompts {
        texts.extend(trace.split(Split::Search).chain(trace.split(Split::Select)).filter_map(own_prompt));
    }
    if more.own_text {
        texts.extend(own_text(session, decoder, trace, setting)?);
    }
    let documents = trace.documents.iter().cloned().chain(record(session, decoder, trace, &texts)?).collect();
    Ok(Trace { meta: trace.meta.clone(), documents })
}

/// The prompts of the test split as documents, and nothing else.
pub(super) fn test_prompts<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    trace: &Trace,
) -> Result<Trace, StageError> {
    let texts: Vec<Text> = trace.split(Split::Test).filter_map(own_prompt).collect();
    Ok(Trace { meta: trace.meta.clone(), documents: record(session, decoder, trace, &texts)? })
}

fn record<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    trace: &Trace,
    texts: &[Text],
) -> Result<Vec<Document>, StageError> {
    let (observer, meta) = (session.observer(), &trace.meta);
    observer.begin("record more", texts.len() as u64, "documents");
    let documents = in_order(session.context.threads, texts.len(), |index| {
        if observer.interrupted() {
            return Err(StageError::Interrupted);
        }
        let (prompt, text) = &texts[index];
        let recorded = record_continuation(decoder, prompt, text, meta);
        observer.advance(1);
        recorded.map_err(|error| match error {
            RecordError::Model { source, .. } => StageError::Model(source),
            error => StageError::Unmet { message: error.to_string(), hint: None },
        })
    })?;
    let positions: usize = documents.iter().map(Document::positions).sum();
    observer.end(&format!("{} more documents, {positions} positions", documents.len()));
    Ok(documents)
}

fn prompt(document: &Document, ending: &str, tokens: &[u32]) -> EncodedPrompt {
    EncodedPrompt {
        id: format!("{}{ending}", document.id),
        domain: document.domain.clone(),
        split: document.split,
        tokens: tokens.to_vec(),
    }
}

/// A prompt as a short prompt and what follows, if anything does.
fn own_prompt(document: &Document) -> Option<Text> {
    let tokens = &document.tokens[..document.prompt_len];
    (tokens.len() > KEPT).then(|| (prompt(document, PROMPT, &tokens[..KEPT]), tokens[KEPT..].to_vec()))
}

/// What the model writes with a quantized cache, greedily.
fn own_text<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    trace: &Trace,
    setting: &Setting,
) -> Result<Vec<Text>, StageError> {
    let observer = session.observer();
    let documents: Vec<&Document> = trace.split(Split::Search).collect();
    let prompts: Vec<&[u32]> =
        documents.iter().map(|document| &document.tokens[..document.prompt_len]).collect();
    let max_new = trace.meta.max_new_tokens;
    let longest = prompts.iter().map(|prompt| prompt.len()).max().unwrap_or(0) + max_new;
    let simulation = simulation(decoder, &setting.scheme, longest).map_err(ModelError::from)?;
    let caches = |index: usize| {
        let units = Units::prompt(prompts[index].len(), simulation.scheme().prefill);
        Ok(simulation.any(CacheKind::Simulated, &setting.map, &units)?)
    };
    let threads = session.context.threads;
    let batch = Batch { max_new, lanes: LANES, threads, sampling: Sampling::GREEDY };
    observer.begin(&format!("write with {}", setting.name), (prompts.len() * max_new) as u64, "tokens");
    let written = continue_many(decoder, caches, &prompts, &batch, |_| {
        observer.advance(1);
        if observer.interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if observer.interrupted() {
        return Err(StageError::Interrupted);
    }
    observer.end(&format!("{} tokens", written.iter().map(Vec::len).sum::<usize>()));
    let text = |(document, text): (&&Document, Vec<u32>)| {
        let tokens = &document.tokens[..document.prompt_len];
        (prompt(document, OWN, tokens), text)
    };
    Ok(documents.iter().zip(written).map(text).collect())
}
