//! What codecs read off a group: range and sums, in fixed lanes so that no instruction set changes a bit.

use super::CodecError;

const RANGE_LANES: usize = 16;
const SUM_LANES: usize = 8;
const INFINITE: u32 = 0x7f80_0000;
const MAGNITUDE: u32 = 0x7fff_ffff;

/// Least and greatest element; both 0 for an empty group, and 0 is never −0.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) min: f32,
    pub(super) max: f32,
}

impl Range {
    #[inline(always)]
    pub(super) fn of(group: &[f32]) -> Result<Self, CodecError> {
        let Some(&first) = group.first() else { return Ok(Self { min: 0.0, max: 0.0 }) };
        let (mut min, mut max) = ([first; RANGE_LANES], [first; RANGE_LANES]);
        let mut magnitude = [0; RANGE_LANES];
        let (chunks, rest) = group.as_chunks::<RANGE_LANES>();
        for chunk in chunks {
            for (i, &x) in chunk.iter().enumerate() {
                min[i] = if x < min[i] { x } else { min[i] };
                max[i] = if x > max[i] { x } else { max[i] };
                magnitude[i] = magnitude[i].max(x.to_bits() & MAGNITUDE);
            }
        }
        for (i, &x) in rest.iter().enumerate() {
            min[i] = if x < min[i] { x } else { min[i] };
            max[i] = if x > max[i] { x } else { max[i] };
            magnitude[i] = magnitude[i].max(x.to_bits() & MAGNITUDE);
        }
        if magnitude.iter().copied().fold(0, u32::max) >= INFINITE {
            return Err(CodecError::NotFinite);
        }
        let min = min.iter().copied().fold(first, f32::min) + 0.0;
        let max = max.iter().copied().fold(first, f32::max) + 0.0;
        Ok(Self { min, max })
    }

    /// (max − min) / `steps` without overflow on the way; infinite only where the quotient itself is.
    #[inline(always)]
    pub(super) fn over(self, steps: f32) -> f32 {
        let span = self.max - self.min;
        if span.is_finite() {
            return span / steps;
        }
        ((f64::from(self.max) - f64::from(self.min)) / f64::from(steps)) as f32
    }
}

/// Σ f(x) in f64, which neither overflows nor loses a constant group's value.
#[inline(always)]
pub(super) fn sum(group: &[f32], f: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0.0; SUM_LANES];
    let (chunks, rest) = group.as_chunks::<SUM_LANES>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += f(f64::from(x));
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f(f64::from(x));
    }
    lanes.iter().sum()
}

/// Arithmetic mean; 0 of nothing.
#[inline(always)]
pub(super) fn mean(group: &[f32]) -> f64 {
    sum(group, |x| x) / group.len().max(1) as f64
}
