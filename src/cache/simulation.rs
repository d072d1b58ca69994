use std::sync::Arc;

use kvtune_kernels::codec::CodecOptionsError;

use super::{AnyCache, CacheKind, FullCache, HeadShape, KeyBiasTable, PackedCache, SimulatedCache, Units};
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::quant::{KeyBias, Scheme};

/// What a model and a scheme have in common for all quantized caches: makes one for any layer and pair.
#[derive(Clone)]
pub struct Simulation {
    scheme: Arc<Scheme>,
    shape: HeadShape,
    windows: Vec<Option<usize>>,
    bias: Vec<Option<KeyBiasTable>>,
}

/// A scheme asks for what the model does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`key_bias: subtract` needs a bias on every layer's `k_proj` with no norm behind it, but layer {layer} has none"
)]
pub struct NoKeyBias {
    /// The first such layer.
    pub layer: usize,
}

impl Simulation {
    /// `windows` has one entry a layer; `key_bias` gives a layer's rotated bias for as many positions as any
    /// document will have, and is asked only if the scheme subtracts it.
    ///
    /// # Errors
    /// [`NoKeyBias`] if the scheme subtracts a bias that a layer does not have.
    pub fn new(
        scheme: &Scheme,
        shape: HeadShape,
        windows: &[Option<usize>],
        key_bias: impl Fn(usize) -> Option<Vec<f32>>,
    ) -> Result<Self, NoKeyBias> {
        let table = |layer| match scheme.key_bias {
            KeyBias::Keep => Ok(None),
            KeyBias::Subtract => key_bias(layer).map(|bias| Some(bias.into())).ok_or(NoKeyBias { layer }),
        };
        let bias = (0..windows.len()).map(table).collect::<Result<_, _>>()?;
        Ok(Self { scheme: Arc::new(scheme.clone()), shape, windows: windows.to_vec(), bias })
    }

    /// The scheme that all caches follow.
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Heads of every layer.
    pub fn shape(&self) -> HeadShape {
        self.shape
    }

    /// The sliding window of a layer.
    pub fn window(&self, layer: usize) -> Option<usize> {
        self.windows[layer]
    }

    /// The rotated key bias that a layer's keys are coded without.
    pub fn key_bias(&self, layer: usize) -> Option<KeyBiasTable> {
        self.bias[layer].clone()
    }

    /// An empty cache of one layer.
    ///
    /// # Errors
    /// [`CodecOptionsError`] where the scheme has no codec of one of the widths.
    pub fn cache(
        &self,
        layer: usize,
        pair: PrecisionPair,
        units: &Units,
    ) -> Result<SimulatedCache, CodecOptionsError> {
        let bias = self.key_bias(layer);
        SimulatedCache::new(self.shape, self.windows[layer], &self.scheme, pair, units.clone(), bias)
    }

    /// An empty packed cache of one layer.
    ///
    /// # Errors
    /// [`CodecOptionsError`] where the scheme has no codec of one of the widths.
    pub fn packed(
        &self,
        layer: usize,
        pair: PrecisionPair,
        units: &Units,
    ) -> Result<PackedCache, CodecOptionsError> {
        let bias = self.key_bias(layer);
        PackedCache::new(self.shape, self.windows[layer], &self.scheme, pair, units.clone(), bias)
    }

    /// Empty caches of one kind for all layers of a map, which a full-precision cache does not look at.
    ///
    /// # Errors
    /// [`CodecOptionsError`] where the scheme has no codec of a width that the map names.
    pub fn any(
        &self,
        kind: CacheKind,
        map: &PrecisionMap,
        units: &Units,
    ) -> Result<Vec<AnyCache>, CodecOptionsError> {
        let pairs = map.pairs().iter().enumerate();
        pairs.map(|(layer, &pair)| self.any_layer(kind, layer, pair, units)).collect()
    }

    /// An empty cache of one kind for one layer.
    ///
    /// # Errors
    /// [`CodecOptionsError`] where the scheme has no codec of one of the widths.
    pub fn any_layer(
        &self,
        kind: CacheKind,
        layer: usize,
        pair: PrecisionPair,
        units: &Units,
    ) -> Result<AnyCache, CodecOptionsError> {
        Ok(match kind {
            CacheKind::Full => AnyCache::Full(FullCache::new(self.shape, self.windows[layer])),
            CacheKind::Simulated => AnyCache::Simulated(self.cache(layer, pair, units)?),
            CacheKind::Packed => AnyCache::Packed(self.packed(layer, pair, units)?),
        })
    }

    /// Empty caches for layers `first..` of a map.
    ///
    /// # Errors
    /// [`CodecOptionsError`] where the scheme has no codec of a width that the map names.
    pub fn caches(
        &self,
        map: &PrecisionMap,
        first: usize,
        units: &Units,
    ) -> Result<Vec<SimulatedCache>, CodecOptionsError> {
        let pairs = map.pairs().iter().enumerate().skip(first);
        pairs.map(|(layer, &pair)| self.cache(layer, pair, units)).collect()
    }
}
