//! Operations on flex's own memory.

use burn::tensor::{Tensor, TensorPrimitive};
use burn_flex::{Flex, FlexTensor};
use kvtune_kernels::matrix::{Weights, multiply_few, multiply_many, stable_rows};
use kvtune_kernels::pointwise;
use rayon::prelude::*;

use super::{Batch, DecoderBackend, WeightMatrix, from_host};

/// Rows that one task of the thread pool takes.
const ROWS: usize = 32;

impl DecoderBackend for Flex {
    fn rms_norm(x: Tensor<Self, 2>, weight: &Tensor<Self, 1>, eps: f64) -> Tensor<Self, 2> {
        let weight = weight.clone().into_primitive().tensor();
        let weight = weight.as_slice::<f32>().expect("weights are contiguous f32");
        by_rows(x, weight.len(), |x, out| pointwise::rms_norm(x, weight, eps as f32, out))
    }

    fn silu_mul(gate_up: Tensor<Self, 2>) -> Tensor<Self, 2> {
        let width = gate_up.dims()[1] / 2;
        by_rows(gate_up, width, |x, out| pointwise::silu_mul(x, width, out))
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
    let x = contiguous(x);
    let x = x.as_slice::<f32>().expect("contiguous f32");
    let out = match batch {
        Batch::Tokens => multiply_padded(x, weight, width),
        Batch::Lanes => {
            let mut out = vec![0.0; rows * (weight.len() / width)];
            multiply_few(&mut out, x, weight, width);
            out
        }
    };
    from_host(out, rows, &device)
}

/// The engine sums a product of very few rows in another order, so such a product is filled up with rows of zeros,
/// as in [`engine_product`](super::engine_product).
fn multiply_padded(x: &[f32], weight: Weights<'_>, width: usize) -> Vec<f32> {
    let n = weight.len() / width;
    let rows = stable_rows(n);
    if x.len() >= rows * width {
        return multiply_many(x, weight, width);
    }
    let padded = [x, &vec![0.0; rows * width - x.len()]].concat();
    let mut product = multiply_many(&padded, weight, width);
    product.truncate(x.len() / width * n);
    product
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
    let x = match x.into_primitive() {
        TensorPrimitive::Float(x) => x,
        other => other.tensor(),
    };
    if x.is_contiguous() { x } else { x.to_contiguous() }
}
