use std::sync::Arc;

use kvtune_kernels::codec::CodecOptionsError;

use super::attend::{Side, attend};
use super::{CacheError, CodedTensor, HeadShape, LayerCache, Memory, Rows, Units};
use crate::precision::PrecisionPair;
use crate::quant::{Scheme, Tensor};

/// A layer's rotated key bias, `[positions, n_kv_heads * head_dim]`: what `key_bias: subtract` takes off a key.
pub type KeyBiasTable = Arc<[f32]>;

/// A cache whose tokens are coded and decoded at once: what codes would read as, held as f32.
///
/// A query's numbers are the same bits alone or among others, so one pass equals any other way of feeding the
/// tokens; single queries therefore do not go through the fused kernel, which adds in another order.
#[derive(Clone)]
pub struct SimulatedCache {
    shape: HeadShape,
    window: Option<usize>,
    units: Units,
    keys: CodedTensor,
    values: CodedTensor,
}

impl SimulatedCache {
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
        let keys = CodedTensor::new(scheme, Tensor::Keys, pair.key, shape.stored(), bias)?;
        let values = CodedTensor::new(scheme, Tensor::Values, pair.value, shape.stored(), None)?;
        Ok(Self { shape, window, units, keys, values })
    }

    /// The same tokens, for a sequence of its own whose queries read what `units` says.
    pub fn fork(&self, units: &Units) -> Self {
        Self { units: units.clone(), ..self.clone() }
    }
}

impl LayerCache for SimulatedCache {
    fn len(&self) -> usize {
        self.keys.len()
    }

    fn append(&mut self, k: Rows<'_>, v: Rows<'_>) -> Result<(), CacheError> {
        self.keys.append(k)?;
        self.values.append(v)
    }

    fn attend(&mut self, q: Rows<'_>, out: &mut [f32]) -> Result<(), CacheError> {
        let start = self.len() - q.rows;
        let counts = |frozen: &dyn Fn(usize) -> usize| -> Vec<usize> {
            (start..self.len()).map(|position| self.units.frozen_for(position, frozen)).collect()
        };
        let key_counts = counts(&|n| self.keys.frozen(n));
        let value_counts = counts(&|n| self.values.frozen(n));
        let keys = Side { source: &|head| self.keys.source(head), frozen: &key_counts };
        let values = Side { source: &|head| self.values.source(head), frozen: &value_counts };
        attend(self.shape, self.window, start, q, &keys, &values, out);
        Ok(())
    }

    fn memory(&self) -> Memory {
        self.keys.memory() + self.values.memory()
    }
}
