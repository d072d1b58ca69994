//! Operations on flex's own memory.

use burn::tensor::{Tensor, TensorPrimitive};
use burn_flex::{Flex, FlexTensor};
use kvtune_kernels::matrix::{Matrix, Weights, multiply_few, multiply_many, stable_rows};
use kvtune_kernels::pointwise;
use rayon::prelude::*;

use super::{Batch, DecoderBackend, WeightMatrix, from_host, to_host};

/// Rows that one task of the thread pool takes.
const ROWS: usize = 32;

impl DecoderBackend for Flex {
    fn rms_norm(x: Tensor<Self, 2>, weight: &Tensor<Self, 1>, eps: f64) -> Tensor<Self, 2> {
        let weight = weight.clone().into_primitive().tensor();
        let weight = weight.as_slice::<f32>().expect("weights are contiguous f32");
        by_rows(x, weight.len(), |x, out| pointwise::rms_norm(x, weight, eps as f32, out))
    }

    /// In the memory of the gates, whose rows then lie two widths apart.
    fn silu_mul(gate_up: Tensor<Self, 2>) -> Tensor<Self, 2> {
        let ([rows, both], device) = (gate_up.dims(), gate_up.device());
        let mut data = to_host(gate_up);
        data.par_chunks_mut(ROWS * both).for_each(|rows| pointwise::silu_mul(rows, both / 2));
        from_host(data, rows, &device).narrow(1, 0, both / 2)
    }

    const HOLDS_HALVES: bool = true;

    fn product(x: Tensor<Self, 2>, weight: &WeightMatrix<Self>, batch: Batch) -> Tensor<Self, 2> {
        match weight {
            WeightMatrix::Full(weight) => {
                let weight = contiguous(weight.clone());
                on_slices(x, Weights::F32(weight.as_slice().expect("contiguous f32")), batch)
            }
            WeightMatrix::Half(weight) => on_slices(x, weight.weights(), batch),
        }
    }
}

/// burn's own product calls the same engine, but fills its result with zeros first and may copy it after: half as
/// fast at this size.
fn on_slices(x: Tensor<Flex, 2>, weight: Weights<'_>, batch: Batch) -> Tensor<Flex, 2> {
    let ([rows, width], device) = (x.dims(), x.device());
    let out = match batch {
        Batch::Tokens => {
            let x = rows_in_place(x);
            let (start, stride) = (x.layout().start_offset(), x.layout().strides()[0]);
            multiply_padded(Matrix::new(&x.storage()[start..], rows, width, stride.unsigned_abs()), weight)
        }
        Batch::Lanes => {
            let x = contiguous(x);
            let mut out = vec![0.0; rows * (weight.len() / width)];
            multiply_few(&mut out, x.as_slice().expect("contiguous f32"), weight, width);
            out
        }
    };
    from_host(out, rows, &device)
}

/// The engine sums a product of very few rows in another order, so such a product is filled up with rows of zeros,
/// as in [`engine_product`](super::engine_product).
fn multiply_padded(x: Matrix<'_>, weight: Weights<'_>) -> Vec<f32> {
    let (rows, width) = (x.rows(), x.columns());
    let n = weight.len() / width;
    let stable = stable_rows(n, width);
    if rows >= stable {
        return multiply_many(x, weight);
    }
    let mut padded: Vec<f32> = (0..rows).flat_map(|row| x.row(row)).copied().collect();
    padded.resize(stable * width, 0.0);
    let mut product = multiply_many(Matrix::new(&padded, stable, width, width), weight);
    product.truncate(rows * n);
    product
}

/// A tensor's memory, copied only where the elements of a row do not lie side by side, or rows backwards.
fn rows_in_place(x: Tensor<Flex, 2>) -> FlexTensor {
    let x = primitive(x);
    let [row, column] = [x.layout().strides()[0], x.layout().strides()[1]];
    if column == 1 && row >= x.layout().shape()[1] as isize { x } else { x.to_contiguous() }
}

/// A tensor of `width` columns, made block by block from the rows of `x` where they lie.
fn by_rows(x: Tensor<Flex, 2>, width: usize, f: impl Fn(&[f32], &mut [f32]) + Sync) -> Tensor<Flex, 2> {
    let [rows, in_width] = x.dims();
    let device = x.device();
    let x = contiguous(x);
    let x = x.as_slice::<f32>().expect("contiguous f32");
    let mut out = vec![0.0; rows * width];
    let blocks = x.par_chunks(ROWS * in_width).zip(out.par_chunks_mut(ROWS * width));
    blocks.for_each(|(x, out)| f(x, out));
    from_host(out, rows, &device)
}

/// A tensor's memory, copied only where its rows do not lie one after the other.
fn contiguous(x: Tensor<Flex, 2>) -> FlexTensor {
    let x = primitive(x);
    if x.is_contiguous() { x } else { x.to_contiguous() }
}

fn primitive(x: Tensor<Flex, 2>) -> FlexTensor {
    match x.into_primitive() {
        TensorPrimitive::Float(x) => x,
        other => other.tensor(),
    }
}
