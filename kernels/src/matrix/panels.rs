//! Products of many rows with weights that are not held as f32: panel by panel through the engine.

use rayon::prelude::*;

use super::weights::Weights;
use super::{Matrix, multiply_with};

/// Weights that are f32 at one time, 16 MiB of them.
const PANEL: usize = 1 << 22;

/// Weights that one task widens.
const TASK: usize = 1 << 15;

/// `out = x · weightᵀ` by the engine, on the threads of the pool; a panel of the weights is f32 at a time.
///
/// A row of the product does not depend, bit for bit, on how many there are, as long as there are
/// [`stable_rows`](super::stable_rows) of them.
///
/// # Shapes
/// - `x`: `[rows, width]`; `weight`: `[n, width]`; `out`: `[rows, n]`, all contiguous
///
/// # Panics
/// If a buffer's length is not that of its shape.
pub fn multiply_many(out: &mut [f32], x: &[f32], weight: Weights<'_>, width: usize) {
    multiply_by_panels(out, x, weight, width, PANEL);
}

fn multiply_by_panels(out: &mut [f32], x: &[f32], weight: Weights<'_>, width: usize, panel: usize) {
    if width == 0 {
        return out.fill(0.0);
    }
    let (rows, n) = (x.len() / width, weight.len() / width);
    assert_eq!(
        (x.len(), weight.len(), out.len()),
        (rows * width, n * width, rows * n),
        "shapes of a product"
    );
    if rows == 0 || n == 0 {
        return;
    }
    // Panels of one size, so that none is small.
    let panels = n.div_ceil((panel / width).max(1));
    let size = n.div_ceil(panels);
    let mut wide = vec![0.0; size * width];
    for first in (0..n).step_by(size) {
        let columns = size.min(n - first);
        let wide = &mut wide[..columns * width];
        let tasks = wide.par_chunks_mut(TASK).enumerate();
        tasks.for_each(|(task, out)| weight.widen(first * width + task * TASK, out));
        let panel = Matrix::new(wide, columns, width, width).transposed();
        let threads = gemm::Parallelism::Rayon(0);
        multiply_with(&mut out[first..], n, false, Matrix::new(x, rows, width, width), panel, threads);
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
                let mut out = vec![f32::NAN; rows * n];
                multiply_by_panels(&mut out, &x, weight, width, panel);
                assert_eq!(out, whole, "panels of {panel}");
            }
        }
    }

    #[test]
    fn a_shape_without_elements_is_no_product() {
        multiply_many(&mut [], &[], Weights::F32(&[1.0, 2.0]), 2);
        let mut out = [f32::NAN; 2];
        multiply_many(&mut out, &[], Weights::F32(&[]), 0);
        assert_eq!(out, [0.0; 2]);
    }
}
