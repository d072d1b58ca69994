//! Matrix products on slices: the one place that calls `gemm`, and products that do without it.
//!
//! [`multiply`] is the engine's. [`multiply_few`] streams weights past a few rows, [`multiply_many`] gives many
//! rows to the engine; both take weights in the type that they are held in.

use std::ops::Range;

mod cells;
mod columns;
mod few;
mod lanes;
mod panels;
mod tile;
mod weights;

pub use few::multiply_few;
pub use panels::multiply_many;
pub use weights::Weights;

/// A matrix inside a buffer; element (i, j) is `data[i * row_stride + j * col_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `rows × cols`, rows contiguous and `row_stride` apart.
    ///
    /// # Panics
    /// If the buffer is shorter than the last element asks for.
    pub fn new(data: &'a [f32], rows: usize, cols: usize, row_stride: usize) -> Self {
        let needed = match rows == 0 || cols == 0 {
            true => Some(0),
            false => (rows - 1).checked_mul(row_stride).and_then(|rows| rows.checked_add(cols)),
        };
        assert!(
            needed.is_some_and(|needed| data.len() >= needed),
            "a {rows} × {cols} matrix of stride {row_stride} in {}",
            data.len()
        );
        Self { data, rows, cols, row_stride, col_stride: 1 }
    }

    /// Number of rows.
    pub fn rows(self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(self) -> usize {
        self.cols
    }

    /// One row of a matrix that is not transposed.
    ///
    /// # Panics
    /// If it is, or has no such row.
    pub fn row(self, row: usize) -> &'a [f32] {
        assert!(self.col_stride == 1 && row < self.rows, "row {row} of {}", self.rows);
        &self.data[row * self.row_stride..][..self.cols]
    }

    /// Consecutive rows of a matrix that is not transposed.
    ///
    /// # Panics
    /// If it is, or has no such rows.
    fn some_rows(self, rows: Range<usize>) -> Self {
        assert!(self.col_stride == 1 && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        Self::new(&self.data[rows.start * self.row_stride..], rows.len(), self.cols, self.row_stride)
    }

    /// The same elements, rows and columns exchanged.
    pub fn transposed(self) -> Self {
        let Self { data, rows, cols, row_stride, col_stride } = self;
        Self { data, rows: cols, cols: rows, row_stride: col_stride, col_stride: row_stride }
    }
}

/// How many rows a product with `cols` columns of sums over `width` needs for a row not to depend on their number.
///
/// The engine sums in another order for a single row, and when the product has at most 256 elements; sums over more
/// than 512 it cuts at other places when the product has at most 64 rows and 64 columns.
pub fn stable_rows(cols: usize, width: usize) -> usize {
    let blocks = if cols <= columns::SMALL && width > SHORT_SUM { columns::SMALL + 1 } else { 2 };
    (SMALL_PRODUCT / cols.max(1) + 1).max(blocks)
}

/// Elements of the largest product that the engine computes element by element.
const SMALL_PRODUCT: usize = 256;

/// Length of a sum that the engine never cuts.
const SHORT_SUM: usize = 512;

/// `out = a · b`, or `out += a · b`, on the calling thread; rows of `out` are `stride` apart.
///
/// A row of the product does not depend, bit for bit, on how many rows `a` has, as long as it has at least
/// [`stable_rows`] of them.
///
/// # Panics
/// If the inner sizes differ or `out` is too short.
pub fn multiply(out: &mut [f32], stride: usize, accumulate: bool, a: Matrix<'_>, b: Matrix<'_>) {
    assert_eq!(a.cols, b.rows, "inner sizes of a product");
    if a.rows == 0 || b.cols == 0 {
        return;
    }
    let needed = (a.rows - 1).checked_mul(stride).and_then(|rows| rows.checked_add(b.cols));
    assert!(stride >= b.cols && needed.is_some_and(|needed| out.len() >= needed), "room for the product");
    // SAFETY: `out` has room for the product, is initialized, and is borrowed for it alone.
    unsafe { engine(out.as_mut_ptr(), stride, accumulate, a, b) };
}

/// The one call of the engine. Writes the first `b.cols` elements of each of `a.rows` rows, and touches no others.
///
/// # Safety
/// `out` points to room for these elements, which nothing else reads or writes meanwhile; they are initialized with
/// `accumulate`, and where they are a single row or column, which the engine takes as a slice of numbers.
unsafe fn engine(out: *mut f32, stride: usize, accumulate: bool, a: Matrix<'_>, b: Matrix<'_>) {
    assert_eq!(a.cols, b.rows, "inner sizes of a product");
    let beta = if accumulate { 1.0 } else { 0.0 };
    // SAFETY: `Matrix::new` keeps every index that m, n, k and the strides can form inside the two inputs; the caller
    // answers for `out`, of which the engine without `accumulate` reads only what it has written.
    unsafe {
        gemm::gemm(
            a.rows,
            b.cols,
            a.cols,
            out,
            1,
            stride as isize,
            accumulate,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            beta,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "products of small integers, and the same bits twice, are exact")]
mod tests {
    use super::*;

    #[test]
    fn a_product_by_hand_with_strides() {
        let a = [1.0, 2.0, 9.0, 3.0, 4.0, 9.0];
        let b = [5.0, 6.0, 7.0, 8.0];
        let mut out = [0.0; 5];
        multiply(&mut out, 3, false, Matrix::new(&a, 2, 2, 3), Matrix::new(&b, 2, 2, 2));
        assert_eq!(out, [19.0, 22.0, 0.0, 43.0, 50.0]);
        multiply(&mut out, 3, true, Matrix::new(&a, 2, 2, 3), Matrix::new(&b, 2, 2, 2).transposed());
        assert_eq!(out, [19.0 + 17.0, 22.0 + 23.0, 0.0, 43.0 + 39.0, 50.0 + 53.0]);
    }

    #[test]
    fn a_row_does_not_depend_on_how_many_rows_there_are() {
        let a: Vec<f32> = (0..40 * 300).map(|i| ((i * 37 % 101) as f32 - 50.0) / 17.0).collect();
        let b: Vec<f32> = (0..300 * 24).map(|i| ((i * 53 % 97) as f32 - 48.0) / 13.0).collect();
        let product = |rows: usize| {
            let mut out = vec![0.0; rows * 24];
            let weight = Matrix::new(&b, 24, 300, 300).transposed();
            multiply(&mut out, 24, false, Matrix::new(&a, rows, 300, 300), weight);
            out
        };
        let all = product(40);
        for rows in stable_rows(24, 300)..40 {
            assert_eq!(product(rows), all[..rows * 24], "{rows} rows");
        }
    }
}
