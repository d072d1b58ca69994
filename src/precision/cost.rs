use std::fmt;

use serde::{Deserialize, Serialize};

use super::PrecisionMap;

/// Mean code width of a map, scales excluded: KVTuner's f_m and the axis of its names (C3.25).
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EquivalentBits(f64);

impl EquivalentBits {
    /// Bits an element, between 1 and 16.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for EquivalentBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Mean over layers of (K + V)/2, weighted by each layer's KV width (KV heads × head_dim).
///
/// # Panics
/// Never for `widths` of the map's length; a map and its model are matched by [`PrecisionMap::for_layers`].
///
/// Source: KVTuner, f_m of the problem formulation; the weighting by width is **ours** (the paper's models have one).
pub fn equivalent_bits(map: &PrecisionMap, widths: &[usize]) -> EquivalentBits {
    assert_eq!(map.n_layers(), widths.len(), "one width per layer");
    let weighted: f64 =
        map.pairs().iter().zip(widths).map(|(pair, &width)| pair.mean_bits() * width as f64).sum();
    EquivalentBits(weighted / widths.iter().sum::<usize>() as f64)
}

/// Bits an element that memory really holds at one context length: codes, scale and zero point, exact tokens.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct StorageBits {
    /// Tokens in the cache.
    pub context: usize,
    /// 8 · bytes / elements.
    pub bits: f64,
}

/// 8 · `bytes` / Σ over layers of 2 · width · `context`.
///
/// `bytes` is what the whole cache takes at `context` tokens, as `quant::Scheme::map_bytes` counts it.
pub fn storage_bits(bytes: u64, widths: &[usize], context: usize) -> StorageBits {
    let elements = 2 * widths.iter().sum::<usize>() * context;
    StorageBits { context, bits: 8.0 * bytes as f64 / elements as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[&str]) -> PrecisionMap {
        PrecisionMap::new(pairs.iter().map(|text| text.parse().expect("a pair")).collect())
    }

    #[test]
    fn equivalent_bits_is_the_mean_of_both_sides() {
        let bits = equivalent_bits(&map(&["K8V4", "KV2"]), &[64, 64]);
        assert!((bits.get() - 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_wider_layer_weighs_more() {
        let bits = equivalent_bits(&map(&["KV8", "KV2"]), &[64, 192]);
        assert!((bits.get() - 3.5).abs() < 1e-12);
    }

    #[test]
    fn storage_bits_counts_keys_and_values() {
        // 2 layers × 2 tensors × 4 channels × 10 tokens = 160 elements in 60 bytes.
        let stored = storage_bits(60, &[4, 4], 10);
        assert!((stored.bits - 3.0).abs() < 1e-12);
    }
}
