//! Windows of text whose logits are changed before they are scored: what restoration at run time is worth.

use super::pass::Pass;
use super::windows::{CHUNK, WindowScores, compare};
use super::{ScoreError, Tally, Window};
use crate::cache::{CacheKind, LayerCache, Memory, Simulation, Units};
use crate::model::restore::{AsIs, Restore};
use crate::model::{Decoder, DecoderBackend, ModelError};
use crate::parallel::in_order;
use crate::precision::PrecisionMap;
use crate::progress::Observer;

/// A map, and what changes its logits in a second score, if anything.
pub struct Entry<'a, R> {
    /// The map.
    pub map: &'a PrecisionMap,
    /// Told every scored position in order.
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
    windows: &[Window<'_>],
    threads: usize,
    observer: &dyn Observer,
) -> Result<Vec<WindowScores>, ScoreError> {
    let by_window = in_order(threads, windows.len(), |window| {
        let scores = score_window(decoder, simulation, kind, entries, &windows[window], observer)?;
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
    pass: Pass<'a, B, R>,
    score: WindowScore,
}

fn score_window<B: DecoderBackend, R: Restore>(
    decoder: &Decoder<B>,
    simulation: &Simulation,
    kind: CacheKind,
    entries: &[Entry<'_, R>],
    window: &Window<'_>,
    observer: &dyn Observer,
) -> Result<Vec<WindowScore>, ScoreError> {
    let (tokens, scored) = (window.tokens(), window.scored());
    let full = Pass::<B, AsIs>::run(decoder, &tokens, &mut decoder.full_caches(), None)?;
    let units = Units::prompt(tokens.len(), simulation.scheme().prefill);
    let empty = Tally { positions: scored.len() as u64, ..Tally::default() };
    let mut runs = Vec::new();
    for entry in entries {
        if observer.interrupted() {
            return Err(ScoreError::Interrupted);
        }
        let mut caches = simulation.any(kind, entry.map, &units).map_err(ModelError::from)?;
        let pass = Pass::run(decoder, &tokens, &mut caches, entry.restore)?;
        let memory = caches.iter().map(LayerCache::memory).sum();
        let score = WindowScore { tally: empty, restored: pass.is_restored().then_some(empty), memory };
        runs.push(Run { pass, score });
    }
    for (start, next) in window.positions().step_by(CHUNK).zip(scored.chunks(CHUNK)) {
        let positions = start..start + next.len();
        let reference = full.logits(positions.clone());
        for Run { pass, score } in &mut runs {
            let mut logits = pass.logits(positions.clone());
            compare(&reference, &logits, next, &mut score.tally);
            if let Some(tally) = &mut score.restored {
                pass.restore(positions.clone(), &mut logits);
                compare(&reference, &logits, next, tally);
            }
        }
    }
    Ok(runs.into_iter().map(|run| run.score).collect())
}
