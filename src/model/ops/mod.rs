//! The decoder's own operations on a backend: plain burn by default, fused loops where memory can be reached.
//!
//! A backend gets the defaults for free (`impl DecoderBackend for Cuda {}`); flex overrides them with the
//! single-pass functions of `kvtune-kernels`, on the tensor's own memory.

use burn::backend::Autodiff;
use burn::prelude::*;
use burn::tensor::TensorData;
use kvtune_kernels::matrix::stable_rows;

use super::weights::HalfMatrix;

/// A weight matrix `[out, in]`, as it is held; a clone is the same memory.
#[derive(Clone, Debug)]
pub enum WeightMatrix<B: Backend> {
    /// On the device, as f32.
    Full(Tensor<B, 2>),
    /// In host memory, at two bytes an element.
    Half(HalfMatrix),
}

impl<B: Backend<FloatElem = f32>> WeightMatrix<B> {
    /// All of it as f32 on the device.
    pub(super) fn full(&self, device: &B::Device) -> Tensor<B, 2> {
        match self {
            Self::Full(weight) => weight.clone(),
            Self::Half(weight) => from_host(weight.gather(0..weight.rows()), weight.rows(), device),
        }
    }

    /// Some rows as f32 on the device, in the order asked.
    pub(super) fn gather(&self, rows: &[u32], device: &B::Device) -> Tensor<B, 2> {
        match self {
            Self::Full(weight) => {
                let ids: Vec<i32> = rows.iter().map(|&id| id as i32).collect();
                let ids = Tensor::<B, 1, Int>::from_data(TensorData::new(ids, [rows.len()]), device);
                weight.clone().select(0, ids)
            }
            Self::Half(weight) => {
                from_host(weight.gather(rows.iter().map(|&id| id as usize)), rows.len(), device)
            }
        }
    }
}

/// What the rows of a product are to each other. It decides how they are computed, their number does not: so a row
/// comes out the same bits in any company of its kind, alone included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// Consecutive tokens of one sequence: many rows that share the weights.
    Tokens,
    /// One token each of independent sequences: few rows, for which weights are read once and as they are held.
    Lanes,
}

/// A backend that the decoder runs on, with f32 activations.
pub trait DecoderBackend: Backend<FloatElem = f32> {
    /// `x / rms(x) * weight` by row.
    ///
    /// # Shapes
    /// - `x`: `[tokens, width]`; `weight`: `[width]`
    fn rms_norm(x: Tensor<Self, 2>, weight: &Tensor<Self, 1>, eps: f64) -> Tensor<Self, 2> {
        let mean_square = x.clone().powi_scalar(2).mean_dim(1);
        x / (mean_square + eps).sqrt() * weight.clone().unsqueeze()
    }

    /// `silu(gate) * up`.
    ///
    /// # Shapes
    /// - `gate_up`: `[tokens, 2 * width]`, gates first; result `[tokens, width]`
    fn silu_mul(gate_up: Tensor<Self, 2>) -> Tensor<Self, 2> {
        let width = gate_up.dims()[1] / 2;
        let gate = gate_up.clone().narrow(1, 0, width);
        let up = gate_up.narrow(1, width, width);
        burn::tensor::activation::silu(gate) * up
    }

    /// Whether weights may be held at two bytes an element.
    const HOLDS_HALVES: bool = false;

    /// `x · weightᵀ`
    ///
    /// # Shapes
    /// - `x`: `[rows, in]`; result `[rows, out]`
    fn product(x: Tensor<Self, 2>, weight: &WeightMatrix<Self>, _batch: Batch) -> Tensor<Self, 2> {
        let weight = weight.full(&x.device());
        engine_product(x, weight)
    }
}

/// `x · weightᵀ` by the backend's engine.
///
/// The engine sums a product of very few rows in another order. So that a position's numbers do not depend on how
/// many come with it, such a product is filled up with rows of zeros.
fn engine_product<B: Backend>(x: Tensor<B, 2>, weight: Tensor<B, 2>) -> Tensor<B, 2> {
    let [rows, width] = x.dims();
    let missing = stable_rows(weight.dims()[0], width).saturating_sub(rows);
    let x = match missing {
        0 => x,
        _ => Tensor::cat(vec![x.clone(), Tensor::zeros([missing, width], &x.device())], 0),
    };
    let product = x.matmul(weight.transpose());
    if missing > 0 { product.narrow(0, 0, rows) } else { product }
}

/// The plain operations, which can be differentiated through; also the second opinion that tests ask.
impl<B: DecoderBackend> DecoderBackend for Autodiff<B> {}

/// The elements of a tensor, row by row; free on a backend that lives in host memory.
pub fn to_host<B: Backend<FloatElem = f32>>(tensor: Tensor<B, 2>) -> Vec<f32> {
    tensor.into_data().into_vec().expect("an f32 backend holds f32")
}

/// A tensor of `rows` rows from host memory.
pub fn from_host<B: Backend>(data: Vec<f32>, rows: usize, device: &B::Device) -> Tensor<B, 2> {
    let width = data.len() / rows;
    Tensor::from_data(TensorData::new(data, [rows, width]), device)
}

#[cfg(feature = "flex")]
mod flex;

#[cfg(feature = "cuda")]
impl DecoderBackend for burn::backend::Cuda {}
