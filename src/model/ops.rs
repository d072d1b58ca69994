//! The decoder's own operations on a backend: plain burn by default, fused loops where memory can be reached.
//!
//! A backend gets the defaults for free (`impl DecoderBackend for Cuda {}`); flex overrides them with the
//! single-pass functions of `kvtune-kernels`, on the tensor's own memory.

use burn::backend::Autodiff;
use burn::prelude::*;
use burn::tensor::TensorData;

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
mod flex {
    use burn::tensor::{Tensor, TensorPrimitive};
    use burn_flex::Flex;
    use kvtune_kernels::pointwise;
    use rayon::prelude::*;

    use super::{DecoderBackend, from_host};

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
    }

    /// A tensor of `width` columns, made block by block from the rows of `x` where they lie.
    fn by_rows(x: Tensor<Flex, 2>, width: usize, f: impl Fn(&[f32], &mut [f32]) + Sync) -> Tensor<Flex, 2> {
        let [rows, in_width] = x.dims();
        let device = x.device();
        let mut x = x.into_primitive();
        if let TensorPrimitive::Float(tensor) = &x
            && !tensor.is_contiguous()
        {
            x = TensorPrimitive::Float(tensor.to_contiguous());
        }
        let x = x.tensor();
        let x = x.as_slice::<f32>().expect("contiguous by now");
        let mut out = vec![0.0; rows * width];
        let blocks = x.par_chunks(ROWS * in_width).zip(out.par_chunks_mut(ROWS * width));
        blocks.for_each(|(x, out)| f(x, out));
        from_host(out, rows, &device)
    }
}

#[cfg(feature = "cuda")]
impl DecoderBackend for burn::backend::Cuda {}
