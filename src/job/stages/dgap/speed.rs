//! What heads cost while a model decodes, measured: one lane, packed cache.

use std::time::{Duration, Instant};

use super::super::StageError;
use super::eval::{Named, Work};
use crate::cache::{CacheKind, Units};
use crate::dgap::{Restorer, Setting};
use crate::model::restore::{Restore, Step};
use crate::model::{DecoderBackend, ModelError, Sampler, Sampling, to_host};
use crate::score::simulation;
use crate::trace::Document;

/// Tokens in the cache before the first step.
const CONTEXT: usize = 1024;
/// Steps that are timed.
const STEPS: usize = 32;

/// A step that was decoded, as heads get it.
struct Decoded {
    last: Vec<f32>,
    earlier: Vec<Vec<f32>>,
    logits: Vec<f32>,
    length: usize,
}

/// Times decoding with one setting's heads, a line to read.
pub(super) fn measure<B: DecoderBackend>(
    work: &Work<'_, B>,
    setting: &Setting,
    named: &Named,
) -> Result<String, StageError> {
    let tokens: Vec<u32> =
        work.trace.documents.iter().flat_map(|document: &Document| document.tokens.clone()).collect();
    let most = work.session.checkpoint.config().max_position_embeddings;
    let context = CONTEXT.min(tokens.len().saturating_sub(STEPS)).min(most.saturating_sub(STEPS)).max(1);
    let (steps, plain) = decode(work, setting, &named.heads.about.layers, &tokens, context)?;
    let with = |threshold: Option<f64>| -> Result<Duration, StageError> {
        let restorer = Restorer::new(&named.heads, &named.path, None, threshold, work.readout)?;
        Ok(restored(&restorer, &steps))
    };
    let (detector, gated, always) = (with(Some(f64::MAX))?, with(None)?, with(Some(0.0))?);
    let ratio = |more: Duration| 1.0 + more.as_secs_f64() / plain.as_secs_f64();
    let micro = |time: Duration| time.as_secs_f64() * 1e6;
    Ok(format!(
        "{:<6} a step at {context} tokens takes {:.0} µs; features and detector {:.0} µs more, `{}` at its threshold \
         {:.0} µs ({:.3} times), always {:.0} µs ({:.3} times)",
        setting.name,
        micro(plain),
        micro(detector),
        named.heads.about.corrector,
        micro(gated),
        ratio(gated),
        micro(always),
        ratio(always)
    ))
}

/// Steps after the context, and the median time of one.
fn decode<B: DecoderBackend>(
    work: &Work<'_, B>,
    setting: &Setting,
    layers: &[usize],
    tokens: &[u32],
    context: usize,
) -> Result<(Vec<Decoded>, Duration), StageError> {
    let decoder = work.decoder;
    let simulation = simulation(decoder, &setting.scheme, context + STEPS).map_err(ModelError::from)?;
    let units = Units::prompt(context, simulation.scheme().prefill);
    let caches = simulation.any(CacheKind::Packed, &setting.map, &units).map_err(ModelError::from)?;
    let mut lane = [caches];
    decoder.forward(&tokens[..context], &mut lane[0])?;
    let mut sampler = Sampler::new(Sampling::GREEDY, 0);
    let (mut steps, mut times) = (Vec::new(), Vec::new());
    for (at, &token) in tokens.iter().enumerate().skip(context).take(STEPS) {
        let start = Instant::now();
        let (last, tapped) = decoder.step_tapped(&[token], &mut lane, layers)?;
        let logits = to_host(decoder.logits(last.clone()));
        std::hint::black_box(sampler.choose(&logits));
        times.push(start.elapsed());
        let earlier = tapped.into_iter().map(to_host).collect();
        steps.push(Decoded { last: to_host(last), earlier, logits, length: at + 1 });
    }
    Ok((steps, median(times)))
}

/// Mean time of what heads do at a step, the cheapest of three rounds.
fn restored<B: DecoderBackend>(restorer: &Restorer<'_, B>, steps: &[Decoded]) -> Duration {
    let round = || {
        let mut history = restorer.begin(0);
        let mut spent = Duration::ZERO;
        for step in steps {
            let mut logits = step.logits.clone();
            let earlier: Vec<&[f32]> = step.earlier.iter().map(|states| &states[..]).collect();
            let start = Instant::now();
            let step = Step { length: step.length, last: &step.last, earlier: &earlier, logits: &mut logits };
            restorer.restore(&mut history, step);
            spent += start.elapsed();
        }
        spent
    };
    (0..3).map(|_| round()).min().unwrap_or_default() / u32::try_from(steps.len().max(1)).unwrap_or(1)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
