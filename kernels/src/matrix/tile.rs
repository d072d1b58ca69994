//! Dot products of a few rows with a few rows of weights, all in registers.
#![allow(clippy::needless_range_loop, reason = "with iterators the compiler keeps the sums in memory")]

use super::lanes::{LANES, Lanes};
use super::weights::Element;

/// Bytes ahead of their use that weights are asked for. The processor does not guess by itself that the next rows
/// come after these, which it sees as several streams.
const AHEAD: usize = 8192;

/// The first `N` rows of a matrix.
#[inline(always)]
pub(super) fn split<T, const N: usize>(matrix: &[T], width: usize) -> [&[T]; N] {
    let mut rows: [&[T]; N] = [&[]; N];
    for (n, row) in rows.iter_mut().enumerate() {
        *row = &matrix[n * width..][..width];
    }
    rows
}

/// Every row of `x` with every row of `weight`; all have one length, and the weights lie one after the other.
#[inline(always)]
pub(super) fn dots<L: Lanes, E: Element, const M: usize, const N: usize>(
    lanes: L,
    x: [&[f32]; M],
    weight: [&[E::Raw]; N],
) -> [[f32; N]; M] {
    let whole = x[0].len() / LANES;
    let (x_chunks, weight_chunks) = (chunks(x, whole), chunks(weight, whole));
    let bytes = N * size_of::<[E::Raw; LANES]>();
    let ahead = weight[0].as_ptr().cast::<u8>().wrapping_add(AHEAD);
    let mut sums = [[lanes.zero(); N]; M];
    for i in 0..whole {
        lanes.prefetch(ahead.wrapping_add(i * bytes), bytes);
        sums = step::<L, E, M, N>(lanes, at(x_chunks, i), at(weight_chunks, i), sums);
    }
    if whole * LANES < x[0].len() {
        let (x, weight) = (padded(x, whole), padded(weight, whole));
        sums = step::<L, E, M, N>(lanes, x.each_ref(), weight.each_ref(), sums);
    }
    let mut dots = [[0.0; N]; M];
    for m in 0..M {
        for n in 0..N {
            dots[m][n] = lanes.sum(sums[m][n]);
        }
    }
    dots
}

/// Sixteen columns more.
#[inline(always)]
fn step<L: Lanes, E: Element, const M: usize, const N: usize>(
    lanes: L,
    x: [&[f32; LANES]; M],
    weight: [&[E::Raw; LANES]; N],
    mut sums: [[L::Vector; N]; M],
) -> [[L::Vector; N]; M] {
    let mut wide = [lanes.zero(); N];
    for n in 0..N {
        wide[n] = E::widen(lanes, weight[n]);
    }
    for m in 0..M {
        let x = lanes.load(x[m]);
        for n in 0..N {
            sums[m][n] = lanes.mul_add(x, wide[n], sums[m][n]);
        }
    }
    sums
}

#[inline(always)]
fn chunks<T, const N: usize>(rows: [&[T]; N], whole: usize) -> [&[[T; LANES]]; N] {
    let mut chunks: [&[[T; LANES]]; N] = [&[]; N];
    for n in 0..N {
        chunks[n] = &rows[n].as_chunks().0[..whole];
    }
    chunks
}

#[inline(always)]
fn at<T, const N: usize>(chunks: [&[[T; LANES]]; N], index: usize) -> [&[T; LANES]; N] {
    let mut found = [&chunks[0][index]; N];
    for n in 0..N {
        found[n] = &chunks[n][index];
    }
    found
}

/// What is left of each row behind its whole chunks, and zeros.
#[inline(always)]
fn padded<T: Copy + Default, const N: usize>(rows: [&[T]; N], whole: usize) -> [[T; LANES]; N] {
    let mut padded = [[T::default(); LANES]; N];
    for (padded, row) in padded.iter_mut().zip(rows) {
        let rest = &row[whole * LANES..];
        padded[..rest.len()].copy_from_slice(rest);
    }
    padded
}
