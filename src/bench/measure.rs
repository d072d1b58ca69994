use std::time::Instant;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{BenchRow, Cell, Contender, Machine};
use crate::cache::{AnyCache, HeadShape, LayerCache, Memory, Rows, Units};
use crate::model::{Decoder, DecoderBackend, ModelError, to_host};
use crate::precision::LayerId;
use crate::progress::Observer;
use crate::score::ScoreError;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bench {
    /// Tokens of the prompt that prefill is timed on, at most the cell's length.
    pub prompt: usize,
    /// Steps of one round.
    pub steps: usize,
    /// Rounds; maps take turns in each.
    pub rounds: usize,
}

/// Tokens that caches are filled with at a time.
const FILL: usize = 512;

/// Measures every contender in every cell; rows in that order, cell by cell.
///
/// `weight_bytes` is what a step reads of weights. The observer hears one step a contender and round.
///
/// # Errors
/// What the model or a cache says, or that the observer asked to stop.
pub fn measure<B: DecoderBackend>(
    decoder: &Decoder<B>,
    weight_bytes: usize,
    contenders: &[Contender],
    cells: &[Cell],
    bench: Bench,
    machine: Machine,
    observer: &dyn Observer,
) -> Result<Vec<BenchRow>, ScoreError> {
    let mut rows = Vec::new();
    for &cell in cells {
        let mut runs = contenders
            .iter()
            .map(|contender| Run::new(decoder, contender, cell))
            .collect::<Result<Vec<_>, _>>()?;
        for _ in 0..bench.rounds {
            for run in &mut runs {
                if observer.interrupted() {
                    return Err(ScoreError::Interrupted);
                }
                run.round(decoder, bench)?;
                observer.advance(1);
            }
        }
        let first = median(&runs[0].steps);
        for (contender, run) in contenders.iter().zip(&runs) {
            rows.push(run.row(contender, decoder.shape(), weight_bytes, machine, first));
        }
    }
    Ok(rows)
}

/// One contender's lanes in one cell, and what was measured of them.
struct Run<'a> {
    contender: &'a Contender,
    cell: Cell,
    lanes: Vec<Vec<AnyCache>>,
    /// Seconds of a step, one a round.
    steps: Vec<f64>,
    /// Tokens a second, one a round.
    prefill: Vec<f64>,
}

impl<'a> Run<'a> {
    fn new<B: DecoderBackend>(
        decoder: &Decoder<B>,
        contender: &'a Contender,
        cell: Cell,
    ) -> Result<Self, ModelError> {
        let lanes = (0..cell.batch).map(|_| contender.caches(0)).collect::<Result<Vec<_>, _>>()?;
        let mut run = Self { contender, cell, lanes, steps: Vec::new(), prefill: Vec::new() };
        let shape = decoder.shape();
        let numbers = Numbers::new(shape);
        for caches in &mut run.lanes {
            for (layer, cache) in caches.iter_mut().enumerate() {
                numbers
                    .fill(cache, shape, cell.context)
                    .map_err(|source| ModelError::Cache { layer: LayerId(layer), source })?;
            }
        }
        Ok(run)
    }

    fn round<B: DecoderBackend>(&mut self, decoder: &Decoder<B>, bench: Bench) -> Result<(), ModelError> {
        let vocabulary = decoder.config().vocab_size as u32;
        let token = |i: usize| (i as u32).wrapping_mul(7919) % vocabulary;
        let prompt: Vec<u32> = (0..bench.prompt.min(self.cell.context)).map(token).collect();
        let mut caches = self.contender.caches(prompt.len())?;
        let start = Instant::now();
        let hidden = decoder.forward(&prompt, &mut caches)?;
        let last = hidden.narrow(0, prompt.len() - 1, 1);
        to_host(decoder.logits(last));
        self.prefill.push(prompt.len() as f64 / start.elapsed().as_secs_f64());
        let tokens: Vec<u32> = (0..self.cell.batch).map(token).collect();
        let start = Instant::now();
        for _ in 0..bench.steps {
            let hidden = decoder.step(&tokens, &mut self.lanes)?;
            to_host(decoder.logits(hidden));
        }
        self.steps.push(start.elapsed().as_secs_f64() / bench.steps as f64);
        Ok(())
    }

    fn row(
        &self,
        contender: &Contender,
        shape: HeadShape,
        weight_bytes: usize,
        machine: Machine,
        first: f64,
    ) -> BenchRow {
        let memory: Memory = self.lanes.iter().flatten().map(|cache| cache.memory()).sum();
        let step = median(&self.steps);
        let held: usize = self.lanes.iter().flatten().map(LayerCache::len).sum();
        let extreme = |f: fn(f64, f64) -> f64| self.steps.iter().copied().reduce(f).unwrap_or(step);
        BenchRow {
            cell: self.cell,
            configuration: contender.name.clone(),
            prefill_tokens_per_s: median(&self.prefill),
            step_ms: step * 1e3,
            step_ms_least: extreme(f64::min) * 1e3,
            step_ms_greatest: extreme(f64::max) * 1e3,
            decode_tokens_per_s: self.cell.batch as f64 / step,
            speedup: first / step,
            cache_mib: memory.bytes() as f64 / f64::from(1 << 20),
            storage_bits: 8.0 * memory.bytes() as f64 / (2 * shape.kv_width() * held) as f64,
            floor_share: (weight_bytes + memory.bytes()) as f64 / (machine.read * 1e9) / step,
        }
    }
}

impl Contender {
    fn caches(&self, prompt: usize) -> Result<Vec<AnyCache>, ModelError> {
        let units = Units::prompt(prompt, self.simulation.scheme().prefill);
        Ok(self.simulation.any(self.kind, &self.map, &units)?)
    }
}

/// Keys, values and a query that look like a model's: between −2 and 2.
struct Numbers {
    rows: Vec<f32>,
}

impl Numbers {
    fn new(shape: HeadShape) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(0);
        Self { rows: (0..FILL * shape.q_width()).map(|_| random.random_range(-2.0..2.0)).collect() }
    }

    fn fill(
        &self,
        cache: &mut AnyCache,
        shape: HeadShape,
        tokens: usize,
    ) -> Result<(), crate::cache::CacheError> {
        let mut out = vec![0.0; shape.q_width()];
        for start in (0..tokens).step_by(FILL) {
            let width = shape.kv_width();
            let rows = Rows { data: &self.rows, stride: width, width, rows: FILL.min(tokens - start) };
            cache.append(rows, rows)?;
            // Answering a query lets a packed cache forget what it holds twice.
            let width = shape.q_width();
            cache.attend(Rows { data: &self.rows, stride: width, width, rows: 1 }, &mut out)?;
        }
        Ok(())
    }
}

fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "halves are exact")]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
