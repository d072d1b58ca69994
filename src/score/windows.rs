//! Precision maps on windows of running text: perplexity, divergence and flips, as lm-evaluation tools report.

use burn::prelude::*;
use kvtune_kernels::statistics::{arg_max, divergence, log_sum_exp};

use super::{ScoreError, Tally};
use crate::cache::{CacheKind, LayerCache, Memory, Simulation, Units};
use crate::model::{Decoder, DecoderBackend, ModelError, to_host};
use crate::parallel::in_order;
use crate::precision::PrecisionMap;
use crate::progress::Observer;

/// Positions whose logits are in memory at once.
const CHUNK: usize = 32;

/// Scores maps on each window by itself: the window is one prompt, its tokens but the first are predicted.
///
/// One entry a map; `exp(nll / positions)` is the perplexity. The observer hears one step a window. Windows have
/// at least two tokens, and all equally many.
///
/// # Errors
/// [`ScoreError`].
pub fn score_windows<B: DecoderBackend>(
    decoder: &Decoder<B>,
    simulation: &Simulation,
    kind: CacheKind,
    maps: &[PrecisionMap],
    windows: &[&[u32]],
    threads: usize,
    observer: &dyn Observer,
) -> Result<Vec<WindowScores>, ScoreError> {
    let by_window = in_order(threads, windows.len(), |window| {
        let scores = score_window(decoder, simulation, kind, maps, windows[window], observer)?;
        observer.advance(1);
        Ok::<_, ScoreError>(scores)
    })?;
    let of_map = |map: usize| WindowScores {
        tallies: by_window.iter().map(|scores| scores[map].0).collect(),
        memory: by_window.first().map_or_else(Memory::default, |scores| scores[map].1),
    };
    Ok((0..maps.len()).map(of_map).collect())
}

/// One map on all windows.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowScores {
    /// One tally a window.
    pub tallies: Vec<Tally>,
    /// What the caches of all layers had allocated at the end of the first window.
    pub memory: Memory,
}

fn score_window<B: DecoderBackend>(
    decoder: &Decoder<B>,
    simulation: &Simulation,
    kind: CacheKind,
    maps: &[PrecisionMap],
    tokens: &[u32],
    observer: &dyn Observer,
) -> Result<Vec<(Tally, Memory)>, ScoreError> {
    let full = decoder.forward(tokens, &mut decoder.full_caches())?;
    let units = Units::prompt(tokens.len(), simulation.scheme().prefill);
    let (mut runs, mut held) = (Vec::new(), Vec::new());
    for map in maps {
        if observer.interrupted() {
            return Err(ScoreError::Interrupted);
        }
        let mut caches = simulation.any(kind, map, &units).map_err(ModelError::from)?;
        runs.push(decoder.forward(tokens, &mut caches)?);
        held.push(caches.iter().map(LayerCache::memory).sum());
    }
    let positions = tokens.len() - 1;
    let mut tallies = vec![Tally { positions: positions as u64, ..Tally::default() }; maps.len()];
    let logits = |hidden: &Tensor<B, 2>, start: usize, rows: usize| {
        to_host(decoder.logits(hidden.clone().narrow(0, start, rows)))
    };
    for start in (0..positions).step_by(CHUNK) {
        let rows = CHUNK.min(positions - start);
        let next = &tokens[start + 1..][..rows];
        let reference = logits(&full, start, rows);
        for (run, tally) in runs.iter().zip(&mut tallies) {
            compare(&reference, &logits(run, start, rows), next, tally);
        }
    }
    Ok(tallies.into_iter().zip(held).collect())
}

/// Adds what some rows of logits say about the tokens that come `next`.
fn compare(full: &[f32], quantized: &[f32], next: &[u32], tally: &mut Tally) {
    let vocab = full.len() / next.len();
    for ((full, quantized), &token) in full.chunks(vocab).zip(quantized.chunks(vocab)).zip(next) {
        let (full_sum, sum) = (log_sum_exp(full), log_sum_exp(quantized));
        tally.flips += u64::from(arg_max(full) != arg_max(quantized));
        tally.kl += divergence(full, full_sum, quantized, sum);
        tally.nll += sum - f64::from(quantized[token as usize]);
        tally.nll_full += full_sum - f64::from(full[token as usize]);
    }
}
