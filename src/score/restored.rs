//! Windows of text whose logits are changed before they are scored: what restoration at run time is worth.

use burn::prelude::*;

use super::windows::{CHUNK, WindowScores, compare};
use super::{ScoreError, Tally};
use crate::cache::{CacheKind, LayerCache, Memory, Simulation, Units};
use crate::model::generate::{Restore, Step};
use crate::model::{Decoder, DecoderBackend, ModelError, to_host};
use crate::parallel::in_order;
use crate::precision::PrecisionMap;
use crate::progress::Observer;

/// A map, and what changes its logits in a second score, if anything.
pub struct Entry<'a, R> {
    /// The map.
    pub map: &'a PrecisionMap,
    /// Told every position in order.
    pub restore: Option<&'a R>,
}

/// [`score_windows`](super::score_windows), with a second score where logits are changed.
///
/// # Errors
/// [`ScoreError`].
pub fn score_entries<B: DecoderBackend, R: Restore>(
    decoder: &Decoder<B>,
    simulation: &Simulation,
    kind: CacheKind,
    entries: &[Entry<'_, R>],
    windows: &[&[u32]],
    threads: usize,
    observer: &dyn Observer,
) -> Result<Vec<WindowScores>, ScoreError> {
    let by_window = in_order(threads, windows.len(), |window| {
        let scores = score_window(decoder, simulation, kind, entries, windows[window], observer)?;
        observer.advance(1);
        Ok::<_, ScoreError>(scores)
    })?;
    let of_map = |map: usize| WindowScores {
        tallies: by_window.iter().map(|scores| scores[map].tally).collect(),
        restored: by_window.iter().filter_map(|scores| scores[map].restored).collect(),
        memory: by_window.first().map_or_else(Memory::default, |scores| scores[map].memory),
    };
    Ok((0..entries.len()).map(of_map).collect())
}

/// One map on one window.
struct WindowScore {
    tally: Tally,
    restored: Option<Tally>,
    memory: Memory,
}

/// A run of a window, and how it is being scored.
struct Run<'a, B: DecoderBackend, R: Restore> {
    hidden: Tensor<B, 2>,
    tapped: Vec<Tensor<B, 2>>,
    restore: Option<(&'a R, R::State)>,
    score: WindowScore,
}

fn score_window<B: DecoderBackend, R: Restore>(
    decoder: &Decoder<B>,
    simulation: &Simulation,
    kind: CacheKind,
    entries: &[Entry<'_, R>],
    tokens: &[u32],
    observer: &dyn Observer,
) -> Result<Vec<WindowScore>, ScoreError> {
    let full = decoder.forward(tokens, &mut decoder.full_caches())?;
    let units = Units::prompt(tokens.len(), simulation.scheme().prefill);
    let positions = tokens.len() - 1;
    let empty = Tally { positions: positions as u64, ..Tally::default() };
    let mut runs = Vec::new();
    for entry in entries {
        if observer.interrupted() {
            return Err(ScoreError::Interrupted);
        }
        let mut caches = simulation.any(kind, entry.map, &units).map_err(ModelError::from)?;
        let layers = entry.restore.map_or(&[][..], Restore::layers);
        let (hidden, tapped) = decoder.forward_tapped(tokens, &mut caches, layers)?;
        let restore = entry.restore.map(|restore| (restore, restore.begin()));
        let memory = caches.iter().map(LayerCache::memory).sum();
        let score = WindowScore { tally: empty, restored: restore.as_ref().map(|_| empty), memory };
        runs.push(Run { hidden, tapped, restore, score });
    }
    for start in (0..positions).step_by(CHUNK) {
        let rows = CHUNK.min(positions - start);
        let next = &tokens[start + 1..][..rows];
        let reference = to_host(decoder.logits(full.clone().narrow(0, start, rows)));
        for run in &mut runs {
            let mut logits = to_host(decoder.logits(run.hidden.clone().narrow(0, start, rows)));
            compare(&reference, &logits, next, &mut run.score.tally);
            if run.score.restored.is_some() {
                run.restore(&mut logits, start, rows);
                run.score.restored.iter_mut().for_each(|tally| compare(&reference, &logits, next, tally));
            }
        }
    }
    Ok(runs.into_iter().map(|run| run.score).collect())
}

impl<B: DecoderBackend, R: Restore> Run<'_, B, R> {
    /// Changes the logits of some positions, which follow those that were changed last.
    fn restore(&mut self, logits: &mut [f32], start: usize, rows: usize) {
        let Some((restore, state)) = &mut self.restore else { return };
        let host = |states: &Tensor<B, 2>| to_host(states.clone().narrow(0, start, rows));
        let (last, tapped) = (host(&self.hidden), self.tapped.iter().map(host).collect::<Vec<_>>());
        let (vocab, width) = (logits.len() / rows, last.len() / rows);
        for (row, logits) in logits.chunks_exact_mut(vocab).enumerate() {
            let of_row = |states: &'_ [f32]| row * width..(row * width + width).min(states.len());
            let earlier: Vec<&[f32]> = tapped.iter().map(|states| &states[of_row(states)]).collect();
            let step =
                Step { length: start + row + 1, last: &last[of_row(&last)], earlier: &earlier, logits };
            restore.restore(state, step);
        }
    }
}
