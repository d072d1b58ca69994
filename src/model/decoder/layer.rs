use std::ops::Deref;

use burn::prelude::*;
use kvtune_kernels::pointwise;

use super::{Decoder, Projected};
use crate::cache::{HeadShape, LayerCache};
use crate::model::ops::{Batch, DecoderBackend, WeightMatrix, from_host, to_host};
use crate::model::{Angles, ModelError};
use crate::precision::LayerId;

/// The weights of one layer.
pub(super) struct Layer<B: DecoderBackend> {
    pub(super) attention_norm: Tensor<B, 1>,
    /// Queries, keys and values in one product.
    pub(super) qkv: Linear<B>,
    pub(super) qk_norm: Option<QkNorm>,
    pub(super) output: Linear<B>,
    pub(super) mlp_norm: Tensor<B, 1>,
    /// Gates and ups in one product.
    pub(super) gate_up: Linear<B>,
    pub(super) down: Linear<B>,
}

/// Per-head RMS norms of queries and keys before the rotary embedding (Qwen3).
pub(super) struct QkNorm {
    pub(super) q: Vec<f32>,
    pub(super) k: Vec<f32>,
}

impl QkNorm {
    fn apply(&self, data: &mut [f32], stride: usize, shape: HeadShape, eps: f64) {
        for row in data.chunks_exact_mut(stride) {
            let (q, k) = row[..shape.q_width() + shape.kv_width()].split_at_mut(shape.q_width());
            for (part, weight) in [(q, &self.q), (k, &self.k)] {
                let raw = part.to_vec();
                pointwise::rms_norm(&raw, weight, eps as f32, part);
            }
        }
    }
}

/// A product with a weight matrix as checkpoints store it.
pub(super) struct Linear<B: DecoderBackend> {
    pub(super) weight: WeightMatrix<B>,
    /// `[1, out]`
    pub(super) bias: Option<Tensor<B, 2>>,
}

impl<B: DecoderBackend> Linear<B> {
    /// `x · weightᵀ + bias`.
    fn forward(&self, x: Tensor<B, 2>, batch: Batch) -> Tensor<B, 2> {
        let product = B::product(x, &self.weight, batch);
        match &self.bias {
            Some(bias) => product + bias.clone(),
            None => product,
        }
    }
}

/// A layer whose weights are at hand: in the decoder's memory, or read for as long as this lives.
pub struct OpenLayer<'a, B: DecoderBackend> {
    pub(super) decoder: &'a Decoder<B>,
    pub(super) index: usize,
    pub(super) weights: Held<'a, B>,
    pub(super) batch: Batch,
}

/// Weights in the decoder, or of their own.
pub(super) enum Held<'a, B: DecoderBackend> {
    Resident(&'a Layer<B>),
    Read(Box<Layer<B>>),
}

impl<B: DecoderBackend> Deref for Held<'_, B> {
    type Target = Layer<B>;

    fn deref(&self) -> &Layer<B> {
        match self {
            Self::Resident(layer) => layer,
            Self::Read(layer) => layer,
        }
    }
}

impl<B: DecoderBackend> OpenLayer<'_, B> {
    /// The layer's number, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Normed, projected and rotated: what the layer's attention gets from the hidden states that enter it.
    pub fn project(&self, hidden: &Tensor<B, 2>, angles: &Angles) -> Projected {
        let (shape, eps) = (self.decoder.shape(), self.decoder.config().rms_norm_eps);
        let x = B::rms_norm(hidden.clone(), &self.weights.attention_norm, eps);
        let mut data = to_host(self.weights.qkv.forward(x, self.batch));
        let rows = hidden.dims()[0];
        let width = data.len() / rows;
        if let Some(norm) = &self.weights.qk_norm {
            norm.apply(&mut data, width, shape, eps);
        }
        // Keys stand right behind the queries, so one call turns both.
        let heads = shape.n_heads + shape.n_kv_heads;
        pointwise::rotate(&mut data, width, heads, shape.head_dim, &angles.cos, &angles.sin);
        Projected { data, shape, rows }
    }

    /// The hidden states that leave the layer, from those that entered it and the attention's outputs
    /// `[tokens, n_heads * head_dim]`.
    pub fn finish(&self, hidden: Tensor<B, 2>, attention: Vec<f32>) -> Tensor<B, 2> {
        let Layer { output, mlp_norm, gate_up, down, .. } = &*self.weights;
        let attention = from_host(attention, hidden.dims()[0], self.decoder.device());
        let hidden = hidden + output.forward(attention, self.batch);
        let x = B::rms_norm(hidden.clone(), mlp_norm, self.decoder.config().rms_norm_eps);
        let inner = B::silu_mul(gate_up.forward(x, self.batch));
        hidden + down.forward(inner, self.batch)
    }

    /// The layer over new tokens, through its cache.
    ///
    /// # Errors
    /// What the cache says, with the layer's number.
    pub fn forward(
        &self,
        hidden: Tensor<B, 2>,
        angles: &Angles,
        cache: &mut dyn LayerCache,
    ) -> Result<Tensor<B, 2>, ModelError> {
        let projected = self.project(&hidden, angles);
        let mut out = vec![0.0; projected.rows * self.decoder.shape().q_width()];
        let attended =
            cache.append(projected.k(), projected.v()).and_then(|()| cache.attend(projected.q(), &mut out));
        attended.map_err(|source| ModelError::Cache { layer: LayerId(self.index), source })?;
        Ok(self.finish(hidden, out))
    }
}
