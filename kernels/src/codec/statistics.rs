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
        let mut ranges = Ranges::of_first(&[first; RANGE_LANES]);
        let (chunks, rest) = group.as_chunks::<RANGE_LANES>();
        for chunk in chunks {
            ranges.include(chunk);
        }
        for &x in rest {
            ranges.include_one(0, x);
        }
        let mut half = RANGE_LANES / 2;
        while half > 0 {
            for i in 0..half {
                ranges.merge(i, i + half);
            }
            half /= 2;
        }
        ranges.at(0)
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

/// Ranges of several groups side by side, or of the lanes of one.
pub(super) struct Ranges<const N: usize> {
    min: [f32; N],
    max: [f32; N],
    /// Greatest magnitude as bits, which order like the numbers; NaN and infinity are the greatest of all.
    magnitude: [u32; N],
}

impl<const N: usize> Ranges<N> {
    #[inline(always)]
    pub(super) fn of_first(first: &[f32; N]) -> Self {
        Self { min: *first, max: *first, magnitude: [0; N] }
    }

    /// Takes one element a group.
    #[inline(always)]
    pub(super) fn include(&mut self, elements: &[f32; N]) {
        for (i, &x) in elements.iter().enumerate() {
            self.include_one(i, x);
        }
    }

    #[inline(always)]
    fn include_one(&mut self, group: usize, x: f32) {
        self.min[group] = min(self.min[group], x);
        self.max[group] = max(self.max[group], x);
        self.magnitude[group] = self.magnitude[group].max(x.to_bits() & MAGNITUDE);
    }

    #[inline(always)]
    fn merge(&mut self, into: usize, from: usize) {
        self.min[into] = min(self.min[into], self.min[from]);
        self.max[into] = max(self.max[into], self.max[from]);
        self.magnitude[into] = self.magnitude[into].max(self.magnitude[from]);
    }

    #[inline(always)]
    pub(super) fn at(&self, group: usize) -> Result<Range, CodecError> {
        if self.magnitude[group] >= INFINITE {
            return Err(CodecError::NotFinite);
        }
        Ok(Range { min: self.min[group] + 0.0, max: self.max[group] + 0.0 })
    }
}

/// The smaller of two numbers, in the form that is one instruction.
#[inline(always)]
fn min(a: f32, b: f32) -> f32 {
    if b < a { b } else { a }
}

#[inline(always)]
fn max(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
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
