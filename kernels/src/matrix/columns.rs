//! Products of many rows, cut into tasks by columns.
//!
//! The engine must first lay weights out anew, and with threads of its own it has one of them do that for all where
//! a matrix has up to about a thousand rows. Here every task lays out the few rows of weights that it multiplies,
//! which stay in its core's cache while all rows of `x` pass over them.

use std::mem::MaybeUninit;
use std::ops::Range;

use rayon::prelude::*;

use super::cells::Cells;
use super::{Matrix, SMALL_PRODUCT, engine};

/// Columns of the engine's widest kernel.
const TILE: usize = 64;

/// A product of no more rows and no more columns is summed in blocks of another length.
pub(super) const SMALL: usize = 64;

/// Rows that are worth a task of their own, for which weights are laid out once more.
const ROWS: usize = 128;

/// Multiplications that are worth a second thread.
const WORK: usize = 1 << 19;

/// Columns of `x · weightᵀ` from `first` on, as many as `weight` has rows, into rows of `out` that are `stride`
/// apart.
///
/// # Panics
/// If the inner sizes differ or `out` is too short.
pub(super) fn fill(
    out: &mut [MaybeUninit<f32>],
    stride: usize,
    first: usize,
    x: Matrix<'_>,
    weight: Matrix<'_>,
) {
    if x.rows == 0 || weight.rows == 0 {
        return;
    }
    let room = (x.rows - 1).checked_mul(stride).and_then(|rows| rows.checked_add(first + weight.rows));
    assert!(
        first + weight.rows <= stride && room.is_some_and(|room| room <= out.len()),
        "room for the columns"
    );
    // For a single row or column the engine takes a slice of numbers on what it is about to write.
    if x.rows == 1 || weight.rows == 1 {
        (0..x.rows).for_each(|row| out[row * stride + first..][..weight.rows].fill(MaybeUninit::new(0.0)));
    }
    let (tasks, cells) =
        (Tasks::of(x, weight), Cells { out: out.as_mut_ptr().cast::<f32>(), len: out.len(), stride });
    let shared = &cells;
    let run = |task: usize| {
        let (rows, columns) = tasks.part(task);
        let at = rows.start * stride + first + columns.start;
        let (x, weight) = (x.some_rows(rows), weight.some_rows(columns).transposed());
        let Cells { out, len, stride } = *shared;
        debug_assert!(at + (x.rows - 1) * stride + weight.cols <= len, "inside the product");
        // SAFETY: the parts are disjoint and inside the product, for which there is room as asserted above; only a
        // product of one row or column has such parts, and those are initialized.
        unsafe { engine(out.add(at), stride, false, x, weight) };
    };
    match x.rows.saturating_mul(weight.rows).saturating_mul(x.cols) < WORK {
        true => (0..tasks.len()).for_each(run),
        false => (0..tasks.len()).into_par_iter().for_each(run),
    }
}

/// How a product is cut. No bit of it depends on that: wherever a row or a column falls, its sums are cut at the same
/// places, since no part is [`SMALL`], or has so few elements that the engine sums them one by one, unless the whole
/// product is or has.
#[derive(Clone, Copy, Debug)]
struct Tasks {
    rows: usize,
    columns: usize,
    row_parts: usize,
    column_parts: usize,
    /// Columns of every part but the last, which has fewer than twice as many.
    width: usize,
}

impl Tasks {
    fn of(x: Matrix<'_>, weight: Matrix<'_>) -> Self {
        Self::new(x.rows, weight.rows, rayon::current_num_threads())
    }

    fn new(rows: usize, columns: usize, threads: usize) -> Self {
        // A part of few rows needs more than `SMALL` columns, and one of very few as many as make a large product.
        let few = (SMALL_PRODUCT / rows.max(1) + 1).next_multiple_of(TILE).max(2 * TILE);
        let width = if rows > SMALL { TILE } else { few };
        let column_parts = (columns / width).max(1);
        // As many rows as keep a part of few columns from being summed element by element.
        let least = ROWS.max(SMALL_PRODUCT / columns.max(1) + 1);
        let row_parts = threads.div_ceil(column_parts).clamp(1, (rows / least).max(1));
        Self { rows, columns, row_parts, column_parts, width }
    }

    fn len(self) -> usize {
        self.row_parts * self.column_parts
    }

    /// Rows and columns of one part.
    fn part(self, index: usize) -> (Range<usize>, Range<usize>) {
        let (row, column) = (index / self.column_parts, index % self.column_parts);
        let rows = self.rows * row / self.row_parts..self.rows * (row + 1) / self.row_parts;
        let end = if column + 1 == self.column_parts { self.columns } else { (column + 1) * self.width };
        (rows, column * self.width..end)
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the same bits are promised")]
mod tests {
    use super::*;
    use crate::matrix::{Weights, multiply_many, stable_rows};
    use crate::test_data::noise;

    #[test]
    fn parts_cover_a_product_once_and_none_is_small() {
        for rows in [1, 2, 64, 65, 127, 128, 300, 1000] {
            for columns in [1, 3, 63, 64, 65, 127, 128, 129, 191, 320, 1000] {
                for threads in [1, 2, 16, 100] {
                    let tasks = Tasks::new(rows, columns, threads);
                    let mut seen = vec![0; rows * columns];
                    for (rows, columns_of_part) in (0..tasks.len()).map(|task| tasks.part(task)) {
                        let elements = rows.len() * columns_of_part.len();
                        let small = rows.len() <= SMALL && columns_of_part.len() <= SMALL
                            || elements <= SMALL_PRODUCT;
                        assert!(!small || tasks.len() == 1, "{tasks:?}: {rows:?} × {columns_of_part:?}");
                        for row in rows {
                            columns_of_part.clone().for_each(|column| seen[row * columns + column] += 1);
                        }
                    }
                    assert!(seen.iter().all(|&times| times == 1), "{tasks:?}");
                }
            }
        }
    }

    /// More columns of `x` than the engine sums in one go.
    #[test]
    fn a_row_is_the_same_bits_among_others_and_on_any_number_of_threads() {
        let (rows, width) = (600, 600);
        let x = noise(rows * width, 9);
        for n in [1, 2, 3, 64, 65, 130, 200, 500] {
            let weight = noise(n * width, 31);
            let product = |rows| multiply_many(Matrix::new(&x, rows, width, width), Weights::F32(&weight));
            let all = product(rows);
            for threads in [1, 3, 16] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
                for rows in [2, 7, 63, 64, 65, 66, 128, 200, 256, 300, 600] {
                    if rows >= stable_rows(n, width) {
                        assert_eq!(pool.install(|| product(rows)), all[..rows * n], "{rows} rows of {n}");
                    }
                }
            }
        }
    }
}
