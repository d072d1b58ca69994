//! Weighted sums of packed values.

use std::ops::Range;

use super::dense::{lanes_mut, load};
use super::head::PackedHead;
use super::layout::{Layout, Plane};
use super::product::{Strips, accumulate, row_scale};
use super::{LANES, MAX_HEADS};
use crate::isa::Isa;

/// What a tile's tokens are times, whatever the query: made once for a layout.
pub(super) struct ValuePlan {
    /// `[planes][tile_tokens]`: [`row_scale`].
    row_scales: Vec<f32>,
}

/// Buffers of one thread.
#[derive(Default)]
pub(super) struct ValueScratch {
    /// `[tiles]`, each scales, then offsets, of the tile's groups.
    metadata: Vec<f32>,
    /// `[H][tokens]`: weights times the scales of one group and the row scales of one plane.
    folded: Vec<f32>,
    /// Σ weight · offset of one group, one a head.
    offsets: [f32; MAX_HEADS],
}

impl ValuePlan {
    pub(super) fn new(layout: &Layout) -> Self {
        let of_plane = |&plane: &Plane| (0..layout.tile_tokens()).map(move |row| row_scale(plane, row));
        Self { row_scales: layout.planes().iter().flat_map(of_plane).collect() }
    }
}

/// Whether groups begin with strips, so that a strip has one scale.
pub(super) fn groups_are_strips(layout: &Layout) -> bool {
    layout.channel_groups() == 1 || layout.channels(0).len().is_multiple_of(LANES)
}

/// `out[h] += Σ weights[h][t] · v̂[t]` over the tokens of tiles of one stretch.
///
/// # Shapes
/// - `weights`: `[H][tiles * tile_tokens]`, 0 for tokens that are not wanted
/// - `out`: `[H][width]`, `width` = columns · 16
#[inline(always)]
pub(super) fn weigh<I: Isa, const H: usize>(
    isa: I,
    values: &PackedHead,
    plan: &ValuePlan,
    tiles: Range<usize>,
    weights: &[f32],
    scratch: &mut ValueScratch,
    out: &mut [f32],
) {
    let layout = values.layout();
    read_metadata(isa, values, tiles.clone(), &mut scratch.metadata);
    let units = values.units(tiles.clone());
    // The units of one plane are one long tile; those of two planes take turns.
    let per_turn = if layout.planes().len() == 1 { tiles.len() } else { 1 };
    let tokens = per_turn * layout.tile_tokens();
    scratch.folded.resize(H * tokens, 0.0);
    let mut ahead = Ahead::new(layout, &tiles, tiles.len() / per_turn);
    for (turn, units) in units.chunks_exact(per_turn * layout.tile_units()).enumerate() {
        let weights =
            Weights { data: weights, at: turn * tokens, stride: tiles.len() * layout.tile_tokens() };
        for group in 0..layout.channel_groups() {
            let channels = layout.channels(group);
            let columns = channels.start / LANES..channels.end.div_ceil(LANES);
            for (index, &plane) in layout.planes().iter().enumerate() {
                fold::<I, H>(isa, layout, plan, (turn * per_turn, group, index), weights, scratch);
                let units = &units[plane.first..];
                let mut first = columns.start;
                while first < columns.end {
                    values.prefetch(isa, ahead.next());
                    let strips = Strips { plane: plane.of_tiles(per_turn), units, first };
                    first += match columns.end - first {
                        1 => columns_sum::<I, H, 1>(isa, strips, scratch, out),
                        _ => columns_sum::<I, H, 2>(isa, strips, scratch, out),
                    };
                }
            }
        }
    }
}

/// The tiles behind a stretch, a few for each time that its own are worked on.
struct Ahead {
    first: usize,
    tiles: usize,
    times: usize,
    time: usize,
}

impl Ahead {
    fn new(layout: &Layout, tiles: &Range<usize>, turns: usize) -> Self {
        let columns = |group| {
            let channels = layout.channels(group);
            channels.end.div_ceil(LANES) - channels.start / LANES
        };
        let strips: usize = (0..layout.channel_groups()).map(|group| columns(group).div_ceil(2)).sum();
        let times = turns * strips * layout.planes().len();
        debug_assert!(times > 0, "a stretch has tiles");
        Self { first: tiles.end, tiles: tiles.len(), times, time: 0 }
    }

    #[inline(always)]
    fn next(&mut self) -> Range<usize> {
        let at = |time| self.first + self.tiles * time / self.times;
        self.time += 1;
        at(self.time - 1)..at(self.time)
    }
}

/// Weights of consecutive tokens, `H` rows.
#[derive(Clone, Copy)]
struct Weights<'a> {
    data: &'a [f32],
    at: usize,
    stride: usize,
}

#[inline(always)]
fn read_metadata<I: Isa>(isa: I, values: &PackedHead, tiles: Range<usize>, out: &mut Vec<f32>) {
    let layout = values.layout();
    out.resize(tiles.len() * layout.meta_len(), 0.0);
    for (tile, out) in tiles.zip(out.chunks_exact_mut(layout.meta_len())) {
        values.read_metadata(isa, tile, out);
        let (scales, offsets) = out.split_at_mut(layout.meta_len() / 2);
        layout.codec().to_affine(scales, offsets);
    }
}

/// Weights times the scales of a group and the row scales of a plane; with the first plane, times offsets too.
#[inline(always)]
fn fold<I: Isa, const H: usize>(
    isa: I,
    layout: &Layout,
    plan: &ValuePlan,
    (first_tile, group, plane): (usize, usize, usize),
    weights: Weights<'_>,
    scratch: &mut ValueScratch,
) {
    let size = layout.tile_tokens();
    let tokens = scratch.folded.len() / H;
    let row_scales = &plan.row_scales[plane * size..][..size];
    for h in 0..H {
        let weights = &weights.data[h * weights.stride + weights.at..][..tokens];
        let folded = &mut scratch.folded[h * tokens..][..tokens];
        let mut offset = isa.splat(0.0);
        let tiles = weights.chunks_exact(size).zip(folded.chunks_exact_mut(size)).enumerate();
        for (tile, (weights, folded)) in tiles {
            let metadata = &scratch.metadata[(first_tile + tile) * layout.meta_len()..][..layout.meta_len()];
            let (scales, offsets) = metadata.split_at(layout.meta_len() / 2);
            let (scales, offsets) = (&scales[group * size..][..size], &offsets[group * size..][..size]);
            for t in (0..size).step_by(LANES) {
                let weight = load(isa, &weights[t..]);
                let scale = isa.mul(load(isa, &scales[t..]), load(isa, &row_scales[t..]));
                isa.store(isa.mul(weight, scale), lanes_mut(&mut folded[t..]));
                offset = isa.mul_add(weight, load(isa, &offsets[t..]), offset);
            }
        }
        scratch.offsets[h] = if plane == 0 { isa.sum(offset) } else { 0.0 };
    }
}

/// `C` columns; returns C.
#[inline(always)]
fn columns_sum<I: Isa, const H: usize, const C: usize>(
    isa: I,
    strips: Strips<'_>,
    scratch: &ValueScratch,
    out: &mut [f32],
) -> usize {
    let tokens = scratch.folded.len() / H;
    let width = out.len() / H;
    let mut multipliers = [&scratch.folded[..tokens]; H];
    for h in 1..H {
        multipliers[h] = &scratch.folded[h * tokens..][..tokens];
    }
    let mut sums = [[isa.splat(0.0); C]; H];
    for h in 0..H {
        sums[h] = [isa.splat(scratch.offsets[h]); C];
    }
    accumulate(isa, strips, multipliers, 0..tokens, &mut sums);
    for h in 0..H {
        for c in 0..C {
            let at = lanes_mut(&mut out[h * width + (strips.first + c) * LANES..]);
            let sum = isa.add(isa.load(at), sums[h][c]);
            isa.store(sum, at);
        }
    }
    C
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Codec, CodecOptions};

    #[test]
    fn every_tile_behind_a_stretch_is_asked_for_once() {
        for bits in [4, 3] {
            let codec = Codec::new(bits, CodecOptions::default()).expect("a codec");
            let layout = Layout::values(codec, 64, 32);
            // Two groups of two strips, side by side; two planes take turns tile by tile.
            let (planes, turns) = (layout.planes().len(), if bits == 3 { 4 } else { 1 });
            let mut ahead = Ahead::new(&layout, &(8..12), turns);
            let asked: Vec<usize> = (0..2 * turns * planes).flat_map(|_| ahead.next()).collect();
            assert_eq!(asked, [12, 13, 14, 15], "{bits} bits");
        }
    }
}
