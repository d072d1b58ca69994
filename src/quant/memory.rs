use super::{Axis, Scheme, Tensor};
use crate::precision::{Bits, PrecisionMap, PrecisionPair};

/// Bytes of one element that is held exact: f16, the cache's float type.
const EXACT_BYTES: usize = 2;

/// What a layer's cache holds per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// Heads of keys, and of values.
    pub n_kv_heads: usize,
    /// Elements of one head.
    pub head_dim: usize,
}

impl LayerShape {
    /// Elements of one token's keys, or values.
    pub fn width(self) -> usize {
        self.n_kv_heads * self.head_dim
    }
}

impl Scheme {
    /// Bytes that one layer's cache holds at `n_tokens`.
    ///
    /// Codes of B bits are packed per group, each group rounded up to whole bytes; a group adds two numbers in
    /// the metadata type; the exact residual, the sinks and sides of 16 bits take 2 bytes an element (f16).
    /// A key bias that is subtracted costs nothing: it belongs to the model.
    pub fn layer_bytes(&self, shape: LayerShape, pair: PrecisionPair, n_tokens: usize) -> u64 {
        let side = |tensor, bits| self.head_bytes(tensor, shape.head_dim, bits, n_tokens);
        let head = side(Tensor::Keys, pair.key) + side(Tensor::Values, pair.value);
        (shape.n_kv_heads * head) as u64
    }

    /// Bytes of the whole cache at `n_tokens`: [`layer_bytes`](Self::layer_bytes) over the map's layers.
    ///
    /// `shapes` has one entry a layer; a longer side is cut to the shorter.
    pub fn map_bytes(&self, map: &PrecisionMap, shapes: &[LayerShape], n_tokens: usize) -> u64 {
        let layers = map.pairs().iter().zip(shapes);
        layers.map(|(&pair, &shape)| self.layer_bytes(shape, pair, n_tokens)).sum()
    }

    fn head_bytes(&self, tensor: Tensor, head_dim: usize, bits: Bits, n_tokens: usize) -> usize {
        if bits.is_full() {
            return n_tokens * head_dim * EXACT_BYTES;
        }
        let coded = self.coded(tensor, n_tokens);
        let group = self.spec(tensor).group_size(head_dim).max(1);
        let group_bytes =
            |elements: usize| (elements * usize::from(bits.get())).div_ceil(8) + 2 * self.metadata.bytes();
        let run_bytes = |elements: usize| {
            let rest = elements % group;
            elements / group * group_bytes(group) + if rest > 0 { group_bytes(rest) } else { 0 }
        };
        let codes = match self.spec(tensor).axis {
            Axis::Token => coded * run_bytes(head_dim),
            Axis::Channel => head_dim * run_bytes(coded),
        };
        codes + (n_tokens - coded) * head_dim * EXACT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::precision::storage_bits;
    use crate::quant::{Group, Metadata};

    const SHAPE: LayerShape = LayerShape { n_kv_heads: 3, head_dim: 64 };

    fn pair(text: &str) -> PrecisionPair {
        text.parse().expect("a pair")
    }

    #[test]
    fn two_bits_in_groups_of_32_store_three() {
        // A group: 32 · 2 bits = 8 bytes, and two f16 = 4 bytes; 12 bytes for 32 elements.
        let bytes = Scheme::kivi().layer_bytes(SHAPE, pair("KV2"), 3200);
        assert_eq!(bytes, 2 * 3 * 64 * 3200 / 32 * 12);
        assert!((storage_bits(bytes, &[SHAPE.width()], 3200).bits - 3.0).abs() < 1e-12);
    }

    #[test]
    fn the_residual_of_keys_is_exact() {
        // 40 tokens: 32 in codes (12 bytes a channel), 8 exact; values all in codes (two groups a token).
        let bytes = Scheme::kivi().layer_bytes(SHAPE, pair("KV2"), 40);
        assert_eq!(bytes, 3 * (64 * 12 + 8 * 64 * 2 + 40 * 2 * 12));
    }

    #[test]
    fn sinks_are_exact_on_both_sides() {
        let mut scheme = Scheme::per_token_asym();
        scheme.sinks = 4;
        scheme.metadata = Metadata::F32;
        // A token: 64 · 4 bits = 32 bytes, and two f32.
        let bytes = scheme.layer_bytes(SHAPE, pair("KV4"), 10);
        assert_eq!(bytes, 3 * 2 * (6 * (32 + 8) + 4 * 128));
        assert_eq!(scheme.layer_bytes(SHAPE, pair("KV4"), 3), 3 * 2 * 3 * 128);
    }

    #[test]
    fn sixteen_bits_are_two_bytes() {
        assert_eq!(Scheme::kivi().layer_bytes(SHAPE, PrecisionPair::FULL, 10), 2 * 3 * 64 * 10 * 2);
        let bytes = Scheme::per_token_asym().layer_bytes(SHAPE, pair("K16V8"), 10);
        assert_eq!(bytes, 3 * 10 * (128 + 64 + 4));
    }

    #[test]
    fn a_ragged_group_is_rounded_up_to_bytes() {
        let mut scheme = Scheme::per_token_asym();
        (scheme.key.group, scheme.value.group) = (Group::Size(32), Group::Size(32));
        let shape = LayerShape { n_kv_heads: 1, head_dim: 35 };
        // 32 · 3 bits = 12 bytes; 3 · 3 bits = 9 bits = 2 bytes; two groups' metadata.
        assert_eq!(scheme.layer_bytes(shape, pair("KV3"), 1), 2 * (12 + 2 + 8));
    }

    #[test]
    fn a_map_costs_the_sum_of_its_layers() {
        let scheme = Scheme::kivi();
        let map = PrecisionMap::new(vec![pair("KV8"), pair("K4V2")]);
        let sum = scheme.layer_bytes(SHAPE, pair("KV8"), 100) + scheme.layer_bytes(SHAPE, pair("K4V2"), 100);
        assert_eq!(scheme.map_bytes(&map, &[SHAPE, SHAPE], 100), sum);
    }
}
