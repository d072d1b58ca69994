//! The decoder: embedding, layers of attention and gated feed-forward, final norm, head.
//!
//! One implementation for Llama, Mistral, Qwen2 and Qwen3: they differ in which weights are there (biases,
//! q/k norms) and in configuration (windows, rotary scaling), not in code. The linear products are burn's;
//! what a query reads is a [`LayerCache`]'s affair.
//!
//! A layer is offered in three steps ([`Decoder::project`], attention, [`Decoder::finish`]) so that several
//! caches can share one projection.

use burn::prelude::*;
use burn::tensor::TensorData;
use kvtune_kernels::matrix::stable_rows;
use kvtune_kernels::pointwise;
use rayon::prelude::*;

use super::ModelError;
use super::config::Config;
use super::ops::{DecoderBackend, from_host, to_host};
use super::rope::Angles;
use super::weights::Checkpoint;
use crate::cache::{FullCache, HeadShape, LayerCache, Rows};
use crate::precision::LayerId;

/// The weights of a model on a device.
pub struct Decoder<B: DecoderBackend> {
    config: Config,
    device: B::Device,
    embedding: Tensor<B, 2>,
    layers: Vec<Layer<B>>,
    norm: Tensor<B, 1>,
    head: Linear<B>,
}

struct Layer<B: DecoderBackend> {
    attention_norm: Tensor<B, 1>,
    /// Queries, keys and values in one product.
    qkv: Linear<B>,
    qk_norm: Option<QkNorm>,
    key_bias: Option<Vec<f32>>,
    output: Linear<B>,
    mlp_norm: Tensor<B, 1>,
    /// Gates and ups in one product.
    gate_up: Linear<B>,
    down: Linear<B>,
}

/// Per-head RMS norms of queries and keys before the rotary embedding (Qwen3).
struct QkNorm {
    q: Vec<f32>,
    k: Vec<f32>,
}

/// Queries, keys and values of consecutive tokens of one layer, rotated; rows of q, then k, then v.
pub struct Projected {
    data: Vec<f32>,
    shape: HeadShape,
    rows: usize,
}

impl Projected {
    fn part(&self, from: usize, width: usize) -> Rows<'_> {
        let stride = self.shape.q_width() + 2 * self.shape.kv_width();
        Rows { data: &self.data[from..], stride, width, rows: self.rows }
    }

    /// `[tokens, n_heads * head_dim]`
    pub fn q(&self) -> Rows<'_> {
        self.part(0, self.shape.q_width())
    }

    /// `[tokens, n_kv_heads * head_dim]`
    pub fn k(&self) -> Rows<'_> {
        self.part(self.shape.q_width(), self.shape.kv_width())
    }

    /// `[tokens, n_kv_heads * head_dim]`
    pub fn v(&self) -> Rows<'_> {
        self.part(self.shape.q_width() + self.shape.kv_width(), self.shape.kv_width())
    }
}

impl<B: DecoderBackend> Decoder<B> {
    /// Reads all weights of a checkpoint.
    ///
    /// # Errors
    /// [`ModelError`] naming file and tensor where one is missing, damaged or of another shape.
    pub fn load(checkpoint: &Checkpoint, device: &B::Device) -> Result<Self, ModelError> {
        let config = checkpoint.config().clone();
        let loader = Loader { checkpoint, device };
        let (hidden, vocab) = (config.hidden_size, config.vocab_size);
        let embedding = loader.matrix("model.embed_tokens", vocab, hidden)?;
        let layers = (0..config.num_hidden_layers).map(|index| loader.layer(&config, index));
        let layers = layers.collect::<Result<_, _>>()?;
        let norm = loader.vector("model.norm.weight", hidden)?;
        let head = if config.tie_word_embeddings {
            embedding.clone()
        } else {
            loader.matrix("lm_head", vocab, hidden)?
        };
        let head = Linear { weight: head, bias: None };
        Ok(Self { config, device: device.clone(), embedding, layers, norm, head })
    }

    /// What the model is.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Heads of every layer.
    pub fn shape(&self) -> HeadShape {
        self.config.head_shape()
    }

    /// Where the weights are.
    pub fn device(&self) -> &B::Device {
        &self.device
    }

    /// Empty full-precision caches, one a layer.
    pub fn full_caches(&self) -> Vec<FullCache> {
        let windows = &self.config.sliding_window;
        windows.iter().map(|&window| FullCache::new(self.shape(), window)).collect()
    }

    /// The hidden states that enter layer 0: `[tokens, hidden_size]`.
    pub fn embed(&self, tokens: &[u32]) -> Tensor<B, 2> {
        let ids: Vec<i32> = tokens.iter().map(|&id| id as i32).collect();
        let ids = Tensor::<B, 1, Int>::from_data(TensorData::new(ids, [tokens.len()]), &self.device);
        self.embedding.clone().select(0, ids)
    }

    /// Rotary angles of positions `start..start + len`.
    pub fn angles(&self, start: usize, len: usize) -> Angles {
        Angles::new(&self.config.rope, self.config.head_dim, start, len)
    }

    /// Normed, projected and rotated: what one layer's attention gets from the hidden states that enter it.
    pub fn project(&self, layer: usize, hidden: &Tensor<B, 2>, angles: &Angles) -> Projected {
        let shape = self.shape();
        let weights = &self.layers[layer];
        let x = B::rms_norm(hidden.clone(), &weights.attention_norm, self.config.rms_norm_eps);
        let mut data = to_host(weights.qkv.forward(x));
        let rows = hidden.dims()[0];
        let width = data.len() / rows;
        if let Some(norm) = &weights.qk_norm {
            norm.apply(&mut data, width, shape, self.config.rms_norm_eps);
        }
        // Keys stand right behind the queries, so one call turns both.
        let heads = shape.n_heads + shape.n_kv_heads;
        pointwise::rotate(&mut data, width, heads, shape.head_dim, &angles.cos, &angles.sin);
        Projected { data, shape, rows }
    }

    /// The hidden states that leave a layer, from those that entered it and the attention's outputs
    /// `[tokens, n_heads * head_dim]`.
    pub fn finish(&self, layer: usize, hidden: Tensor<B, 2>, attention: Vec<f32>) -> Tensor<B, 2> {
        let weights = &self.layers[layer];
        let rows = hidden.dims()[0];
        let attention = from_host(attention, rows, &self.device);
        let hidden = hidden + weights.output.forward(attention);
        let x = B::rms_norm(hidden.clone(), &weights.mlp_norm, self.config.rms_norm_eps);
        hidden + weights.down.forward(B::silu_mul(weights.gate_up.forward(x)))
    }

    /// One layer over new tokens, through its cache.
    ///
    /// # Errors
    /// What the cache says, with the layer's number.
    pub fn layer(
        &self,
        layer: usize,
        hidden: Tensor<B, 2>,
        angles: &Angles,
        cache: &mut dyn LayerCache,
    ) -> Result<Tensor<B, 2>, ModelError> {
        let projected = self.project(layer, &hidden, angles);
        let mut out = vec![0.0; projected.rows * self.shape().q_width()];
        let attended =
            cache.append(projected.k(), projected.v()).and_then(|()| cache.attend(projected.q(), &mut out));
        attended.map_err(|source| ModelError::Cache { layer: LayerId(layer), source })?;
        Ok(self.finish(layer, hidden, out))
    }

    /// One more token on each of several independent sequences, whose caches stand lane by lane; then the final
    /// norm: `[lanes, hidden_size]`.
    ///
    /// Weights are read once for all lanes; a lane's numbers are those that it would have alone.
    ///
    /// # Errors
    /// What a cache says, with the layer's number.
    pub fn step<C: LayerCache>(
        &self,
        tokens: &[u32],
        lanes: &mut [Vec<C>],
    ) -> Result<Tensor<B, 2>, ModelError> {
        Ok(self.step_tapped(tokens, lanes, &[])?.0)
    }

    /// [`step`](Self::step), and the hidden states that leave the layers of `taps`, in the order of the layers.
    ///
    /// # Errors
    /// What a cache says, with the layer's number.
    pub fn step_tapped<C: LayerCache>(
        &self,
        tokens: &[u32],
        lanes: &mut [Vec<C>],
        taps: &[usize],
    ) -> Result<(Tensor<B, 2>, Vec<Tensor<B, 2>>), ModelError> {
        let mut tapped = Vec::new();
        let positions = lanes.iter().map(|caches| caches.first().map_or(0, |cache| cache.len()));
        let angles = Angles::at(&self.config.rope, self.config.head_dim, positions);
        let width = self.shape().q_width();
        let mut hidden = self.embed(tokens);
        for layer in 0..self.config.num_hidden_layers {
            let projected = self.project(layer, &hidden, &angles);
            let mut out = vec![0.0; tokens.len() * width];
            let work = lanes.par_iter_mut().zip(out.par_chunks_exact_mut(width)).enumerate();
            let attended = work.try_for_each(|(lane, (caches, out))| {
                let cache = &mut caches[layer];
                cache.append(projected.k().only(lane), projected.v().only(lane))?;
                cache.attend(projected.q().only(lane), out)
            });
            attended.map_err(|source| ModelError::Cache { layer: LayerId(layer), source })?;
            hidden = self.finish(layer, hidden, out);
            if taps.contains(&layer) {
                tapped.push(hidden.clone());
            }
        }
        Ok((self.final_norm(hidden), tapped))
    }

    /// All layers over the tokens that follow what the caches hold, then the final norm: `[tokens, hidden_size]`.
    ///
    /// # Errors
    /// What a cache says, with the layer's number.
    pub fn forward<C: LayerCache>(
        &self,
        tokens: &[u32],
        caches: &mut [C],
    ) -> Result<Tensor<B, 2>, ModelError> {
        self.forward_from(0, self.embed(tokens), caches)
    }

    /// [`forward`](Self::forward), and the hidden states that leave the layers of `taps`, in the order of the
    /// layers.
    ///
    /// # Errors
    /// What a cache says, with the layer's number.
    pub fn forward_tapped<C: LayerCache>(
        &self,
        tokens: &[u32],
        caches: &mut [C],
        taps: &[usize],
    ) -> Result<(Tensor<B, 2>, Vec<Tensor<B, 2>>), ModelError> {
        let start = caches.first().map_or(0, |cache| cache.len());
        let angles = self.angles(start, tokens.len());
        let (mut hidden, mut tapped) = (self.embed(tokens), Vec::new());
        for (layer, cache) in caches.iter_mut().enumerate() {
            hidden = self.layer(layer, hidden, &angles, cache)?;
            if taps.contains(&layer) {
                tapped.push(hidden.clone());
            }
        }
        Ok((self.final_norm(hidden), tapped))
    }

    /// Layers `first..` over the hidden states that enter layer `first`, then the final norm.
    ///
    /// `caches` holds one cache for each of these layers.
    ///
    /// # Errors
    /// What a cache says, with the layer's number.
    pub fn forward_from<C: LayerCache>(
        &self,
        first: usize,
        mut hidden: Tensor<B, 2>,
        caches: &mut [C],
    ) -> Result<Tensor<B, 2>, ModelError> {
        let start = caches.first().map_or(0, |cache| cache.len());
        let angles = self.angles(start, hidden.dims()[0]);
        for (layer, cache) in (first..).zip(caches) {
            hidden = self.layer(layer, hidden, &angles, cache)?;
        }
        Ok(self.final_norm(hidden))
    }

    /// The norm behind the last layer.
    pub fn final_norm(&self, hidden: Tensor<B, 2>) -> Tensor<B, 2> {
        B::rms_norm(hidden, &self.norm, self.config.rms_norm_eps)
    }

    /// Logits `[tokens, vocab_size]` of normed hidden states.
    pub fn logits(&self, hidden: Tensor<B, 2>) -> Tensor<B, 2> {
        self.head.forward(hidden)
    }

    /// The matrix that [`logits`](Self::logits) multiplies by: `[vocab_size, hidden_size]`.
    pub fn head_weight(&self) -> Tensor<B, 2> {
        self.head.weight.clone()
    }

    /// The rotated key bias of a layer at positions `0..len`, `[len, n_kv_heads * head_dim]`: k_proj's bias as
    /// it stands in a cached key. `None` where the layer has no such bias, or a norm follows it.
    pub fn rotated_key_bias(&self, layer: usize, len: usize) -> Option<Vec<f32>> {
        let bias = self.layers[layer].key_bias.as_ref()?;
        let shape = self.shape();
        let angles = self.angles(0, len);
        let mut table = bias.repeat(len);
        pointwise::rotate(&mut table, bias.len(), shape.n_kv_heads, shape.head_dim, &angles.cos, &angles.sin);
        Some(table)
    }
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
struct Linear<B: DecoderBackend> {
    /// `[out, in]`
    weight: Tensor<B, 2>,
    /// `[1, out]`
    bias: Option<Tensor<B, 2>>,
}

impl<B: DecoderBackend> Linear<B> {
    /// `x · weightᵀ + bias`.
    ///
    /// The engine sums a product of very few rows in another order. So that a position's numbers do not depend
    /// on how many come with it, such a product is filled up with rows of zeros.
    fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let [rows, width] = x.dims();
        let missing = stable_rows(self.weight.dims()[0]).saturating_sub(rows);
        let x = match missing {
            0 => x,
            _ => Tensor::cat(vec![x.clone(), Tensor::zeros([missing, width], &x.device())], 0),
        };
        let product = x.matmul(self.weight.clone().transpose());
        let product = if missing > 0 { product.narrow(0, 0, rows) } else { product };
        match &self.bias {
            Some(bias) => product + bias.clone(),
            None => product,
        }
    }
}

/// Reads tensors of a checkpoint onto a device.
struct Loader<'a, B: DecoderBackend> {
    checkpoint: &'a Checkpoint,
    device: &'a B::Device,
}

impl<B: DecoderBackend> Loader<'_, B> {
    fn layer(&self, config: &Config, index: usize) -> Result<Layer<B>, ModelError> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let shape = config.head_shape();
        let (q, kv, head_dim) = (shape.q_width(), shape.kv_width(), shape.head_dim);
        let name = |part: &str| format!("model.layers.{index}.{part}");
        let qkv =
            [(name("self_attn.q_proj"), q), (name("self_attn.k_proj"), kv), (name("self_attn.v_proj"), kv)];
        let qk_norm = self.qk_norm(&name("self_attn"), head_dim)?;
        let key_bias = match qk_norm {
            Some(_) => None,
            None => self.checkpoint.optional_tensor(&name("self_attn.k_proj.bias"), &[kv])?,
        };
        Ok(Layer {
            attention_norm: self.vector(&name("input_layernorm.weight"), hidden)?,
            qkv: self.linear(&qkv, hidden)?,
            qk_norm,
            key_bias,
            output: self.linear(&[(name("self_attn.o_proj"), hidden)], q)?,
            mlp_norm: self.vector(&name("post_attention_layernorm.weight"), hidden)?,
            gate_up: self.linear(&[(name("mlp.gate_proj"), inner), (name("mlp.up_proj"), inner)], hidden)?,
            down: self.linear(&[(name("mlp.down_proj"), hidden)], inner)?,
        })
    }

    fn qk_norm(&self, attention: &str, head_dim: usize) -> Result<Option<QkNorm>, ModelError> {
        let weight =
            |part: &str| self.checkpoint.optional_tensor(&format!("{attention}.{part}.weight"), &[head_dim]);
        Ok(weight("q_norm")?.zip(weight("k_norm")?).map(|(q, k)| QkNorm { q, k }))
    }

    /// Several projections of the same input, stacked; biases too, zeros where one of them has none.
    fn linear(&self, parts: &[(String, usize)], input: usize) -> Result<Linear<B>, ModelError> {
        let (mut weight, mut bias, mut any_bias) = (Vec::new(), Vec::new(), false);
        for (name, output) in parts {
            weight.extend(self.checkpoint.tensor(&format!("{name}.weight"), &[*output, input])?);
            match self.checkpoint.optional_tensor(&format!("{name}.bias"), &[*output])? {
                Some(part) => {
                    any_bias = true;
                    bias.extend(part);
                }
                None => bias.resize(bias.len() + output, 0.0),
            }
        }
        let rows = bias.len();
        let bias = any_bias.then(|| from_host(bias, 1, self.device));
        Ok(Linear { weight: from_host(weight, rows, self.device), bias })
    }

    fn matrix(&self, name: &str, rows: usize, cols: usize) -> Result<Tensor<B, 2>, ModelError> {
        let data = self.checkpoint.tensor(&format!("{name}.weight"), &[rows, cols])?;
        Ok(from_host(data, rows, self.device))
    }

    fn vector(&self, name: &str, len: usize) -> Result<Tensor<B, 1>, ModelError> {
        let data = self.checkpoint.tensor(name, &[len])?;
        Ok(Tensor::from_data(TensorData::new(data, [len]), self.device))
    }
}
