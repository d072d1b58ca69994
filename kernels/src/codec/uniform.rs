//! Evenly spaced levels between minimum and maximum, in both zero-point conventions.

use super::statistics::Range;
use super::{CodecError, Meta, Metadata};

/// 1.5 · 2²³: adding it to a small f32 rounds to an integer, ties to even, and leaves that in the low bits.
const MAGIC: f32 = 12_582_912.0;

/// `zero: float`, x̂ = q·s + z.
#[derive(Clone, Copy)]
pub(super) struct Uniform {
    pub(super) scale: f32,
    pub(super) zero: f32,
    /// The scale, or infinity where it is 0, so that every code is 0 there.
    pub(super) divisor: f32,
    /// The greatest code.
    pub(super) top: f32,
}

impl Uniform {
    #[inline(always)]
    pub(super) fn fit(range: Range, bits: u8, metadata: Metadata) -> Result<Self, CodecError> {
        let scale = range.over(top(bits));
        if !scale.is_finite() {
            return Err(CodecError::BeyondF32 { what: "scale", min: range.min, max: range.max });
        }
        let first = metadata.store("scale", scale)?;
        let second = metadata.store("zero", range.min)?;
        Ok(Self::from_meta(Meta { first, second }, bits))
    }

    #[inline(always)]
    pub(super) fn from_meta(meta: Meta, bits: u8) -> Self {
        let Meta { first: scale, second: zero } = meta;
        let divisor = if scale > 0.0 { scale } else { f32::INFINITY };
        Self { scale, zero, divisor, top: top(bits) }
    }

    pub(super) fn meta(&self) -> Meta {
        Meta { first: self.scale, second: self.zero }
    }

    /// Whether q·s can leave f32's range, so that codes and values are computed in f64.
    #[inline(always)]
    pub(super) fn is_wide(&self) -> bool {
        !(self.scale * self.top).is_finite()
    }

    #[inline(always)]
    pub(super) fn code(&self, x: f32) -> u8 {
        nearest(clamp((x - self.zero) / self.divisor, 0.0, self.top))
    }

    #[inline(always)]
    pub(super) fn value(&self, code: u8) -> f32 {
        clamp(f32::from(code) * self.scale + self.zero, -f32::MAX, f32::MAX)
    }

    pub(super) fn wide_code(&self, x: f32) -> u8 {
        let steps = (f64::from(x) - f64::from(self.zero)) / f64::from(self.divisor);
        steps.round_ties_even().clamp(0.0, f64::from(self.top)) as u8
    }

    pub(super) fn wide_value(&self, code: u8) -> f32 {
        let value = f64::from(code) * f64::from(self.scale) + f64::from(self.zero);
        value.clamp(f64::from(-f32::MAX), f64::from(f32::MAX)) as f32
    }
}

/// `zero: rounded`, x̂ = (q + z)·s with signed q and a whole number z; metadata in f32.
#[derive(Clone, Copy)]
pub(super) struct Rounded {
    scale: f32,
    zero: f32,
    /// The least q, −2^(B−1); codes are stored as q − bottom.
    bottom: f32,
    top: f32,
}

impl Rounded {
    #[inline(always)]
    pub(super) fn fit(range: Range, bits: u8) -> Result<Self, CodecError> {
        let steps = top(bits);
        let scale = if range.max - range.min < 1e-5 { 1e-5 / steps } else { range.over(steps) };
        let zero = (range.min / scale).round_ties_even() - bottom(bits);
        for (what, number) in [("scale", scale), ("zero", zero)] {
            if !number.is_finite() {
                return Err(CodecError::BeyondF32 { what, min: range.min, max: range.max });
            }
        }
        Ok(Self::from_meta(Meta { first: scale, second: zero }, bits))
    }

    #[inline(always)]
    pub(super) fn from_meta(meta: Meta, bits: u8) -> Self {
        let bottom = bottom(bits);
        Self { scale: meta.first, zero: meta.second, bottom, top: top(bits) + bottom }
    }

    pub(super) fn meta(&self) -> Meta {
        Meta { first: self.scale, second: self.zero }
    }

    #[inline(always)]
    pub(super) fn code(&self, x: f32) -> u8 {
        let q = clamp(x / self.scale - self.zero, self.bottom, self.top);
        nearest((q + MAGIC) - MAGIC - self.bottom)
    }

    #[inline(always)]
    pub(super) fn value(&self, code: u8) -> f32 {
        let q = f32::from(code) + self.bottom;
        clamp((q + self.zero) * self.scale, -f32::MAX, f32::MAX)
    }
}

/// 2ᴮ − 1, the greatest code.
#[inline(always)]
fn top(bits: u8) -> f32 {
    ((1_u32 << bits) - 1) as f32
}

/// −2^(B−1), the least signed code.
#[inline(always)]
pub(super) fn bottom(bits: u8) -> f32 {
    -((1_u32 << (bits - 1)) as f32)
}

/// `f32::clamp` for bounds that are no NaN, without its check.
#[inline(always)]
fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > low { x } else { low };
    if x < high { x } else { high }
}

/// The nearest whole number of a value in 0..=255, ties to even.
#[inline(always)]
fn nearest(x: f32) -> u8 {
    (x + MAGIC).to_bits() as u8
}
