//! Products of few rows with a whole weight matrix, as decoding makes them: the weights are read once.
//!
//! The engine packs a matrix anew for every product. That pays when many rows share it; here rows are few, the
//! product takes as long as reading the weights, and they are read as they lie. Each task takes some rows of
//! weights, in groups small enough for the first-level cache, and multiplies them with all rows of `x`.

use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use super::cells::Cells;
use super::lanes::{Lanes, Portable};
use super::tile::{dots, split};
use super::weights::{Brain, Element, Half, Single, Weights};

/// `out = x · weightᵀ`, the weights read once for all rows, in whatever type they are held.
///
/// An element of the product is summed over sixteen lanes in the order of the columns, then over the lanes: it
/// does not depend, bit for bit, on the other rows, on the threads, or on the type that the weights are held in.
///
/// # Shapes
/// - `x`: `[rows, width]`; `weight`: `[n, width]`; `out`: `[rows, n]`, all contiguous
///
/// # Panics
/// If a buffer's length is not that of its shape.
pub fn multiply_few(out: &mut [f32], x: &[f32], weight: Weights<'_>, width: usize) {
    InstructionSet::widest().multiply(out, x, weight, width);
}

/// What the processor has, and how many rows of `x` and of weights its registers hold the products of.
#[derive(Clone, Copy, Debug)]
enum InstructionSet {
    #[cfg(target_arch = "x86_64")]
    Avx512(pulp::x86::V4),
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    Portable,
}

impl InstructionSet {
    #[cfg(target_arch = "x86_64")]
    fn widest() -> Self {
        let avx512 = pulp::x86::V4::try_new().map(Self::Avx512);
        avx512.or_else(|| pulp::x86::V3::try_new().map(Self::Avx2)).unwrap_or(Self::Portable)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn widest() -> Self {
        Self::Portable
    }

    fn multiply(self, out: &mut [f32], x: &[f32], weight: Weights<'_>, width: usize) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(lanes) => multiply_in::<_, 6, 4>(lanes, out, x, weight, width),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(lanes) => multiply_in::<_, 2, 2>(lanes, out, x, weight, width),
            Self::Portable => multiply_in::<_, 2, 2>(Portable, out, x, weight, width),
        }
    }
}

fn multiply_in<L: Lanes, const M: usize, const N: usize>(
    lanes: L,
    out: &mut [f32],
    x: &[f32],
    weight: Weights<'_>,
    width: usize,
) {
    match weight {
        Weights::F32(weight) => multiply::<L, Single, M, N>(lanes, out, x, weight, width),
        Weights::F16(weight) => multiply::<L, Half, M, N>(lanes, out, x, weight.reinterpret_cast(), width),
        Weights::Bf16(weight) => multiply::<L, Brain, M, N>(lanes, out, x, weight.reinterpret_cast(), width),
    }
}

/// Weights that one task takes: enough to be worth a task, few enough to stay in the second-level cache while all
/// rows of `x` pass over them.
const TASK: usize = 1 << 15;

/// Elements of `x` in a block: 32 KiB.
const BLOCK: usize = 1 << 13;

fn multiply<L: Lanes, E: Element, const M: usize, const N: usize>(
    lanes: L,
    out: &mut [f32],
    x: &[f32],
    weight: &[E::Raw],
    width: usize,
) {
    if width == 0 {
        return out.fill(0.0);
    }
    let (rows, n) = (x.len() / width, weight.len() / width);
    assert_eq!(
        (x.len(), weight.len(), out.len()),
        (rows * width, n * width, rows * n),
        "shapes of a product"
    );
    let columns = (TASK / width).next_multiple_of(N).max(N);
    let cells = Cells { out: out.as_mut_ptr(), len: out.len(), stride: n };
    let task = |(index, weight): (usize, &[E::Raw])| {
        let part = Part { cells: &cells, column: index * columns };
        lanes.run(
            #[inline(always)]
            || part.fill::<L, E, M, N>(lanes, x, weight, width),
        );
    };
    if weight.len() <= TASK {
        weight.chunks(columns * width).enumerate().for_each(task);
    } else {
        weight.par_chunks(columns * width).enumerate().for_each(task);
    }
}

/// The columns of one task, from `column` on: as many as it has rows of weights.
struct Part<'a> {
    cells: &'a Cells,
    column: usize,
}

impl Part<'_> {
    /// Rows of `x` in blocks that stay in the first-level cache while all of the task's weights pass over them.
    #[inline(always)]
    fn fill<L: Lanes, E: Element, const M: usize, const N: usize>(
        &self,
        lanes: L,
        x: &[f32],
        weight: &[E::Raw],
        width: usize,
    ) {
        let n = weight.len() / width;
        let whole = n / N * N;
        let rows = (BLOCK / width / M * M).max(M);
        for (index, x) in x.chunks(rows * width).enumerate() {
            let row = index * rows;
            for column in (0..whole).step_by(N) {
                self.tiles::<L, E, M, N>(lanes, x, &weight[column * width..], (row, column), width);
            }
            for column in whole..n {
                self.tiles::<L, E, M, 1>(lanes, x, &weight[column * width..], (row, column), width);
            }
        }
    }

    /// The first `N` rows of `weight` with all rows of `x`, whose product begins at row `first` and at `column`.
    #[inline(always)]
    fn tiles<L: Lanes, E: Element, const M: usize, const N: usize>(
        &self,
        lanes: L,
        x: &[f32],
        weight: &[E::Raw],
        (first, column): (usize, usize),
        width: usize,
    ) {
        let weight = split::<_, N>(weight, width);
        let rows = x.len() / width;
        let mut row = 0;
        while row + M <= rows {
            let x = split::<_, M>(&x[row * width..], width);
            self.write(first + row, column, dots::<L, E, M, N>(lanes, x, weight));
            row += M;
        }
        if M > 4 && row + 4 <= rows {
            let x = split::<_, 4>(&x[row * width..], width);
            self.write(first + row, column, dots::<L, E, 4, N>(lanes, x, weight));
            row += 4;
        }
        while row + 2 <= rows {
            let x = split::<_, 2>(&x[row * width..], width);
            self.write(first + row, column, dots::<L, E, 2, N>(lanes, x, weight));
            row += 2;
        }
        if row < rows {
            let x = split::<_, 1>(&x[row * width..], width);
            self.write(first + row, column, dots::<L, E, 1, N>(lanes, x, weight));
        }
    }

    #[inline(always)]
    fn write<const M: usize, const N: usize>(&self, row: usize, column: usize, values: [[f32; N]; M]) {
        let Cells { out, len, stride } = *self.cells;
        for (m, values) in values.into_iter().enumerate() {
            let at = (row + m) * stride + self.column + column;
            debug_assert!(at + N <= len, "inside the product");
            for (n, value) in values.into_iter().enumerate() {
                // SAFETY: `multiply` has checked the shapes: row + m is a row of `x`, and self.column + column + n
                // a row of the weights, which only this task was given; so the element lies inside `out` and
                // no other task touches it.
                unsafe { out.add(at + n).write(value) };
            }
        }
    }
}

#[cfg(test)]
mod tests;
