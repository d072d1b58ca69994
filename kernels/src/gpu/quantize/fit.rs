//! One group's grid, and an element's code on it: what `Codec::encode` does, bit for bit.

use cubecl::prelude::*;

use super::kernel::Part;
use crate::gpu::number::{half_bits, half_value, quotient};
use crate::gpu::packing::{Family, Packing};

/// Kinds of faults, as the kernel writes them.
pub(super) const NOT_FINITE: u32 = 1;
pub(super) const RANGE: u32 = 2;

const INFINITE: u32 = 0x7f80_0000;

/// Partial sums that means are taken from, as on the CPU, since the order of a sum is part of its value.
const SUMS: usize = 8;

/// The fitted groups of a page.
#[derive(CubeType)]
pub(super) struct Grids {
    pub(super) first: SharedMemory<f32>,
    pub(super) second: SharedMemory<f32>,
    /// Of two levels: the least number that is coded 1.
    threshold: SharedMemory<f32>,
}

#[cube]
impl Grids {
    pub(super) fn new(#[comptime] packing: Packing) -> Self {
        let groups = comptime!(packing.page_groups());
        let thresholds = comptime!(if packing.family == Family::TwoLevel { groups } else { 1 });
        Grids {
            first: SharedMemory::new(groups),
            second: SharedMemory::new(groups),
            threshold: SharedMemory::new(thresholds),
        }
    }
}

/// One group of a page: where its elements are.
#[derive(CubeType)]
pub(super) struct Group {
    index: usize,
    pub(super) token: u32,
    channel: u32,
    length: u32,
}

#[cube]
impl Group {
    pub(super) fn at(index: u32, #[comptime] packing: Packing) -> Self {
        let tokens = comptime!(packing.page as u32).runtime();
        let (mut token, mut channel, mut length) = (0u32, index, tokens);
        if comptime!(!packing.per_channel) {
            let size = comptime!(packing.group as u32).runtime();
            token = index % tokens;
            channel = index / tokens * size;
            length = min(size, comptime!(packing.tile.head_dim as u32) - channel);
        }
        Group { index: index as usize, token, channel, length }
    }

    fn element(&self, rows: &Array<f32>, part: &Part, i: u32, #[comptime] packing: Packing) -> f32 {
        let (mut token, mut channel) = (self.token + i, self.channel);
        if comptime!(!packing.per_channel) {
            token = self.token;
            channel = self.channel + i;
        }
        rows[part.at(token, channel)]
    }
}

/// Fits one group and keeps its grid; 0, or what is wrong with it.
#[cube]
pub(super) fn fit(
    rows: &Array<f32>,
    part: &Part,
    grids: &mut Grids,
    group: &Group,
    #[comptime] packing: Packing,
) -> u32 {
    let mut low = group.element(rows, part, 0, packing);
    let mut high = low;
    let mut magnitude = 0u32;
    for i in 0..group.length {
        let x = group.element(rows, part, i, packing);
        low = min(low, x);
        high = max(high, x);
        magnitude = max(magnitude, x.to_bits() & 0x7fff_ffff);
    }
    if magnitude >= INFINITE {
        NOT_FINITE.runtime()
    } else if comptime!(packing.family == Family::Uniform) {
        uniform(grids, group, low, high, packing)
    } else {
        two_level(rows, part, grids, group, packing)
    }
}

/// Scale and zero from a group's range.
#[cube]
fn uniform(grids: &mut Grids, group: &Group, low: f32, high: f32, #[comptime] packing: Packing) -> u32 {
    let span = high - low;
    let mut scale = f32::new(0.0);
    if span > f32::new(0.0) {
        scale = quotient(span, comptime!(top(packing)));
    }
    // No −0, so that equal ranges have equal bits.
    let zero = select(low.to_bits() << 1 == 0, f32::new(0.0), low);
    keep(grids, group, scale, zero, (scale * comptime!(top(packing))).to_bits() >= INFINITE, packing)
}

/// The means of the elements at or above the group's mean and below it, in f64 as on the CPU.
#[cube]
fn two_level(
    rows: &Array<f32>,
    part: &Part,
    grids: &mut Grids,
    group: &Group,
    #[comptime] packing: Packing,
) -> u32 {
    let mut sums = Array::<f64>::new(SUMS);
    let mut above = Array::<f64>::new(SUMS);
    let mut below = Array::<f64>::new(SUMS);
    for i in 0..SUMS {
        sums[i] = f64::new(0.0);
        above[i] = f64::new(0.0);
        below[i] = f64::new(0.0);
    }
    for i in 0..group.length {
        sums[i as usize % SUMS] += f64::cast_from(group.element(rows, part, i, packing));
    }
    let mean = total(&sums) / f64::cast_from(group.length);
    let mut count = 0u32;
    for i in 0..group.length {
        let x = f64::cast_from(group.element(rows, part, i, packing));
        if x >= mean {
            above[i as usize % SUMS] += x;
            count += 1;
        } else {
            below[i as usize % SUMS] += x;
        }
    }
    let low = level(total(&below), group.length - count, mean);
    let high = level(total(&above), count, mean);
    grids.threshold[group.index] = at_least(mean);
    keep(grids, group, low, high, false, packing)
}

#[cube]
fn total(sums: &Array<f64>) -> f64 {
    let mut total = sums[0];
    for i in 1..SUMS {
        total += sums[i];
    }
    total
}

#[cube]
fn level(total: f64, count: u32, mean: f64) -> f32 {
    let mut level = mean;
    if count > 0 {
        level = total / f64::cast_from(count);
    }
    f32::cast_from(level)
}

/// The least f32 that is not below `x`.
#[cube]
fn at_least(x: f64) -> f32 {
    let mut bits = f32::cast_from(x).to_bits();
    if f64::cast_from(f32::from_bits(bits)) < x {
        if bits >> 31 == 1 {
            bits -= 1;
        } else {
            bits += 1;
        }
    }
    f32::from_bits(bits)
}

/// Stores a group's two numbers as the metadata will hold them; [`RANGE`] where it cannot.
#[cube]
fn keep(
    grids: &mut Grids,
    group: &Group,
    first: f32,
    second: f32,
    beyond: bool,
    #[comptime] packing: Packing,
) -> u32 {
    let mut fault = 0u32;
    if comptime!(packing.f16) {
        let (a, b) = (half_bits(first), half_bits(second));
        if max(a & 0x7fff, b & 0x7fff) >= 0x7c00 {
            fault = RANGE.runtime();
        }
        grids.first[group.index] = half_value(a);
        grids.second[group.index] = half_value(b);
    } else {
        grids.first[group.index] = first;
        grids.second[group.index] = second;
    }
    if beyond {
        fault = RANGE.runtime();
    }
    fault
}

/// The code of an element of the page.
#[cube]
pub(super) fn code(x: f32, grids: &Grids, token: u32, channel: u32, #[comptime] packing: Packing) -> u32 {
    let mut group = channel;
    if comptime!(!packing.per_channel) {
        group = channel / comptime!(packing.group as u32) * comptime!(packing.page as u32) + token;
    }
    let group = group as usize;
    if comptime!(packing.family == Family::TwoLevel) {
        select(x >= grids.threshold[group], 1u32, 0u32)
    } else {
        steps(x - grids.second[group], grids.first[group], packing)
    }
}

/// `offset / scale` to the nearest whole number, ties to even, between 0 and the greatest code.
#[cube]
fn steps(offset: f32, scale: f32, #[comptime] packing: Packing) -> u32 {
    let top = comptime!(top(packing)).runtime();
    let mut steps = f32::new(0.0);
    if scale > f32::new(0.0) {
        if offset >= scale * top {
            steps = top;
        } else if offset > scale * f32::new(0.25) {
            steps = quotient(offset, scale).round();
        }
    }
    u32::cast_from(steps)
}

/// 2ᴮ − 1, the greatest code.
fn top(packing: Packing) -> f32 {
    ((1_u32 << packing.tile.bits) - 1) as f32
}
