//! Bytes of a tensor → f32.

use half::{bf16, f16};

use crate::model::TensorProblem;

/// Formats of one number each, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    F32,
    F16,
    Bf16,
}

impl Element {
    /// All whole elements of `bytes`.
    pub(super) fn decode(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            Self::F32 => bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect(),
            Self::F16 => bytes.as_chunks().0.iter().map(|&b| f16::from_le_bytes(b).to_f32()).collect(),
            Self::Bf16 => bytes.as_chunks().0.iter().map(|&b| bf16::from_le_bytes(b).to_f32()).collect(),
        }
    }
}

/// Passes weights on if all are finite.
pub(super) fn finite(weights: Vec<f32>) -> Result<Vec<f32>, TensorProblem> {
    match weights.iter().position(|weight| !weight.is_finite()) {
        None => Ok(weights),
        Some(index) => Err(TensorProblem::NotFinite { index, found: weights[index].to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_widens_exactly() {
        assert_eq!(Element::F32.decode(&1.5f32.to_le_bytes()), [1.5]);
        assert_eq!(Element::F16.decode(&[0x00, 0x3c, 0x00, 0xc0]), [1.0, -2.0]);
        assert_eq!(Element::Bf16.decode(&[0x80, 0x3f, 0x20, 0xc0]), [1.0, -2.5]);
    }

    #[test]
    fn the_first_weight_that_is_not_finite_is_named() {
        let problem = finite(vec![0.0, f32::NAN, f32::INFINITY]).expect_err("NaN is no weight");
        assert_eq!(problem, TensorProblem::NotFinite { index: 1, found: "NaN".into() });
        assert_eq!(finite(vec![0.0, -1.0]), Ok(vec![0.0, -1.0]));
    }
}
