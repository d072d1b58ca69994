use std::ops::ControlFlow;

use super::session::Session;
use super::{Outcome, StageError};
use crate::cache::FullCache;
use crate::model::{
    Angles, BosPolicy, Decoder, DecoderBackend, LayerWork, ModelError, OpenLayer, Tensor2, Tokenizer,
    generate, to_host,
};
use crate::progress::Observer;
use crate::tasks::{Prompt, prompts};
use crate::trace::{
    BareDocument, Document, EncodedPrompt, FORMAT, RecordError, Split, TOP, Trace, TraceMeta,
};

/// Records the job's prompts and the model's continuation of them.
pub(super) fn run<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
) -> Result<Outcome, StageError> {
    let trace = of_splits(session, decoder, &|_| true)?;
    trace.warnings().iter().for_each(|warning| session.observer().warn(warning));
    warn_if_uncoded(session, &trace);
    let path = session.file("trace.safetensors");
    trace.write(&path)?;
    let summary = format!(
        "{} documents of {}, {} positions; {}",
        trace.documents.len(),
        trace.meta.task.name,
        trace.positions(),
        trace.meta.bos
    );
    Ok(Outcome { files: vec![path], summary: vec![summary] })
}

/// The trace of the job's prompts of some splits, held in memory.
pub(super) fn of_splits<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    wanted: &dyn Fn(Split) -> bool,
) -> Result<Trace, StageError> {
    let tokenizer = session.tokenizer()?;
    let spec = session.job.trace.task_spec();
    let mut prompts = prompts(&spec, &|text| tokenizer.count_from_start(text))?;
    prompts.retain(|(split, _)| wanted(*split));
    let encoded = encode(&tokenizer, prompts)?;
    check_context(session, &encoded)?;
    record(session, decoder, &encoded, meta(session, &tokenizer))
}

fn encode(tokenizer: &Tokenizer, prompts: Vec<(Split, Prompt)>) -> Result<Vec<EncodedPrompt>, StageError> {
    let encode = |(split, prompt): (Split, Prompt)| {
        let tokens = tokenizer.encode_from_start(&prompt.text, BosPolicy::Auto)?;
        Ok(EncodedPrompt { id: prompt.id, domain: prompt.domain.to_owned(), split, tokens })
    };
    prompts.into_iter().map(encode).collect()
}

fn check_context(session: &Session<'_>, prompts: &[EncodedPrompt]) -> Result<(), StageError> {
    let longest = prompts.iter().map(|prompt| prompt.tokens.len()).max().unwrap_or(0);
    let (needed, held) =
        (longest + session.job.trace.max_new_tokens, session.checkpoint.config().max_position_embeddings);
    if needed <= held {
        return Ok(());
    }
    Err(StageError::Unmet {
        message: format!(
            "the longest prompt has {longest} tokens and may grow to {needed}, but `{}` is made for {held}",
            session.resolved.id
        ),
        hint: Some("lower `trace.min_tokens` or `trace.max_new_tokens`".into()),
    })
}

fn meta(session: &Session<'_>, tokenizer: &Tokenizer) -> TraceMeta {
    let config = session.checkpoint.config();
    let bos = match tokenizer.bos(BosPolicy::Auto).and_then(|id| Some((id, tokenizer.token(id)?))) {
        Some((id, token)) => format!("BOS {token} ({id}) stands first, as the tokenizer says"),
        None => "no BOS, as the tokenizer says".to_owned(),
    };
    TraceMeta {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model_id: session.resolved.id.clone(),
        model_fingerprint: session.fingerprint.clone(),
        n_layers: config.num_hidden_layers,
        hidden_size: config.hidden_size,
        vocab_size: config.vocab_size,
        task: session.job.trace.task_spec(),
        bos,
        prompt_template: "plain".to_owned(),
        top: TOP.min(config.vocab_size),
        max_new_tokens: session.job.trace.max_new_tokens,
    }
}

/// Continues all prompts side by side, then records each in one pass.
fn record<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    prompts: &[EncodedPrompt],
    meta: TraceMeta,
) -> Result<Trace, StageError> {
    let (observer, threads) = (session.observer(), session.context.threads);
    let continuations = continue_all(session, decoder, prompts, meta.max_new_tokens)?;
    observer.begin("trace", prompts.len() as u64, "documents");
    let work = Recording { decoder, prompts, continuations: &continuations, meta: &meta, observer };
    let documents = decoder.walk(&work, prompts.len(), threads)?;
    let trace = Trace { meta, documents };
    observer.end(&format!("{} documents, {} positions", trace.documents.len(), trace.positions()));
    Ok(trace)
}

/// A unit is one prompt with its continuation.
struct Recording<'a, B: DecoderBackend> {
    decoder: &'a Decoder<B>,
    prompts: &'a [EncodedPrompt],
    continuations: &'a [Vec<u32>],
    meta: &'a TraceMeta,
    observer: &'a dyn Observer,
}

impl<B: DecoderBackend> LayerWork<B> for Recording<'_, B> {
    type State = (BareDocument, Tensor2<B>, Angles);
    type Output = Document;
    type Error = StageError;

    fn size(&self, unit: usize) -> usize {
        let tokens = self.prompts[unit].tokens.len() + self.continuations[unit].len();
        tokens * self.decoder.config().hidden_size
    }

    fn begin(&self, unit: usize) -> Result<Self::State, StageError> {
        let bare = BareDocument::new(&self.prompts[unit], &self.continuations[unit], self.meta);
        let bare = bare.map_err(refused)?;
        let (hidden, angles) = (self.decoder.embed(bare.read()), self.decoder.angles(0, bare.read().len()));
        Ok((bare, hidden, angles))
    }

    fn layer(
        &self,
        layer: &OpenLayer<'_, B>,
        (_, hidden, angles): &mut Self::State,
    ) -> Result<(), StageError> {
        if self.observer.interrupted() {
            return Err(StageError::Interrupted);
        }
        let window = self.decoder.config().sliding_window[layer.index()];
        let mut cache = FullCache::new(self.decoder.shape(), window);
        *hidden = layer.forward(hidden.clone(), angles, &mut cache)?;
        Ok(())
    }

    fn end(&self, _unit: usize, (bare, hidden, _): Self::State) -> Result<Document, StageError> {
        let (from, rows) = (bare.from(), bare.read().len() - bare.from());
        let hidden = to_host(self.decoder.final_norm(hidden).narrow(0, from, rows));
        let document = bare.fill(self.decoder, hidden, self.meta).map_err(refused)?;
        self.observer.advance(1);
        Ok(document)
    }
}

fn refused(error: RecordError<ModelError>) -> StageError {
    match error {
        RecordError::Model { source, .. } => StageError::Model(source),
        error => StageError::Unmet { message: error.to_string(), hint: None },
    }
}

fn continue_all<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    prompts: &[EncodedPrompt],
    max_new: usize,
) -> Result<Vec<Vec<u32>>, StageError> {
    let (observer, threads) = (session.observer(), session.context.threads);
    observer.begin("generate", (prompts.len() * max_new) as u64, "tokens");
    let each = |_, _| {
        observer.advance(1);
        if observer.interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let tokens: Vec<&[u32]> = prompts.iter().map(|prompt| &prompt.tokens[..]).collect();
    let caches = || decoder.full_caches();
    let continuations = generate::greedy_many(decoder, caches, &tokens, max_new, threads, &each)?;
    if observer.interrupted() {
        return Err(StageError::Interrupted);
    }
    observer.end(&format!("{} tokens", continuations.iter().map(Vec::len).sum::<usize>()));
    Ok(continuations)
}

/// Under this share of coded elements a short sequence says little about its codes.
const ENOUGH_CODED: f64 = 0.8;

fn warn_if_uncoded(session: &Session<'_>, trace: &Trace) {
    let scheme = &session.job.search_space.scheme;
    let lengths = trace.documents.iter().map(|document| document.tokens.len());
    let share = lengths.map(|len| scheme.coded_share(len)).fold(1.0, f64::min);
    if share < ENOUGH_CODED {
        session.observer().warn(&format!(
            "only {:.0} % of the cache elements of the shortest sequence are coded (sinks and residual are \
             exact): raise `trace.min_tokens`",
            100.0 * share
        ));
    }
}
