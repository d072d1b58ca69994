//! A cache that really is small: codes in memory, and attention that reads them where they lie.

mod tensor;

use std::sync::Arc;

use kvtune_kernels::attention::Source;
use kvtune_kernels::codec::CodecOptionsError;
use kvtune_kernels::packed::{Bias, Stored};

use super::attend::{Side, attend};
use super::fused::{ByHead, attend_fused};
use super::{CacheError, HeadShape, KeyBiasTable, LayerCache, Memory, Rows, Units};
use crate::precision::PrecisionPair;
use crate::quant::{Scheme, Tensor};
use tensor::PackedTensor;

/// The most queries of one call that read codes where they lie, one after another. Of more, the products
/// cost more than dequantizing a head first.
const FEW: usize = 8;

/// One layer's cache as packed codes, with the same numbers as [`SimulatedCache`](super::SimulatedCache).
///
/// Few queries (a step of decoding) go through the fused kernel, which adds in another order than the simulated
/// cache: outputs agree to rounding. Many (a prompt) go through the simulated cache's own products over one
/// dequantized head at a time: outputs are the same bits.
#[derive(Clone)]
pub struct PackedCache {
    shape: HeadShape,
    window: Option<usize>,
    units: Units,
    keys: PackedTensor,
    values: PackedTensor,
    hadamard: bool,
}

impl PackedCache {
    /// An empty cache of one layer.
    ///
    /// `bias` is wanted exactly when the scheme says `key_bias: subtract`.
    ///
    /// # Errors
    /// [`CodecOptionsError`] where the scheme has no codec of one of the widths.
    pub fn new(
        shape: HeadShape,
        window: Option<usize>,
        scheme: &Arc<Scheme>,
        pair: PrecisionPair,
        units: Units,
        bias: Option<KeyBiasTable>,
    ) -> Result<Self, CodecOptionsError> {
        let keys = PackedTensor::new(scheme, Tensor::Keys, pair.key, shape, bias)?;
        let values = PackedTensor::new(scheme, Tensor::Values, pair.value, shape, None)?;
        Ok(Self { shape, window, units, keys, values, hadamard: scheme.hadamard })
    }

    /// The same tokens, for a sequence of its own whose queries read what `units` says.
    pub fn fork(&self, units: &Units) -> Self {
        Self { units: units.clone(), ..self.clone() }
    }

    /// Leading tokens that the query at `position` reads as codes, of keys and of values.
    fn frozen_for(&self, position: usize) -> (usize, usize) {
        let keys = self.units.frozen_for(position, |n| self.keys.frozen(n));
        (keys, self.units.frozen_for(position, |n| self.values.frozen(n)))
    }

    /// Whether the query at `position` reads every token that it sees as it is held.
    fn reads_as_held(&self, position: usize) -> bool {
        let held = |frozen: usize| frozen.min(position + 1);
        let now = (self.keys.frozen(self.len()), self.values.frozen(self.len()));
        self.frozen_for(position) == (held(now.0), held(now.1))
    }

    /// Blocks of queries over one dequantized head at a time.
    fn attend_dequantized(&self, q: Rows<'_>, out: &mut [f32]) {
        let start = self.len() - q.rows;
        let frozen: Vec<_> = (start..self.len()).map(|position| self.frozen_for(position)).collect();
        let (key_counts, value_counts): (Vec<_>, Vec<_>) = frozen.into_iter().unzip();
        let shape = HeadShape { n_heads: self.shape.heads_per_kv(), n_kv_heads: 1, ..self.shape };
        let width = shape.q_width();
        let (mut keys, mut values, mut of_head) =
            (Held::default(), Held::default(), vec![0.0; q.rows * width]);
        for head in 0..self.shape.n_kv_heads {
            rayon::join(
                || self.keys.read(head, &mut keys.coded, &mut keys.exact),
                || self.values.read(head, &mut values.coded, &mut values.exact),
            );
            let q = Rows { data: &q.data[head * width..], width, ..q };
            let keys = Side { source: &|_| keys.source(), frozen: &key_counts };
            let values = Side { source: &|_| values.source(), frozen: &value_counts };
            attend(shape, self.window, start, q, &keys, &values, &mut of_head);
            for (out, of_head) in out.chunks_exact_mut(self.shape.q_width()).zip(of_head.chunks_exact(width))
            {
                out[head * width..][..width].copy_from_slice(of_head);
            }
        }
    }
}

/// One head, dequantized.
#[derive(Default)]
struct Held {
    coded: Vec<f32>,
    exact: Vec<f32>,
}

impl Held {
    fn source(&self) -> Source<'_> {
        Source { coded: &self.coded, exact: &self.exact }
    }
}

impl ByHead for PackedCache {
    fn keys(&self, head: usize) -> Stored<'_> {
        self.keys.stored(head)
    }

    fn values(&self, head: usize) -> Stored<'_> {
        self.values.stored(head)
    }

    fn bias(&self, head: usize) -> Option<Bias<'_>> {
        self.keys.bias(head)
    }

    fn is_rotated(&self) -> bool {
        self.hadamard
    }
}

impl LayerCache for PackedCache {
    fn len(&self) -> usize {
        self.keys.len()
    }

    fn append(&mut self, k: Rows<'_>, v: Rows<'_>) -> Result<(), CacheError> {
        self.keys.append(k)?;
        self.values.append(v)
    }

    fn attend(&mut self, q: Rows<'_>, out: &mut [f32]) -> Result<(), CacheError> {
        let start = self.len() - q.rows;
        if q.rows <= FEW && (start..self.len()).all(|position| self.reads_as_held(position)) {
            attend_fused(self.shape, self.window, start, q, self, out);
        } else {
            self.attend_dequantized(q, out);
        }
        if !self.units.reads_exact_later(self.len()) {
            self.keys.settle();
            self.values.settle();
        }
        Ok(())
    }

    fn memory(&self) -> Memory {
        self.keys.memory() + self.values.memory()
    }
}

#[cfg(test)]
mod tests;
