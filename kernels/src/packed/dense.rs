//! Exact tokens: the f32 counterpart of the packed loops, and the yardstick that they are measured against.

use super::LANES;
use crate::isa::Isa;

/// Rows of one head that lie in a larger buffer.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) data: &'a [f32],
    pub(super) stride: usize,
    pub(super) rows: usize,
}

/// `scores[h][t] += q[h] · row[t]`.
///
/// # Shapes
/// - `q`: one padded head each, `width` a multiple of 16
/// - `scores`: rows `stride` apart; `H` of them
#[inline(always)]
pub(super) fn scores<I: Isa, const H: usize>(
    isa: I,
    q: [&[f32]; H],
    head_dim: usize,
    rows: Rows<'_>,
    scores: &mut [f32],
    stride: usize,
) {
    let full = head_dim / LANES * LANES;
    for t in 0..rows.rows {
        let row = &rows.data[t * rows.stride..][..head_dim];
        let mut sums = [isa.splat(0.0); H];
        for c in (0..full).step_by(LANES) {
            let key = load(isa, &row[c..]);
            for h in 0..H {
                sums[h] = isa.mul_add(key, load(isa, &q[h][c..]), sums[h]);
            }
        }
        if full < head_dim {
            let mut rest = [0.0; LANES];
            rest[..head_dim - full].copy_from_slice(&row[full..]);
            for h in 0..H {
                sums[h] = isa.mul_add(isa.load(&rest), load(isa, &q[h][full..]), sums[h]);
            }
        }
        for h in 0..H {
            scores[h * stride + t] += isa.sum(sums[h]);
        }
    }
}

/// `out[h] += Σ weights[h][t] · row[t]`.
///
/// # Shapes
/// - `weights`: rows `stride` apart; `H` of them
/// - `out`: `[H][width]`, `width` a multiple of 16 and at least `head_dim`
#[inline(always)]
pub(super) fn weigh<I: Isa, const H: usize>(
    isa: I,
    weights: &[f32],
    stride: usize,
    head_dim: usize,
    rows: Rows<'_>,
    out: &mut [f32],
) {
    let width = out.len() / H;
    let full = head_dim / LANES;
    let mut c = 0;
    while c < full {
        c += match full - c {
            1 => columns::<I, H, 1>(isa, weights, stride, rows, c, out, width),
            _ => columns::<I, H, 2>(isa, weights, stride, rows, c, out, width),
        };
    }
    for channel in full * LANES..head_dim {
        for h in 0..H {
            let weights = &weights[h * stride..][..rows.rows];
            let products =
                weights.iter().enumerate().map(|(t, weight)| weight * rows.data[t * rows.stride + channel]);
            out[h * width + channel] += products.sum::<f32>();
        }
    }
}

/// `C` vectors of channels from the `first`-th on; returns C.
#[inline(always)]
fn columns<I: Isa, const H: usize, const C: usize>(
    isa: I,
    weights: &[f32],
    stride: usize,
    rows: Rows<'_>,
    first: usize,
    out: &mut [f32],
    width: usize,
) -> usize {
    let weights: [&[f32]; H] = std::array::from_fn(|h| &weights[h * stride..][..rows.rows]);
    let mut sums = [[isa.splat(0.0); C]; H];
    for t in 0..rows.rows {
        let row = &rows.data[t * rows.stride + first * LANES..][..C * LANES];
        for c in 0..C {
            let value = load(isa, &row[c * LANES..]);
            for h in 0..H {
                sums[h][c] = isa.mul_add(value, isa.splat(weights[h][t]), sums[h][c]);
            }
        }
    }
    for h in 0..H {
        for c in 0..C {
            let at = lanes_mut(&mut out[h * width + (first + c) * LANES..]);
            let sum = isa.add(isa.load(at), sums[h][c]);
            isa.store(sum, at);
        }
    }
    C
}

/// The first sixteen elements.
#[inline(always)]
pub(super) fn load<I: Isa>(isa: I, from: &[f32]) -> I::F {
    isa.load(from.first_chunk().expect("sixteen elements"))
}

/// The first sixteen elements, to write to.
#[inline(always)]
pub(super) fn lanes_mut(to: &mut [f32]) -> &mut [f32; LANES] {
    to.first_chunk_mut().expect("sixteen elements")
}
