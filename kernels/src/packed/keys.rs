//! Scores of packed keys.

use std::ops::Range;

use super::dense::{lanes_mut, load};
use super::head::PackedHead;
use super::layout::{Groups, Layout};
use super::product::{Strips, accumulate, row_scale};
use super::{LANES, MAX_HEADS, Unit};
use crate::isa::Isa;

/// Up to [`MAX_HEADS`] query heads as the keys' layout wants them; made once, used for every tile.
pub(super) struct KeyQuery {
    /// `[heads][width]`, zeros beyond `head_dim`.
    plain: Vec<f32>,
    /// `[planes][heads][width]`: the queries times [`row_scale`].
    scaled: Vec<f32>,
    /// `[groups][heads]`: Σ of the queries over the channels of a group.
    sums: Vec<f32>,
    width: usize,
}

/// Buffers of one thread.
#[derive(Default)]
pub(super) struct KeyScratch {
    /// Scales, then offsets, of the tile's groups.
    metadata: Vec<f32>,
    /// Where groups run along tokens: `KeyQuery::scaled` times their scales, one a channel.
    folded: Vec<f32>,
    /// And Σ query · offset, one a head.
    base: [f32; MAX_HEADS],
}

impl KeyQuery {
    /// # Shapes
    /// - `q`: `[heads][width]`, zeros beyond `head_dim`
    pub(super) fn new(layout: &Layout, q: &[f32], width: usize) -> Self {
        let head_dim = layout.head_dim();
        let mut scaled = Vec::with_capacity(layout.planes().len() * q.len());
        for &plane in layout.planes() {
            let of_head = |q: &[f32]| -> Vec<f32> {
                let scales = (0..width).map(|c| if c < head_dim { row_scale(plane, c) } else { 0.0 });
                q.iter().zip(scales).map(|(q, scale)| q * scale).collect()
            };
            scaled.extend(q.chunks_exact(width).flat_map(of_head));
        }
        let of_group = |group| q.chunks_exact(width).map(move |q| q[layout.channels(group)].iter().sum());
        let sums = (0..layout.channel_groups()).flat_map(of_group).collect();
        Self { plain: q.to_vec(), scaled, sums, width }
    }
}

/// `out[h][tile][lane] = q[h] · k̂[token]` for all lanes of tiles of one stretch.
///
/// # Shapes
/// - `out`: `[H][tiles][columns * 16]`
#[inline(always)]
pub(super) fn scores<I: Isa, const H: usize>(
    isa: I,
    keys: &PackedHead,
    query: &KeyQuery,
    tiles: Range<usize>,
    scratch: &mut KeyScratch,
    out: &mut [f32],
) {
    let layout = keys.layout();
    let width = layout.columns() * LANES;
    let stride = tiles.len() * width;
    let units = keys.units(tiles.clone()).chunks_exact(layout.tile_units());
    let mut known = None;
    for (index, units) in units.enumerate() {
        // The stretch behind this one, tile by tile.
        keys.prefetch(isa, tiles.end + index..tiles.end + index + 1);
        let metadata = keys.metadata_of(tiles.start + index);
        if known != Some(metadata) {
            read_metadata::<I, H>(isa, keys, query, metadata, scratch);
            known = Some(metadata);
        }
        let tile = Tile { layout, units, query, scratch };
        let mut first = 0;
        while first < layout.columns() {
            let out = &mut out[index * width + first * LANES..];
            first += match layout.columns() - first {
                1 => tile.scores::<I, H, 1>(isa, first, out, stride),
                _ => tile.scores::<I, H, 2>(isa, first, out, stride),
            };
        }
    }
}

/// Scales and offsets, folded into the query where groups run along tokens.
#[inline(always)]
fn read_metadata<I: Isa, const H: usize>(
    isa: I,
    keys: &PackedHead,
    query: &KeyQuery,
    index: usize,
    scratch: &mut KeyScratch,
) {
    let half = keys.layout().meta_len() / 2;
    scratch.metadata.resize(2 * half, 0.0);
    keys.read_metadata(isa, index, &mut scratch.metadata);
    let (scales, offsets) = scratch.metadata.split_at_mut(half);
    keys.layout().codec().to_affine(scales, offsets);
    if let Groups::Tokens(_) = keys.layout().groups() {
        scratch.folded.resize(query.scaled.len(), 0.0);
        let rows = query.scaled.chunks_exact(query.width);
        for (from, to) in rows.zip(scratch.folded.chunks_exact_mut(query.width)) {
            multiply(isa, from, scales, to);
        }
        for (base, q) in scratch.base.iter_mut().zip(query.plain.chunks_exact(query.width)) {
            *base = dot(isa, q, offsets);
        }
    }
}

/// One tile of keys, and what meets it.
struct Tile<'a> {
    layout: &'a Layout,
    units: &'a [Unit],
    query: &'a KeyQuery,
    scratch: &'a KeyScratch,
}

impl Tile<'_> {
    /// `C` columns from the `first`-th on; returns C.
    ///
    /// # Shapes
    /// - `out`: `H` rows of these columns, `stride` apart
    #[inline(always)]
    fn scores<I: Isa, const H: usize, const C: usize>(
        &self,
        isa: I,
        first: usize,
        out: &mut [f32],
        stride: usize,
    ) -> usize {
        let Self { layout, units, query, scratch } = *self;
        let by_token = matches!(layout.groups(), Groups::Tokens(_));
        let queries = if by_token { &scratch.folded } else { &query.scaled };
        let mut scores = [[isa.splat(0.0); C]; H];
        if by_token {
            for h in 0..H {
                scores[h] = [isa.splat(scratch.base[h]); C];
            }
        }
        for group in 0..layout.channel_groups() {
            let mut sums = if by_token { scores } else { [[isa.splat(0.0); C]; H] };
            for (index, &plane) in layout.planes().iter().enumerate() {
                let of_head = |h: usize| &queries[(index * H + h) * query.width..][..query.width];
                let mut multipliers = [of_head(0); H];
                for h in 1..H {
                    multipliers[h] = of_head(h);
                }
                let strips = Strips { plane, units: &units[plane.first..], first };
                accumulate(isa, strips, multipliers, layout.channels(group), &mut sums);
            }
            if by_token {
                scores = sums;
                continue;
            }
            let numbers = &scratch.metadata[group * layout.tile_tokens() + first * LANES..];
            let offsets = &numbers[scratch.metadata.len() / 2..];
            for c in 0..C {
                let (scale, offset) = (load(isa, &numbers[c * LANES..]), load(isa, &offsets[c * LANES..]));
                for h in 0..H {
                    let sum = isa.splat(query.sums[group * H + h]);
                    scores[h][c] = isa.mul_add(scale, sums[h][c], isa.mul_add(offset, sum, scores[h][c]));
                }
            }
        }
        for h in 0..H {
            for c in 0..C {
                isa.store(scores[h][c], lanes_mut(&mut out[h * stride + c * LANES..]));
            }
        }
        C
    }
}

/// `to = a · b`, element by element, as far as `b` goes.
#[inline(always)]
fn multiply<I: Isa>(isa: I, a: &[f32], b: &[f32], to: &mut [f32]) {
    let full = b.len() / LANES * LANES;
    for c in (0..full).step_by(LANES) {
        isa.store(isa.mul(load(isa, &a[c..]), load(isa, &b[c..])), lanes_mut(&mut to[c..]));
    }
    for c in full..b.len() {
        to[c] = a[c] * b[c];
    }
}

/// Σ a · b, as far as `b` goes.
#[inline(always)]
fn dot<I: Isa>(isa: I, a: &[f32], b: &[f32]) -> f32 {
    let full = b.len() / LANES * LANES;
    let mut sum = isa.splat(0.0);
    for c in (0..full).step_by(LANES) {
        sum = isa.mul_add(load(isa, &a[c..]), load(isa, &b[c..]), sum);
    }
    let rest: f32 = a[full..].iter().zip(&b[full..]).map(|(a, b)| a * b).sum();
    isa.sum(sum) + rest
}
