//! How the accumulated error grows along the sequence: the paper's second dimension of accumulation.

use kvtune_kernels::statistics::{Deviation, divergence, log_sum_exp};

use super::SensitivityError;
use super::lockstep::{Beside, Finals, Run, Setting, Step, lockstep, outputs};
use crate::cache::{Simulation, Units};
use crate::model::{Decoder, DecoderBackend, ModelError, Tensor2, generate, to_host};
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::progress::Observer;
use crate::quant::Prefill;

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
    follow_all(model, pairs, &[(tokens, prompt_len)], mode, threads, observer)
}

/// [`follow`] over several documents, each tokens and the length of its prompt: the sums of all.
///
/// # Errors
/// [`SensitivityError`] naming the layer.
pub fn follow_all<B: DecoderBackend>(
    model: (&Decoder<B>, &Simulation),
    pairs: &[PrecisionPair],
    documents: &[(&[u32], usize)],
    mode: Mode,
    threads: usize,
    observer: &dyn Observer,
) -> Result<Vec<ByPosition>, SensitivityError> {
    let mut followed = Vec::new();
    for &(tokens, prompt_len) in documents {
        match mode {
            Mode::TeacherForced => {
                followed.push(Follow { pairs, full: tokens, own: tokens.to_vec(), prompt_len });
            }
            // Runs of different lengths do not share a lockstep; each free run has its own.
            Mode::FreeRunning => {
                for pair in pairs.chunks(1) {
                    let own = free_run(model, pair[0], tokens, prompt_len)?;
                    let full = &tokens[..own.len().min(tokens.len())];
                    followed.push(Follow { pairs: pair, full, own, prompt_len });
                }
            }
        }
    }
    let setting = Setting { decoder: model.0, simulation: model.1, threads, observer };
    let found = follow_each(&setting, &followed)?;
    let of_document = match mode {
        Mode::TeacherForced => 1,
        Mode::FreeRunning => pairs.len(),
    };
    let documents = found.chunks(of_document).map(|found| found.concat());
    Ok(documents.reduce(pooled).unwrap_or_default())
}

fn pooled(mut sums: Vec<ByPosition>, found: Vec<ByPosition>) -> Vec<ByPosition> {
    sums.iter_mut().zip(&found).for_each(|(sum, found)| sum.add(found));
    sums
}

/// Some pairs on one sequence of tokens of their own.
struct Follow<'a> {
    pairs: &'a [PrecisionPair],
    full: &'a [u32],
    own: Vec<u32>,
    prompt_len: usize,
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

impl Follow<'_> {
    fn beside(&self, prefill: Prefill) -> Beside<'_> {
        let run = |&pair| Run { pair, tokens: &self.own[..self.full.len()] };
        let units = Units::prompt(self.prompt_len, prefill);
        Beside { tokens: self.full, units, runs: self.pairs.iter().map(run).collect() }
    }
}

/// What each of them says, by pair.
fn follow_each<B: DecoderBackend>(
    setting: &Setting<'_, B>,
    followed: &[Follow<'_>],
) -> Result<Vec<Vec<ByPosition>>, SensitivityError> {
    let prefill = setting.simulation.scheme().prefill;
    let sequences: Vec<Beside<'_>> = followed.iter().map(|follow| follow.beside(prefill)).collect();
    let visit = |step: &Step<'_>| {
        let (coded, width) = (outputs(&step.geometry, step.coded), step.geometry.shape.q_width());
        let prompt_len = followed[step.sequence].prompt_len;
        Ok((by_decile(step.full_outputs, &coded, width, prompt_len), coded))
    };
    lockstep(setting, &sequences, visit, |sequence, (layers, finals)| {
        let Follow { pairs, prompt_len, .. } = followed[sequence];
        let of_run = |(run, &pair): (usize, &PrecisionPair)| ByPosition {
            pair,
            outputs: layers.iter().map(|layer: &Vec<_>| layer[run]).collect(),
            divergence: divergences(setting.decoder, &finals, run, prompt_len),
        };
        pairs.iter().enumerate().map(of_run).collect()
    })
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
