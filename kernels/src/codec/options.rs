use half::f16;
use serde::{Deserialize, Serialize};

use super::CodecError;

/// Conventions of a codec; the default is the product's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodecOptions {
    /// Zero-point convention.
    pub zero: Zero,
    /// Type that a group's two numbers are stored in.
    pub metadata: Metadata,
    /// Codec at one bit.
    pub one_bit: OneBit,
    /// Where the levels lie; `lloyd-max` takes precedence over `one_bit`.
    pub codebook: Codebook,
}

/// Zero-point convention of uniform codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Zero {
    /// z = min x, as the paper writes it.
    #[default]
    Float,
    /// An integer offset of the grid, as the published code does; `metadata: f32` only.
    Rounded,
}

/// Type that scale and zero point (or the two levels) are stored in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metadata {
    /// Two bytes each.
    #[default]
    F16,
    /// Four bytes each.
    F32,
}

/// Codec at one bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OneBit {
    /// The means of the elements at or above the group's mean, and below it (**ours**).
    #[default]
    TwoLevel,
    /// Minimum and maximum: the paper's formula at B = 1, worse than storing the mean alone.
    Rtn,
}

/// Where the levels of a code lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Codebook {
    /// Evenly between minimum and maximum.
    #[default]
    Uniform,
    /// The optimum for a normal distribution of the group's mean and deviation; widths 1 to 4.
    LloydMax,
}

/// A codec that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecOptionsError {
    /// A width without a codec; 16 bits are not coded at all.
    #[error("no codec has {found} bits, expected one of 1, 2, 3, 4, 5, 6, 8")]
    Bits {
        /// The width asked for.
        found: u8,
    },
    /// A rounded zero point is meaningless once it is rounded again.
    #[error(
        "`metadata` is `f16`, but `zero: rounded` is defined for `f32` only\n\nhint: set `metadata: f32`"
    )]
    RoundedNeedsF32,
    /// Two answers to where the levels lie.
    #[error(
        "`zero` is `rounded`, but `codebook: lloyd-max` has no zero point\n\nhint: set `zero: float` or `codebook: uniform`"
    )]
    RoundedLloydMax,
    /// Levels are tabulated up to 4 bits.
    #[error(
        "`codebook: lloyd-max` is asked for {found} bits, expected 1 to 4\n\nhint: set `codebook: uniform`, or leave wider pairs out"
    )]
    LloydMax {
        /// The width asked for.
        found: u8,
    },
}

impl CodecOptions {
    /// Whether the options go together, at any width.
    ///
    /// # Errors
    /// [`CodecOptionsError`] where they exclude each other.
    pub fn check(self) -> Result<(), CodecOptionsError> {
        match self {
            Self { zero: Zero::Rounded, codebook: Codebook::LloydMax, .. } => {
                Err(CodecOptionsError::RoundedLloydMax)
            }
            Self { zero: Zero::Rounded, metadata: Metadata::F16, .. } => {
                Err(CodecOptionsError::RoundedNeedsF32)
            }
            _ => Ok(()),
        }
    }
}

impl Metadata {
    /// Bytes of one stored number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 => 4,
        }
    }

    /// `x` as it is stored; `x` is finite.
    #[inline(always)]
    pub(super) fn store(self, what: &'static str, x: f32) -> Result<f32, CodecError> {
        match self {
            Self::F32 => Ok(x),
            Self::F16 => {
                let stored = f16::from_f32(x).to_f32();
                if stored.is_finite() { Ok(stored) } else { Err(CodecError::BeyondF16 { what, value: x }) }
            }
        }
    }
}
