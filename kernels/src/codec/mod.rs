//! One group of numbers as codes of 1 to 8 bits, and back.
//!
//! A [`Codec`] is a width and the conventions of [`CodecOptions`]. All of its operations share one arithmetic:
//! [`Codec::fake_quant`] gives bit for bit what [`Codec::encode`] and [`Codec::decode`] give, on every
//! instruction set, so a cache that keeps codes and one that keeps what they stand for hold the same numbers. No
//! finite input gives NaN or infinity.
//!
//! | width and options | levels | metadata of a group ([`Meta`]) |
//! |---|---|---|
//! | `zero: float` | `q·s + z`, z = min, s = range / (2ᴮ − 1) | scale, zero |
//! | `zero: rounded` | `(q + z)·s`, z an integer | scale, zero |
//! | 1 bit, `one_bit: two-level` | two conditional means | low, high |
//! | `codebook: lloyd-max` | mean + deviation · the optimum for a normal distribution | deviation, mean |
//!
//! Source: KVTuner (Li et al., ICML 2025, arXiv:2502.04420); `rounded` is what its published code does.
//! Two-level, Lloyd–Max and the rounding of metadata before coding are **ours**.

mod columns;
mod lloyd_max;
mod options;
mod statistics;
mod two_level;
mod uniform;

use pulp::Arch;

use lloyd_max::LloydMax;
pub use options::{Codebook, CodecOptions, CodecOptionsError, Metadata, OneBit, Zero};
use two_level::{Levels, TwoLevel};
use uniform::{Rounded, Uniform};

/// A width and how its levels lie; see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    bits: u8,
    metadata: Metadata,
    family: Family,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Uniform,
    Rounded,
    TwoLevel,
    LloydMax,
}

/// The two numbers stored with a group's codes, already rounded to the codec's [`Metadata`] type.
///
/// What they mean depends on the codec, see the table of the [module](self).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meta {
    /// Scale, low level, or deviation.
    pub first: f32,
    /// Zero, high level, or mean.
    pub second: f32,
}

/// A group that cannot be coded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CodecError {
    /// A number of the metadata is too large for f16.
    #[error("the {what} {value:e} does not fit f16\n\nhint: set `metadata: f32`")]
    BeyondF16 {
        /// Scale, zero, level, deviation or mean.
        what: &'static str,
        /// The number.
        value: f32,
    },
    /// A number of the metadata is too large even for f32.
    #[error(
        "the {what} of a group from {min:e} to {max:e} does not fit f32\n\nhint: set `zero: float` and `one_bit: two-level`"
    )]
    BeyondF32 {
        /// Scale or zero.
        what: &'static str,
        /// Least element.
        min: f32,
        /// Greatest element.
        max: f32,
    },
    /// NaN or infinity.
    #[error("the group holds NaN or infinity")]
    NotFinite,
}

/// Which of several groups cannot be coded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("group {group}: {error}")]
pub struct GroupError {
    /// Number of the group, from 0.
    pub group: usize,
    /// Why.
    pub error: CodecError,
}

impl GroupError {
    /// The same error where `groups` groups come before those that were coded.
    pub fn after(mut self, groups: usize) -> Self {
        self.group += groups;
        self
    }
}

/// A group's levels, chosen from its elements.
enum Fitted {
    Uniform(Uniform),
    Wide(Uniform),
    Rounded(Rounded),
    TwoLevel(TwoLevel),
    LloydMax(LloydMax),
}

impl Codec {
    /// A codec of `bits` bits.
    ///
    /// # Errors
    /// [`CodecOptionsError`] for a width that no codec has, or options that exclude each other.
    pub fn new(bits: u8, options: CodecOptions) -> Result<Self, CodecOptionsError> {
        options.check()?;
        if !matches!(bits, 1..=6 | 8) {
            return Err(CodecOptionsError::Bits { found: bits });
        }
        let family = match (options.codebook, options.zero) {
            (Codebook::LloydMax, _) if bits > 4 => return Err(CodecOptionsError::LloydMax { found: bits }),
            (Codebook::LloydMax, _) => Family::LloydMax,
            _ if bits == 1 && options.one_bit == OneBit::TwoLevel => Family::TwoLevel,
            (_, Zero::Rounded) => Family::Rounded,
            _ => Family::Uniform,
        };
        Ok(Self { bits, metadata: options.metadata, family })
    }

    /// Bits of one code.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Type that the metadata is stored in.
    pub fn metadata(&self) -> Metadata {
        self.metadata
    }

    /// Codes of one group, each below 2ᴮ, and the group's metadata.
    ///
    /// # Shapes
    /// `codes` is as long as `group`; what stands beyond the shorter of the two is left alone.
    ///
    /// # Errors
    /// [`CodecError`] where the metadata does not fit its type, or an element is not finite.
    pub fn encode(&self, group: &[f32], codes: &mut [u8]) -> Result<Meta, CodecError> {
        Arch::new().dispatch(
            #[inline(always)]
            || {
                let fitted = self.fit(group)?;
                match &fitted {
                    Fitted::Uniform(grid) => each(group, codes, |x| grid.code(x)),
                    Fitted::Wide(grid) => each(group, codes, |x| grid.wide_code(x)),
                    Fitted::Rounded(grid) => each(group, codes, |x| grid.code(x)),
                    Fitted::TwoLevel(grid) => each(group, codes, |x| grid.code(x)),
                    Fitted::LloydMax(grid) => each(group, codes, |x| grid.code(x)),
                }
                Ok(fitted.meta())
            },
        )
    }

    /// The group that `codes` stand for, given what [`encode`](Self::encode) returned with them.
    ///
    /// # Shapes
    /// `group` is as long as `codes`; what stands beyond the shorter of the two is left alone.
    pub fn decode(&self, codes: &[u8], meta: Meta, group: &mut [f32]) {
        Arch::new().dispatch(
            #[inline(always)]
            || match self.family {
                Family::Uniform => {
                    let grid = Uniform::from_meta(meta, self.bits);
                    match grid.is_wide() {
                        false => each(codes, group, |code| grid.value(code)),
                        true => each(codes, group, |code| grid.wide_value(code)),
                    }
                }
                Family::Rounded => {
                    let grid = Rounded::from_meta(meta, self.bits);
                    each(codes, group, |code| grid.value(code));
                }
                Family::TwoLevel => {
                    let levels = Levels::from_meta(meta);
                    each(codes, group, |code| levels.value(code));
                }
                Family::LloydMax => {
                    let levels = lloyd_max::values(meta, self.bits);
                    each(codes, group, |code| lloyd_max::value(&levels, code));
                }
            },
        );
    }

    /// One group as it reads after coding: quantized and dequantized in place.
    ///
    /// # Errors
    /// As [`encode`](Self::encode); the group is then unchanged.
    pub fn fake_quant(&self, group: &mut [f32]) -> Result<(), CodecError> {
        Arch::new().dispatch(
            #[inline(always)]
            || self.fake_quant_inline(group),
        )
    }

    /// Consecutive groups of `size` elements in place; the last may be shorter, and is not padded.
    ///
    /// # Errors
    /// The first group that cannot be coded; those before it have changed. `size` 0 counts as one group of all.
    pub fn fake_quant_groups(&self, data: &mut [f32], size: usize) -> Result<(), GroupError> {
        let size = if size == 0 { data.len().max(1) } else { size };
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (group, elements) in data.chunks_mut(size).enumerate() {
                    self.fake_quant_inline(elements).map_err(|error| GroupError { group, error })?;
                }
                Ok(())
            },
        )
    }

    /// Whether codes stand for `scale · code + offset`; see [`to_affine`](Self::to_affine).
    pub fn is_affine(&self) -> bool {
        self.family != Family::LloydMax
    }

    /// Turns the metadata of many groups, first and second numbers apart, into scales and offsets, for codecs
    /// that [are affine](Self::is_affine); others are left alone.
    ///
    /// `scale · code + offset` is what [`decode`](Self::decode) gives, up to rounding.
    pub fn to_affine(&self, first: &mut [f32], second: &mut [f32]) {
        let bottom = uniform::bottom(self.bits);
        for (first, second) in first.iter_mut().zip(second) {
            match self.family {
                Family::Uniform | Family::LloydMax => {}
                Family::Rounded => *second = (*second + bottom) * *first,
                Family::TwoLevel => (*first, *second) = (*second - *first, *first),
            }
        }
    }

    #[inline(always)]
    fn fake_quant_inline(&self, group: &mut [f32]) -> Result<(), CodecError> {
        match self.fit(group)? {
            Fitted::Uniform(grid) => map(group, |x| grid.value(grid.code(x))),
            Fitted::Wide(grid) => map(group, |x| grid.wide_value(grid.wide_code(x))),
            Fitted::Rounded(grid) => map(group, |x| grid.value(grid.code(x))),
            Fitted::TwoLevel(grid) => map(group, |x| grid.levels.value(grid.code(x))),
            Fitted::LloydMax(grid) => map(group, |x| lloyd_max::value(&grid.values, grid.code(x))),
        }
        Ok(())
    }

    #[inline(always)]
    fn fit(&self, group: &[f32]) -> Result<Fitted, CodecError> {
        let Self { bits, metadata, family } = *self;
        let range = statistics::Range::of(group)?;
        Ok(match family {
            Family::Uniform => {
                let grid = Uniform::fit(range, bits, metadata)?;
                if grid.is_wide() { Fitted::Wide(grid) } else { Fitted::Uniform(grid) }
            }
            Family::Rounded => Fitted::Rounded(Rounded::fit(range, bits)?),
            Family::TwoLevel => Fitted::TwoLevel(TwoLevel::fit(group, metadata)?),
            Family::LloydMax => Fitted::LloydMax(LloydMax::fit(group, bits, metadata)?),
        })
    }
}

impl Fitted {
    fn meta(&self) -> Meta {
        match self {
            Self::Uniform(grid) | Self::Wide(grid) => grid.meta(),
            Self::Rounded(grid) => grid.meta(),
            Self::TwoLevel(grid) => grid.levels.meta(),
            Self::LloydMax(grid) => grid.meta(),
        }
    }
}

#[inline(always)]
fn each<A: Copy, B>(from: &[A], to: &mut [B], f: impl Fn(A) -> B) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = f(from);
    }
}

#[inline(always)]
fn map(group: &mut [f32], f: impl Fn(f32) -> f32) {
    for x in group {
        *x = f(*x);
    }
}

#[cfg(test)]
mod tests;
