//! Precision maps on windows of running text: perplexity, divergence and flips, as lm-evaluation tools report.

use burn::prelude::*;
use kvtune_kernels::statistics::{arg_max, divergence, log_sum_exp};

use super::side::{Finals, Side};
use super::{ScoreError, Tally, Window};
use crate::cache::{CacheKind, Memory, Simulation, Units};
use crate::model::{Decoder, DecoderBackend, LayerWork, OpenLayer, to_host};
use crate::precision::PrecisionMap;
use crate::progress::Observer;

/// Positions whose logits are in memory at once.
pub(super) const CHUNK: usize = 32;

/// Scores maps on each window by itself: the window is one prompt.
///
/// One entry a map; `exp(nll / positions)` is the perplexity. The observer hears one step a window. All windows are
/// equally long.
///
/// # Errors
/// [`ScoreError`].
pub fn score_windows<B: DecoderBackend>(
    decoder: &Decoder<B>,
    simulation: &Simulation,
    kind: CacheKind,
    maps: &[PrecisionMap],
    windows: &[Window<'_>],
    threads: usize,
    observer: &dyn Observer,
) -> Result<Vec<WindowScores>, ScoreError> {
    let work = Windows { decoder, simulation, kind, maps, windows, observer };
    let by_window = decoder.walk(&work, windows.len(), threads)?;
    let of_map = |map: usize| WindowScores {
        tallies: by_window.iter().map(|scores| scores[map].0).collect(),
        restored: Vec::new(),
        memory: by_window.first().map_or_else(Memory::default, |scores| scores[map].1),
    };
    Ok((0..maps.len()).map(of_map).collect())
}

/// One map on all windows.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowScores {
    /// One tally a window.
    pub tallies: Vec<Tally>,
    /// One a window with logits changed; empty where nothing changes them.
    pub restored: Vec<Tally>,
    /// What the caches of all layers had allocated at the end of the first window.
    pub memory: Memory,
}

/// A unit is a window with all maps.
struct Windows<'a, B: DecoderBackend> {
    decoder: &'a Decoder<B>,
    simulation: &'a Simulation,
    kind: CacheKind,
    maps: &'a [PrecisionMap],
    windows: &'a [Window<'a>],
    observer: &'a dyn Observer,
}

impl<B: DecoderBackend> LayerWork<B> for Windows<'_, B> {
    type State = Side<B>;
    type Output = Vec<(Tally, Memory)>;
    type Error = ScoreError;

    fn size(&self, unit: usize) -> usize {
        (1 + self.maps.len()) * self.windows[unit].len() * self.decoder.config().hidden_size
    }

    fn begin(&self, unit: usize) -> Result<Side<B>, ScoreError> {
        let tokens = self.windows[unit].tokens();
        let units = Units::prompt(tokens.len(), self.simulation.scheme().prefill);
        Ok(Side::new(self.decoder, &tokens, units, self.maps, self.kind).with_full())
    }

    fn layer(&self, layer: &OpenLayer<'_, B>, state: &mut Side<B>) -> Result<(), ScoreError> {
        state.layer(layer, self.simulation, self.observer).map(|_| ())
    }

    fn end(&self, unit: usize, state: Side<B>) -> Result<Self::Output, ScoreError> {
        let Finals { full, runs, held } = state.finals(self.decoder);
        let full = full.expect("run to the end");
        let tallies = self.tallies(&self.windows[unit], &full, &runs);
        self.observer.advance(1);
        Ok(tallies.into_iter().zip(held).collect())
    }
}

impl<B: DecoderBackend> Windows<'_, B> {
    fn tallies(&self, window: &Window<'_>, full: &Tensor<B, 2>, runs: &[Tensor<B, 2>]) -> Vec<Tally> {
        let scored = window.scored();
        let empty = Tally { positions: scored.len() as u64, ..Tally::default() };
        let mut tallies = vec![empty; runs.len()];
        let logits = |hidden: &Tensor<B, 2>, start: usize, rows: usize| {
            to_host(self.decoder.logits(hidden.clone().narrow(0, start, rows)))
        };
        for (start, next) in window.positions().step_by(CHUNK).zip(scored.chunks(CHUNK)) {
            let reference = logits(full, start, next.len());
            for (run, tally) in runs.iter().zip(&mut tallies) {
                compare(&reference, &logits(run, start, next.len()), next, tally);
            }
        }
        tallies
    }
}

/// Adds what some rows of logits say about the tokens that come `next`.
pub(super) fn compare(full: &[f32], quantized: &[f32], next: &[u32], tally: &mut Tally) {
    let vocab = full.len() / next.len();
    for ((full, quantized), &token) in full.chunks(vocab).zip(quantized.chunks(vocab)).zip(next) {
        let (full_sum, sum) = (log_sum_exp(full), log_sum_exp(quantized));
        tally.flips += u64::from(arg_max(full) != arg_max(quantized));
        tally.kl += divergence(full, full_sum, quantized, sum);
        tally.nll += sum - f64::from(quantized[token as usize]);
        tally.nll_full += full_sum - f64::from(full[token as usize]);
    }
}
