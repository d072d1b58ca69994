//! The decoder: embedding, layers of attention and gated feed-forward, final norm, head.
//!
//! One implementation for Llama, Mistral, Qwen2 and Qwen3: they differ in which weights are there (biases,
//! q/k norms) and in configuration (windows, rotary scaling), not in code. The linear products are burn's where
//! a sequence has many tokens, `kvtune-kernels`' where every sequence has one; what a query reads is a [`LayerCache`]'s affair.
//!
//! A layer is offered in three steps ([`OpenLayer::project`], attention, [`OpenLayer::finish`]) so that several
//! caches can share one projection.

mod layer;
mod load;
mod projected;
mod walk;

use std::sync::Arc;

use burn::prelude::*;
use kvtune_kernels::pointwise;
use rayon::prelude::*;

use super::ModelError;
use super::config::Config;
use super::ops::{Batch, DecoderBackend, WeightMatrix};
use super::rope::Angles;
use super::weights::{Checkpoint, WeightType};
use crate::cache::{FullCache, HeadShape, LayerCache};
use crate::precision::LayerId;

pub use layer::OpenLayer;
pub use projected::Projected;
pub use walk::{LayerWork, Prefilled};

pub(crate) use walk::batches;

use layer::{Held, Layer};
use load::{Hold, Loader};

/// The weights of a model on a device, all of them or a layer at a time.
pub struct Decoder<B: DecoderBackend> {
    config: Config,
    device: B::Device,
    embedding: WeightMatrix<B>,
    layers: Layers<B>,
    /// One a layer.
    key_bias: Vec<Option<Vec<f32>>>,
    norm: Tensor<B, 1>,
    head: WeightMatrix<B>,
}

/// Where layers are while nobody works at them.
enum Layers<B: DecoderBackend> {
    /// In memory.
    Resident(Vec<Layer<B>>),
    /// In the mapped file.
    Streamed(Arc<Checkpoint>),
}

impl<B: DecoderBackend> Decoder<B> {
    /// Reads all weights of a checkpoint, as f32.
    ///
    /// # Errors
    /// [`ModelError`] naming file and tensor where one is missing, damaged or of another shape.
    pub fn load(checkpoint: &Checkpoint, device: &B::Device) -> Result<Self, ModelError> {
        Self::load_as(checkpoint, device, WeightType::F32)
    }

    /// Reads all weights of a checkpoint. Matrices are rounded to a type and held in it; norms and biases are f32.
    ///
    /// Products of few rows read the weights as they are held; for those of many a part of a matrix is f32 at a
    /// time. The numbers are those of f32 weights that were rounded to the type.
    ///
    /// # Errors
    /// [`ModelError`] naming file and tensor where one is missing, damaged, of another shape or beyond the type;
    /// and for any type but f32 on a device that computes with f32 only.
    pub fn load_as(
        checkpoint: &Checkpoint,
        device: &B::Device,
        weights: WeightType,
    ) -> Result<Self, ModelError> {
        if weights != WeightType::F32 && !B::HOLDS_HALVES {
            return Err(ModelError::WeightType { weights });
        }
        let loader = Loader { checkpoint, device, hold: Hold::As(weights), change: None };
        Self::resident(&loader)
    }

    /// [`Self::load`] with other weights in the layers: `change` gets the rows of each matrix there before they are
    /// used, those of one input together, and how many elements a row has.
    ///
    /// Embedding, head, norms and biases stay as they are.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_changed(
        checkpoint: &Checkpoint,
        device: &B::Device,
        change: &dyn Fn(&mut [f32], usize),
    ) -> Result<Self, ModelError> {
        let hold = Hold::As(WeightType::F32);
        Self::resident(&Loader { checkpoint, device, hold, change: Some(change) })
    }

    fn resident(loader: &Loader<'_, B>) -> Result<Self, ModelError> {
        let config = loader.checkpoint.config();
        let layers = (0..config.num_hidden_layers).map(|layer| loader.layer(config, layer));
        let layers = layers.collect::<Result<_, _>>()?;
        Self::around(loader, Layers::Resident(layers))
    }

    /// Reads what stands around the layers, and each layer when it is worked at.
    ///
    /// Layers stay in the mapped file in the type that they are stored in and are f32 only while they are open, so
    /// memory holds one at a time; embedding and head are held as stored where that is f16 or bf16, else as f32.
    /// The numbers are those of [`Self::load`]. Reading a layer takes about as long as some hundred tokens of work
    /// at it, so work goes layer by layer over many sequences, see [`Self::walk`].
    ///
    /// # Errors
    /// As [`Self::load`]; of the layers only what can be known without reading their numbers, the rest when they
    /// are opened.
    pub fn stream(checkpoint: Arc<Checkpoint>, device: &B::Device) -> Result<Self, ModelError> {
        let loader = Loader { checkpoint: &checkpoint, device, hold: Hold::AsStored, change: None };
        let config = checkpoint.config();
        (0..config.num_hidden_layers).try_for_each(|layer| loader.check(config, layer))?;
        Self::around(&loader, Layers::Streamed(Arc::clone(&checkpoint)))
    }

    fn around(loader: &Loader<'_, B>, layers: Layers<B>) -> Result<Self, ModelError> {
        let config = loader.checkpoint.config().clone();
        let (hidden, vocab) = (config.hidden_size, config.vocab_size);
        let embedding = loader.matrix("model.embed_tokens", vocab, hidden)?;
        let head = if config.tie_word_embeddings {
            embedding.clone()
        } else {
            loader.matrix("lm_head", vocab, hidden)?
        };
        let key_bias = (0..config.num_hidden_layers).map(|layer| loader.key_bias(&config, layer));
        let key_bias = key_bias.collect::<Result<_, _>>()?;
        let norm = loader.vector("model.norm.weight", hidden)?;
        Ok(Self { config, device: loader.device.clone(), embedding, layers, key_bias, norm, head })
    }

    /// Whether layers are read from the file each time they are worked at.
    pub fn is_streamed(&self) -> bool {
        matches!(self.layers, Layers::Streamed(_))
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
        self.embedding.gather(tokens, &self.device)
    }

    /// Rotary angles of positions `start..start + len`.
    pub fn angles(&self, start: usize, len: usize) -> Angles {
        Angles::new(&self.config.rope, self.config.head_dim, start, len)
    }

    /// A layer, with its weights at hand; dropped, those that were read for it are gone again.
    ///
    /// # Errors
    /// A streamed layer that cannot be read.
    pub fn open(&self, layer: usize) -> Result<OpenLayer<'_, B>, ModelError> {
        self.open_for(layer, Batch::Tokens, Hold::As(WeightType::F32))
    }

    /// `hold` says how a streamed layer is held: as f32 for many products, as stored for one of few rows.
    fn open_for(&self, layer: usize, batch: Batch, hold: Hold) -> Result<OpenLayer<'_, B>, ModelError> {
        let weights = match &self.layers {
            Layers::Resident(layers) => Held::Resident(&layers[layer]),
            Layers::Streamed(checkpoint) => {
                let loader = Loader { checkpoint, device: &self.device, hold, change: None };
                Held::Read(Box::new(loader.layer(&self.config, layer)?))
            }
        };
        Ok(OpenLayer { decoder: self, index: layer, weights, batch })
    }

    /// One more token on each of several independent sequences, whose caches stand lane by lane; then the final
    /// norm: `[lanes, hidden_size]`.
    ///
    /// Weights are read once for all lanes, as they are held; a lane's numbers are those that it would have alone.
    /// They agree with [`Self::forward`]'s up to rounding: its products sum in another order.
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
            let open = self.open_for(layer, Batch::Lanes, Hold::AsStored)?;
            let projected = open.project(&hidden, &angles);
            let mut out = vec![0.0; tokens.len() * width];
            let work = lanes.par_iter_mut().zip(out.par_chunks_exact_mut(width)).enumerate();
            let attended = work.try_for_each(|(lane, (caches, out))| {
                let cache = &mut caches[layer];
                cache.append(projected.k().only(lane), projected.v().only(lane))?;
                cache.attend(projected.q().only(lane), out)
            });
            attended.map_err(|source| ModelError::Cache { layer: LayerId(layer), source })?;
            hidden = open.finish(hidden, out);
            if taps.contains(&layer) {
                tapped.push(hidden.clone());
            }
        }
        Ok((self.final_norm(hidden), tapped))
    }

    /// All layers over the tokens that follow what the caches hold, then the final norm: `[tokens, hidden_size]`.
    ///
    /// Made for many tokens; each one's numbers are the same bits in pieces of any size. To go on token by token,
    /// [`Self::step`] is faster.
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
            hidden = self.open(layer)?.forward(hidden, &angles, cache)?;
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
            hidden = self.open(layer)?.forward(hidden, &angles, cache)?;
        }
        Ok(self.final_norm(hidden))
    }

    /// The norm behind the last layer.
    pub fn final_norm(&self, hidden: Tensor<B, 2>) -> Tensor<B, 2> {
        B::rms_norm(hidden, &self.norm, self.config.rms_norm_eps)
    }

    /// Logits `[tokens, vocab_size]` of normed hidden states; those of a row are the same bits in any company.
    pub fn logits(&self, hidden: Tensor<B, 2>) -> Tensor<B, 2> {
        B::product(hidden, &self.head, Batch::Lanes)
    }

    /// The matrix that [`logits`](Self::logits) multiplies by, as f32: `[vocab_size, hidden_size]`.
    pub fn head_weight(&self) -> Tensor<B, 2> {
        self.head.full(&self.device)
    }

    /// The rotated key bias of a layer at positions `0..len`, `[len, n_kv_heads * head_dim]`: k_proj's bias as
    /// it stands in a cached key. `None` where the layer has no such bias, or a norm follows it.
    pub fn rotated_key_bias(&self, layer: usize, len: usize) -> Option<Vec<f32>> {
        let bias = self.key_bias[layer].as_ref()?;
        let shape = self.shape();
        let angles = self.angles(0, len);
        let mut table = bias.repeat(len);
        pointwise::rotate(&mut table, bias.len(), shape.n_kv_heads, shape.head_dim, &angles.cos, &angles.sin);
        Some(table)
    }
}
