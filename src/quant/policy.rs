use kvtune_kernels::codec::{Codec, CodecOptions, CodecOptionsError};
use kvtune_kernels::freeze::{Freeze, frozen_tokens};

use super::{Axis, Group, Scheme, TensorSpec};
use crate::precision::Bits;

/// Keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tensor {
    /// The keys, which freeze in whole blocks.
    Keys,
    /// The values, whose newest tokens are a sliding window.
    Values,
}

impl Tensor {
    /// `keys` or `values`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Values => "values",
        }
    }
}

impl Scheme {
    /// Groups and residual of keys or values.
    pub fn spec(&self, tensor: Tensor) -> TensorSpec {
        match tensor {
            Tensor::Keys => self.key,
            Tensor::Values => self.value,
        }
    }

    /// The codec of one width; `None` at 16 bits, which are not coded.
    ///
    /// # Errors
    /// [`CodecOptionsError`] where the scheme has no codec of that width.
    pub fn codec(&self, bits: Bits) -> Result<Option<Codec>, CodecOptionsError> {
        if bits.is_full() {
            return Ok(None);
        }
        Codec::new(bits.get(), self.codec_options()).map(Some)
    }

    pub(super) fn codec_options(&self) -> CodecOptions {
        let Self { zero, metadata, one_bit, codebook, .. } = *self;
        CodecOptions { zero, metadata, one_bit, codebook }
    }

    /// With `n` tokens cached, how many leading ones are read as they were frozen, sinks included.
    pub fn frozen(&self, tensor: Tensor, n: usize) -> usize {
        let spec = self.spec(tensor);
        let kind = match (tensor, spec.axis) {
            (Tensor::Keys, _) | (_, Axis::Channel) => Freeze::Block,
            (Tensor::Values, Axis::Token) => Freeze::Window,
        };
        frozen_tokens(n, spec.residual, kind, self.sinks)
    }

    /// [`frozen`](Self::frozen) of the keys.
    pub fn key_frozen(&self, n: usize) -> usize {
        self.frozen(Tensor::Keys, n)
    }

    /// [`frozen`](Self::frozen) of the values.
    pub fn value_frozen(&self, n: usize) -> usize {
        self.frozen(Tensor::Values, n)
    }

    /// How many of `n` cached tokens are held as codes: frozen and no sink.
    pub fn coded(&self, tensor: Tensor, n: usize) -> usize {
        self.frozen(tensor, n) - n.min(self.sinks)
    }

    /// Share of the cache's elements that are held as codes at `n` tokens, where both sides are quantized.
    ///
    /// Unitless, 0 for an empty cache. Low for short sequences under a residual, which then say little.
    pub fn coded_share(&self, n: usize) -> f64 {
        let coded = self.coded(Tensor::Keys, n) + self.coded(Tensor::Values, n);
        coded as f64 / (2 * n).max(1) as f64
    }
}

impl TensorSpec {
    /// Elements of a full group of a head: `head` is `head_dim`.
    pub fn group_size(&self, head_dim: usize) -> usize {
        match self.group {
            Group::Head => head_dim,
            Group::Size(size) => size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_freeze_in_blocks_and_values_leave_a_window() {
        let mut scheme = Scheme::kivi();
        assert_eq!([31, 32, 70].map(|n| scheme.key_frozen(n)), [0, 32, 64]);
        assert_eq!([0, 1, 70].map(|n| scheme.value_frozen(n)), [0, 1, 70]);
        scheme.value.residual = 32;
        scheme.sinks = 3;
        assert_eq!([2, 34, 35, 70].map(|n| scheme.key_frozen(n)), [2, 3, 35, 67]);
        assert_eq!([2, 34, 36, 70].map(|n| scheme.value_frozen(n)), [2, 3, 4, 38]);
    }

    #[test]
    fn the_coded_share_leaves_out_sinks_and_residual() {
        let mut scheme = Scheme::kivi();
        assert!((scheme.coded_share(40) - (32.0 + 40.0) / 80.0).abs() < 1e-12);
        scheme.sinks = 8;
        assert!((scheme.coded_share(40) - (32.0 + 32.0) / 80.0).abs() < 1e-12);
        assert!(scheme.coded_share(0).abs() < 1e-12);
        assert!((Scheme::per_token_asym().coded_share(7) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn sixteen_bits_have_no_codec() {
        let scheme = Scheme::kivi();
        assert_eq!(scheme.codec(Bits::FULL), Ok(None));
        for bits in &Bits::ALL[..7] {
            let codec = scheme.codec(*bits).expect("a codec").expect("coded");
            assert_eq!(codec.bits(), bits.get());
        }
    }
}
