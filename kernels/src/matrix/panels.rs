//! Products of many rows through the engine, panel by panel where the weights are not held as f32.

use rayon::prelude::*;

use super::weights::Weights;
use super::{Matrix, columns};

/// Weights that are f32 at one time, 16 MiB of them.
const PANEL: usize = 1 << 22;

/// Weights that one task widens.
const TASK: usize = 1 << 15;

/// `x · weightᵀ` by the engine, on the threads of the pool; of weights that are not held as f32 a panel is f32 at a
/// time.
///
/// A row of the product does not depend, bit for bit, on how many there are, as long as there are
/// [`stable_rows`](super::stable_rows) of them.
///
/// # Shapes
/// - `x`: `[rows, width]`; `weight`: `[n, width]`, contiguous; the product `[rows, n]`, contiguous
///
/// # Panics
/// If the weights are no whole rows, or `x` has no column or is transposed.
pub fn multiply_many(x: Matrix<'_>, weight: Weights<'_>) -> Vec<f32> {
    multiply_by_panels(x, weight, PANEL)
}

fn multiply_by_panels(x: Matrix<'_>, weight: Weights<'_>, panel: usize) -> Vec<f32> {
    let (width, n) = (x.cols, weight.len() / x.cols);
    assert_eq!(weight.len(), n * width, "whole rows of weights");
    let mut product = Product::new(x, n);
    match weight {
        Weights::F32(weight) => product.columns(weight),
        _ => by_panels(&mut product, weight, width, panel),
    }
    product.done()
}

fn by_panels(product: &mut Product<'_>, weight: Weights<'_>, width: usize, panel: usize) {
    let n = product.stride;
    // Panels of one size, so that none is small.
    let panels = n.div_ceil((panel / width).max(1)).max(1);
    let size = n.div_ceil(panels);
    let mut wide = vec![0.0; size * width];
    for first in (0..n).step_by(size.max(1)) {
        let wide = &mut wide[..size.min(n - first) * width];
        let tasks = wide.par_chunks_mut(TASK).enumerate();
        tasks.for_each(|(task, out)| weight.widen(first * width + task * TASK, out));
        product.columns(wide);
    }
}

/// A product in memory that nobody has filled before: to fill it with zeros takes as long as a tenth of the product.
struct Product<'a> {
    x: Matrix<'a>,
    stride: usize,
    out: Vec<f32>,
    /// Leading columns that are computed.
    computed: usize,
}

impl<'a> Product<'a> {
    fn new(x: Matrix<'a>, columns: usize) -> Self {
        let len = x.rows.checked_mul(columns).expect("a product that memory can hold");
        Self { x, stride: columns, out: Vec::with_capacity(len), computed: 0 }
    }

    /// The columns behind those that are computed, from their rows of the weights.
    fn columns(&mut self, weight: &[f32]) {
        let width = self.x.cols;
        let weight = Matrix::new(weight, weight.len() / width, width, width);
        columns::fill(self.out.spare_capacity_mut(), self.stride, self.computed, self.x, weight);
        self.computed += weight.rows;
    }

    fn done(mut self) -> Vec<f32> {
        assert_eq!(self.computed, self.stride, "every column is computed");
        // SAFETY: the columns computed are all there are, and each was written in every row.
        unsafe { self.out.set_len(self.x.rows * self.stride) };
        self.out
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the same bits are promised")]
mod tests {
    use half::{bf16, f16};

    use super::*;

    fn numbers(len: usize, seed: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 37 + seed) % 101) as f32 / 32.0 - 1.5).collect()
    }

    #[test]
    fn panels_change_no_bit_of_the_product() {
        let (rows, width, n) = (70, 33, 300);
        let (x, weight) = (numbers(rows * width, 1), numbers(n * width, 2));
        let x: Vec<f32> = x.iter().map(|x| x / 3.0).collect();
        let mut whole = vec![0.0; rows * n];
        let matrices =
            (Matrix::new(&x, rows, width, width), Matrix::new(&weight, n, width, width).transposed());
        super::super::multiply(&mut whole, n, false, matrices.0, matrices.1);
        let half: Vec<f16> = weight.iter().map(|&w| f16::from_f32(w)).collect();
        let brain: Vec<bf16> = weight.iter().map(|&w| bf16::from_f32(w)).collect();
        for weight in [Weights::F32(&weight), Weights::F16(&half), Weights::Bf16(&brain)] {
            for panel in [70 * width, 150 * width, usize::MAX / 2] {
                assert_eq!(multiply_by_panels(matrices.0, weight, panel), whole, "panels of {panel}");
            }
        }
    }

    #[test]
    fn a_shape_without_elements_is_no_product() {
        let (none, one) = (Matrix::new(&[], 0, 2, 2), Matrix::new(&[1.0, 2.0], 1, 2, 2));
        assert!(multiply_many(none, Weights::F32(&[1.0, 2.0])).is_empty());
        assert!(multiply_many(one, Weights::F32(&[])).is_empty());
        assert!(multiply_many(one, Weights::F16(&[])).is_empty());
    }

    #[test]
    fn a_single_row_and_a_panel_of_a_single_column_are_products_too() {
        let weight = [1.0, 1.0, 0.0, 2.0, 3.0, 0.0].map(f16::from_f32);
        for rows in [1, 2] {
            let x = &[1.0, 2.0, 3.0, 4.0][..2 * rows];
            // Two columns, then one.
            let product = multiply_by_panels(Matrix::new(x, rows, 2, 2), Weights::F16(&weight), 4);
            assert_eq!(product, [3.0, 4.0, 3.0, 7.0, 8.0, 9.0][..3 * rows]);
        }
    }

    #[test]
    fn rows_of_x_may_lie_apart() {
        let x = [1.0, 2.0, 9.0, 9.0, 3.0, 4.0, 9.0, 9.0];
        let product = multiply_many(Matrix::new(&x, 2, 2, 4), Weights::F32(&[1.0, 1.0, 0.0, 2.0]));
        assert_eq!(product, [3.0, 4.0, 7.0, 8.0]);
    }
}
