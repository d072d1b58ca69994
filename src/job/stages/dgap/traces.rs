use super::super::StageError;
use super::super::session::Session;
use super::folder;
use crate::dgap::{HELD, Setting, Traced, TracedDocument, TracedEntry, TracedMeta, observe};
use crate::model::{Decoder, DecoderBackend, ModelError};
use crate::parallel::in_order;
use crate::score::simulation;
use crate::trace::{Document, Trace};

/// The quantized trace of a setting, made unless it is there already from the same inputs; `suffix` tells its file
/// from those of other traces.
pub(super) fn traced<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    trace: &Trace,
    setting: &Setting,
    layers: &[usize],
    suffix: &str,
) -> Result<Traced, StageError> {
    let path = folder(session, setting).join(file_name(layers, suffix));
    let meta = meta(session, trace, setting, layers);
    if path.exists()
        && let Ok(traced) = Traced::read(&path)
        && traced.meta == meta
    {
        return Ok(traced);
    }
    write(session, decoder, trace, &meta, &path)?;
    Ok(Traced::read(&path)?)
}

fn file_name(layers: &[usize], suffix: &str) -> String {
    let layers: String = layers.iter().map(|layer| format!("-{layer}")).collect();
    format!("trace{layers}{suffix}.safetensors")
}

fn meta(session: &Session<'_>, trace: &Trace, setting: &Setting, layers: &[usize]) -> TracedMeta {
    let entry = |document: &Document| TracedEntry {
        id: document.id.clone(),
        domain: document.domain.clone(),
        split: document.split,
        positions: document.positions(),
    };
    TracedMeta {
        format: TracedMeta::FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model_id: session.resolved.id.clone(),
        model_fingerprint: session.fingerprint.clone(),
        seed: session.job.trace.seed,
        trace_key: trace.content_key(),
        setting: setting.clone(),
        layers: layers.to_vec(),
        hidden_size: trace.meta.hidden_size,
        vocab_size: trace.meta.vocab_size,
        held: HELD.min(trace.meta.vocab_size),
        documents: trace.documents.iter().map(entry).collect(),
    }
}

fn write<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    trace: &Trace,
    meta: &TracedMeta,
    path: &std::path::Path,
) -> Result<(), StageError> {
    let (observer, threads) = (session.observer(), session.context.threads);
    let longest = trace.documents.iter().map(|document| document.tokens.len()).max().unwrap_or(0);
    let simulation = simulation(decoder, &meta.setting.scheme, longest).map_err(ModelError::from)?;
    observer.begin(&format!("run {}", meta.setting.name), trace.documents.len() as u64, "documents");
    // As many documents are in memory as there are threads.
    let mut ready: Vec<TracedDocument> = Vec::new();
    Traced::write(path, meta, |index| {
        if ready.is_empty() {
            let some = &trace.documents[index..(index + threads.max(1)).min(trace.documents.len())];
            ready = in_order(threads, some.len(), |at| {
                if observer.interrupted() {
                    return Err(StageError::Interrupted);
                }
                let map = &meta.setting.map;
                let document = observe(decoder, &simulation, map, &some[at], meta.held, &meta.layers)?;
                observer.advance(1);
                Ok(document)
            })?;
            ready.reverse();
        }
        ready.pop().ok_or(StageError::Interrupted)
    })?;
    observer.end(&format!("{}: {} positions beside full precision", meta.setting.name, trace.positions()));
    Ok(())
}
