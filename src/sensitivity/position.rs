//! How the accumulated error grows along the sequence: the paper's second dimension of accumulation.

use kvtune_kernels::statistics::{Deviation, divergence, log_sum_exp};

use super::SensitivityError;
use super::lockstep::{Finals, Run, Step, lockstep, outputs};
use crate::cache::{Simulation, Units};
use crate::model::{Decoder, DecoderBackend, ModelError, Tensor2, generate, to_host};
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::progress::Observer;

/// Parts that the positions of a continuation are cut into.
pub const DECILES: usize = 10;

/// What the quantized model reads as its own past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The full-precision model's continuation: errors of the cache alone.
    TeacherForced,
    /// Its own greedy continuation: flipped tokens lead away for good.
    FreeRunning,
}

/// Sums along the continuation of one document at one pair.
#[derive(Clone, Debug, PartialEq)]
pub struct ByPosition {
    /// The pair in every layer.
    pub pair: PrecisionPair,
    /// Errors of attention outputs, `[layer][decile]`.
    pub outputs: Vec<[Deviation; DECILES]>,
    /// Σ KL(full ‖ quantized) in nats and number of positions, by decile.
    pub divergence: [(f64, u64); DECILES],
}

impl ByPosition {
    /// Takes in another document's sums.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.outputs.iter_mut().flatten().zip(other.outputs.iter().flatten()) {
            mine.add(theirs);
        }
        for (mine, theirs) in self.divergence.iter_mut().zip(other.divergence) {
            *mine = (mine.0 + theirs.0, mine.1 + theirs.1);
        }
    }

    /// e_o by `l1`, of one layer in one decile; `None` where a short continuation has no position.
    pub fn e_o(&self, layer: usize, decile: usize) -> Option<f64> {
        let sum = &self.outputs[layer][decile];
        (sum.elements > 0).then(|| if sum.absolute > 0.0 { sum.absolute / sum.magnitude } else { 0.0 })
    }

    /// Mean KL in one decile, nats a token.
    pub fn kl(&self, decile: usize) -> Option<f64> {
        let (sum, positions) = self.divergence[decile];
        (positions > 0).then(|| sum / positions as f64)
    }
}

/// Follows each pair along the continuation `tokens[prompt_len..]`, compared position by position with the
/// full-precision run over `tokens`.
///
/// When free-running, the quantized model continues the same prompt by itself; both runs are cut to the shorter
/// of the two. The observer hears one step a layer and pair.
///
/// # Errors
/// [`SensitivityError`] naming the layer.
pub fn follow<B: DecoderBackend>(
    model: (&Decoder<B>, &Simulation),
    pairs: &[PrecisionPair],
    tokens: &[u32],
    prompt_len: usize,
    mode: Mode,
    threads: usize,
    observer: &dyn Observer,
) -> Result<Vec<ByPosition>, SensitivityError> {
    // Runs of different lengths do not share a lockstep; each free run has its own.
    let groups: Vec<&[PrecisionPair]> = match mode {
        Mode::TeacherForced => vec![pairs],
        Mode::FreeRunning => pairs.chunks(1).collect(),
    };
    let mut followed = Vec::new();
    for group in groups {
        let own = match mode {
            Mode::TeacherForced => tokens.to_vec(),
            Mode::FreeRunning => free_run(model, group[0], tokens, prompt_len)?,
        };
        let length = own.len().min(tokens.len());
        let sequences = (&tokens[..length], &own[..length]);
        followed.extend(follow_group(model, group, sequences, prompt_len, threads, observer)?);
    }
    Ok(followed)
}

fn free_run<B: DecoderBackend>(
    (decoder, simulation): (&Decoder<B>, &Simulation),
    pair: PrecisionPair,
    tokens: &[u32],
    prompt_len: usize,
) -> Result<Vec<u32>, SensitivityError> {
    let units = Units::prompt(prompt_len, simulation.scheme().prefill);
    let map = PrecisionMap::uniform(decoder.config().num_hidden_layers, pair);
    let mut caches = simulation.caches(&map, 0, &units).map_err(ModelError::from)?;
    let (prompt, max_new) = (&tokens[..prompt_len], tokens.len() - prompt_len);
    let continuation =
        generate::greedy(decoder, &mut caches, prompt, max_new, |_| std::ops::ControlFlow::Continue(()))?;
    Ok([prompt, &continuation].concat())
}

fn follow_group<B: DecoderBackend>(
    model: (&Decoder<B>, &Simulation),
    pairs: &[PrecisionPair],
    (full, own): (&[u32], &[u32]),
    prompt_len: usize,
    threads: usize,
    observer: &dyn Observer,
) -> Result<Vec<ByPosition>, SensitivityError> {
    let runs: Vec<Run<'_>> = pairs.iter().map(|&pair| Run { pair, tokens: own }).collect();
    let units = Units::prompt(prompt_len, model.1.scheme().prefill);
    let visit = |step: &Step<'_>| {
        let coded = outputs(&step.geometry, step.coded);
        let width = step.geometry.shape.q_width();
        Ok((by_decile(step.full_outputs, &coded, width, prompt_len), coded))
    };
    let (layers, finals) = lockstep(model, full, &runs, &units, threads, observer, visit)?;
    let divergence = |run: usize| divergences(model.0, &finals, run, prompt_len);
    let of_run = |(run, &pair): (usize, &PrecisionPair)| ByPosition {
        pair,
        outputs: layers.iter().map(|layer| layer[run]).collect(),
        divergence: divergence(run),
    };
    Ok(pairs.iter().enumerate().map(of_run).collect())
}

fn by_decile(full: &[f32], coded: &[f32], width: usize, prompt_len: usize) -> [Deviation; DECILES] {
    let mut deciles = [Deviation::default(); DECILES];
    let positions = full.len() / width - prompt_len;
    let rows = full.chunks_exact(width).zip(coded.chunks_exact(width)).skip(prompt_len);
    for (position, (full, coded)) in rows.enumerate() {
        deciles[position * DECILES / positions].add(&Deviation::new(full, coded, f32::MIN_POSITIVE));
    }
    deciles
}

fn divergences<B: DecoderBackend>(
    decoder: &Decoder<B>,
    finals: &Finals<B>,
    run: usize,
    prompt_len: usize,
) -> [(f64, u64); DECILES] {
    let mut deciles = [(0.0, 0); DECILES];
    let positions = finals.full.dims()[0] - prompt_len;
    let logits = |hidden: &Tensor2<B>, position: usize| {
        to_host(decoder.logits(hidden.clone().narrow(0, prompt_len + position, 1)))
    };
    for position in 0..positions {
        let (full, own) = (logits(&finals.full, position), logits(&finals.runs[run], position));
        let decile = &mut deciles[position * DECILES / positions];
        decile.0 += divergence(&full, log_sum_exp(&full), &own, log_sum_exp(&own));
        decile.1 += 1;
    }
    deciles
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "sums of small integers are exact")]
mod tests {
    use super::*;

    #[test]
    fn positions_of_the_continuation_fall_into_ten_parts() {
        // A prompt of 1 row, then 20 rows; row r of the continuation is off by r.
        let full = vec![1.0; 21];
        let coded: Vec<f32> = std::iter::once(99.0).chain((0..20).map(|r| 1.0 + r as f32)).collect();
        let deciles = by_decile(&full, &coded, 1, 1);
        assert_eq!(deciles[0].absolute, 1.0);
        assert_eq!(deciles[9].absolute, 18.0 + 19.0);
        assert!(deciles.iter().all(|decile| decile.elements == 2));
    }
}
