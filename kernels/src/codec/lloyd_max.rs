//! Levels that minimize the squared error of a normal distribution, placed by the group's mean and deviation.
//!
//! Source of the levels: Max 1960, Lloyd 1982 (N(0, 1), symmetric). Their mean squared errors at 1 to 4 bits
//! are 0.3634, 0.1175, 0.0345 and 0.0095 of the variance.

use super::{CodecError, Meta, Metadata, statistics};

/// Positive levels of N(0, 1) at 1, 2, 3 and 4 bits.
const POSITIVE: [&[f64]; 4] = [
    &[0.797_885],
    &[0.452_780, 1.510_418],
    &[0.245_094, 0.756_005, 1.343_909, 2.151_946],
    &[0.128_395, 0.388_048, 0.656_759, 0.942_340, 1.256_231, 1.618_046, 2.069_017, 2.732_590],
];
const MOST: usize = 16;

/// A group's levels and the bounds between them.
pub(super) struct LloydMax {
    meta: Meta,
    /// Midpoints between neighboring levels; a code is how many of them an element reaches. Unused ones are
    /// infinite, and all are where the deviation is 0, so that every code is 0 there.
    bounds: [f32; MOST - 1],
    pub(super) values: [f32; MOST],
}

impl LloydMax {
    #[inline(always)]
    pub(super) fn fit(group: &[f32], bits: u8, metadata: Metadata) -> Result<Self, CodecError> {
        let mean = statistics::mean(group);
        let squares = statistics::sum(group, |x| (x - mean) * (x - mean));
        let deviation = (squares / group.len().max(1) as f64).sqrt();
        let first = metadata.store("deviation", deviation as f32)?;
        let second = metadata.store("mean", mean as f32)?;
        let meta = Meta { first, second };
        Ok(Self { meta, bounds: bounds(meta, bits), values: values(meta, bits) })
    }

    pub(super) fn meta(&self) -> Meta {
        self.meta
    }

    #[inline(always)]
    pub(super) fn code(&self, x: f32) -> u8 {
        self.bounds.iter().map(|&bound| u8::from(x >= bound)).sum()
    }
}

/// What each code stands for; 0 beyond the last.
pub(super) fn values(meta: Meta, bits: u8) -> [f32; MOST] {
    let mut values = [0.0; MOST];
    for (code, value) in values.iter_mut().enumerate().take(1 << bits) {
        *value = place(meta, level(bits, code)).clamp(-f32::MAX, f32::MAX);
    }
    values
}

#[inline(always)]
pub(super) fn value(values: &[f32; MOST], code: u8) -> f32 {
    values[usize::from(code) % MOST]
}

fn bounds(meta: Meta, bits: u8) -> [f32; MOST - 1] {
    let mut bounds = [f32::INFINITY; MOST - 1];
    if meta.first > 0.0 {
        for (code, bound) in bounds.iter_mut().enumerate().take((1 << bits) - 1) {
            *bound = place(meta, (level(bits, code) + level(bits, code + 1)) / 2.0);
        }
    }
    bounds
}

fn place(meta: Meta, level: f64) -> f32 {
    (f64::from(meta.second) + f64::from(meta.first) * level) as f32
}

/// Level of a code, of a standard normal distribution.
fn level(bits: u8, code: usize) -> f64 {
    let positive = POSITIVE[usize::from(bits) - 1];
    let half = positive.len();
    if code < half { -positive[half - 1 - code] } else { positive[code - half] }
}
