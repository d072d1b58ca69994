//! Documents through the full-precision model, with an eye on every layer's attention.

use std::ops::Range;

use kvtune_kernels::attention::{Visible, probabilities, weigh};

use super::channels::ChannelSums;
use super::lemma::{Tally, shift};
use super::map::AttentionMap;
use super::noise::Normal;
use super::pattern::PatternSums;
use crate::cache::{CodedTensor, HeadShape, Simulation, block_len, gather_queries, scatter_heads};
use crate::model::{Angles, Decoder, DecoderBackend, LayerWork, OpenLayer, Projected, Tensor2};
use crate::precision::{Bits, LayerId, PrecisionPair};
use crate::progress::Observer;
use crate::sensitivity::{SensitivityError, coded_keys, coded_values};

/// Queries of a head and document that noise is put to.
const SAMPLED: usize = 16;

/// How documents are observed.
pub struct Setting<'a, B: DecoderBackend> {
    /// The model.
    pub decoder: &'a Decoder<B>,
    /// The scheme that keys are coded by, to know how large the noise is.
    pub simulation: &'a Simulation,
    /// Key widths whose errors the noise is as large as, one after the other.
    pub noise_bits: &'a [Bits],
    /// Seed of the noise.
    pub seed: u64,
    /// Documents at a time.
    pub threads: usize,
    /// Hears one step a layer and document.
    pub observer: &'a dyn Observer,
}

/// What was seen, pooled over documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Layer by layer.
    pub layers: Vec<LayerObservation>,
}

/// What was seen of one layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerObservation {
    /// By query head.
    pub heads: Vec<PatternSums>,
    /// By query head, of the first document.
    pub maps: Vec<AttentionMap>,
    /// `[kv_head][channel]`
    pub channels: Vec<Vec<ChannelSums>>,
    /// Sampled queries of all heads under noise, by key width.
    pub lemma: Vec<Tally>,
}

impl LayerObservation {
    fn add(&mut self, other: &Self) {
        self.heads.iter_mut().zip(&other.heads).for_each(|(mine, theirs)| mine.add(theirs));
        let channels = self.channels.iter_mut().flatten().zip(other.channels.iter().flatten());
        channels.for_each(|(mine, theirs)| mine.add(theirs));
        self.lemma.iter_mut().zip(&other.lemma).for_each(|(mine, theirs)| mine.add(theirs));
    }
}

impl Observation {
    /// Sampled queries of all layers under noise as large as one of the key widths, counted from 0, makes.
    pub fn lemma(&self, width: usize) -> Tally {
        let mut all = Tally::default();
        self.layers.iter().filter_map(|layer| layer.lemma.get(width)).for_each(|tally| all.add(tally));
        all
    }
}

/// Observes documents at full precision.
///
/// The noise of the lemma is normal, of each channel as large as the root mean square of what coding its keys at
/// one of `noise_bits` changes (**ours**); it is put to up to 16 queries of each head and document, evenly spaced.
///
/// # Errors
/// [`SensitivityError`] naming the layer, or where the observer asked to stop.
pub fn observe<B: DecoderBackend>(
    setting: &Setting<'_, B>,
    documents: &[&[u32]],
) -> Result<Observation, SensitivityError> {
    let work = Observing { setting, documents };
    let seen = setting.decoder.walk(&work, documents.len(), setting.threads)?;
    let mut seen = seen.into_iter();
    let mut layers = seen.next().unwrap_or_default();
    for document in seen {
        layers.iter_mut().zip(&document).for_each(|(pooled, layer)| pooled.add(layer));
    }
    Ok(Observation { layers })
}

struct Observing<'a, B: DecoderBackend> {
    setting: &'a Setting<'a, B>,
    documents: &'a [&'a [u32]],
}

/// One document between two layers.
struct Walking<B: DecoderBackend> {
    document: usize,
    hidden: Tensor2<B>,
    angles: Angles,
    layers: Vec<LayerObservation>,
}

impl<B: DecoderBackend> LayerWork<B> for Observing<'_, B> {
    type State = Walking<B>;
    type Output = Vec<LayerObservation>;
    type Error = SensitivityError;

    fn size(&self, unit: usize) -> usize {
        self.documents[unit].len() * self.setting.decoder.config().hidden_size
    }

    fn begin(&self, unit: usize) -> Result<Walking<B>, SensitivityError> {
        let (decoder, tokens) = (self.setting.decoder, self.documents[unit]);
        let (hidden, angles) = (decoder.embed(tokens), decoder.angles(0, tokens.len()));
        Ok(Walking { document: unit, hidden, angles, layers: Vec::new() })
    }

    fn layer(&self, open: &OpenLayer<'_, B>, state: &mut Walking<B>) -> Result<(), SensitivityError> {
        if self.setting.observer.interrupted() {
            return Err(SensitivityError::Interrupted);
        }
        let projected = open.project(&state.hidden, &state.angles);
        let simulation = self.setting.simulation;
        let layer = Layer {
            index: open.index(),
            document: state.document,
            shape: simulation.shape(),
            window: simulation.window(open.index()),
            keys: coded_keys(simulation, open.index(), &projected, PrecisionPair::FULL.key)?,
            values: coded_values(simulation, open.index(), &projected, PrecisionPair::FULL.value)?,
            bias: self.setting.decoder.rotated_key_bias(open.index(), projected.k().rows),
            projected: &projected,
        };
        let (mut seen, out) = layer.observe()?;
        for &bits in self.setting.noise_bits {
            let coded = coded_keys(simulation, open.index(), &projected, bits)?;
            seen.lemma.push(layer.disturb(&coded, self.setting.seed));
        }
        state.layers.push(seen);
        state.hidden = open.finish(state.hidden.clone(), out);
        self.setting.observer.advance(1);
        Ok(())
    }

    fn end(&self, _unit: usize, state: Walking<B>) -> Result<Vec<LayerObservation>, SensitivityError> {
        Ok(state.layers)
    }
}

/// One layer of one document.
struct Layer<'a> {
    index: usize,
    document: usize,
    shape: HeadShape,
    window: Option<usize>,
    projected: &'a Projected,
    keys: CodedTensor,
    values: CodedTensor,
    /// `[tokens, n_kv_heads * head_dim]`
    bias: Option<Vec<f32>>,
}

impl Layer<'_> {
    /// What there is to see, and the full-precision attention outputs.
    fn observe(&self) -> Result<(LayerObservation, Vec<f32>), SensitivityError> {
        let tokens = self.tokens();
        let maps = if self.document == 0 { self.shape.n_heads } else { 0 };
        let mut seen = LayerObservation {
            heads: vec![PatternSums::default(); self.shape.n_heads],
            maps: vec![AttentionMap::new(tokens); maps],
            channels: self.channels(),
            lemma: Vec::new(),
        };
        let mut out = vec![0.0; tokens * self.shape.q_width()];
        let block = block_len(self.shape, tokens);
        for (first, out) in (0..tokens).step_by(block).zip(out.chunks_mut(block * self.shape.q_width())) {
            self.block(first..tokens.min(first + block), &mut seen, out);
        }
        if let Some(head) = seen.heads.iter().position(|head| !head.is_finite()) {
            let layer = LayerId(self.index);
            return Err(SensitivityError::NotFinite { layer, tensor: "attention weights", head });
        }
        Ok((seen, out))
    }

    fn tokens(&self) -> usize {
        self.projected.q().rows
    }

    /// Attention of a block of queries: outputs, and what its weights say.
    fn block(&self, queries: Range<usize>, seen: &mut LayerObservation, out: &mut [f32]) {
        let (dim, n) = (self.shape.head_dim, queries.len());
        let exact = vec![0; n];
        let visible = Visible { start: queries.start, frozen: &exact, window: self.window };
        let rows = self.shape.heads_per_kv() * n;
        let (mut q, mut head_out) = (Vec::new(), vec![0.0; rows * dim]);
        let mut weights = vec![0.0; rows * visible.columns()];
        for kv_head in 0..self.shape.n_kv_heads {
            gather_queries(self.projected.q(), queries.clone(), kv_head, self.shape, &mut q);
            probabilities(&q, dim, self.keys.source(kv_head), visible, &mut weights);
            for (row, weights) in weights.chunks_exact(visible.columns()).enumerate() {
                let (head, position) = (row / n, queries.start + row % n);
                let oldest = self.oldest(position);
                let weights = &weights[oldest - visible.begin()..=position - visible.begin()];
                let head = kv_head * self.shape.heads_per_kv() + head;
                seen.heads[head].query(weights, oldest);
                if let Some(map) = seen.maps.get_mut(head) {
                    map.query(position, weights, oldest);
                }
            }
            weigh(&weights, dim, self.values.source(kv_head), visible, &mut head_out);
            scatter_heads(&head_out, n, kv_head, self.shape, out);
        }
    }

    /// The first token that the query at a position sees.
    fn oldest(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }

    /// `[kv_head][channel]`
    fn channels(&self) -> Vec<Vec<ChannelSums>> {
        let (width, dim) = (self.shape.kv_width(), self.shape.head_dim);
        let mut sums = vec![ChannelSums::new(self.bias.is_some()); width];
        let keys = self.projected.k();
        for token in 0..keys.rows {
            let bias = |channel: usize| self.bias.as_ref().map(|bias| bias[token * width + channel]);
            for (channel, (sums, &key)) in sums.iter_mut().zip(keys.row(token)).enumerate() {
                sums.key(key, bias(channel));
            }
        }
        sums.chunks(dim).map(<[ChannelSums]>::to_vec).collect()
    }

    /// Puts noise as large as that of coded keys to sampled queries of every head.
    fn disturb(&self, coded: &CodedTensor, seed: u64) -> Tally {
        let mut tally = Tally::default();
        for kv_head in 0..self.shape.n_kv_heads {
            self.disturb_head(kv_head, &self.noise(coded, kv_head, seed), &mut tally);
        }
        tally
    }

    /// The same for the heads that read one KV head; `noise` is `[tokens, head_dim]`.
    fn disturb_head(&self, kv_head: usize, noise: &[f32], tally: &mut Tally) {
        let (tokens, dim) = (self.tokens(), self.shape.head_dim);
        let (exact, values) = (self.keys.exact(kv_head), self.values.exact(kv_head));
        let from = PatternSums::FROM.min(tokens - 1);
        let step = (tokens - from).div_ceil(SAMPLED).max(1);
        let scale = 1.0 / (dim as f64).sqrt();
        for head in kv_head * self.shape.heads_per_kv()..(kv_head + 1) * self.shape.heads_per_kv() {
            for position in (from..tokens).step_by(step) {
                let q = &self.projected.q().row(position)[head * dim..][..dim];
                let seen = self.oldest(position);
                let products = |rows: &[f32]| -> Vec<f64> {
                    let rows = rows[seen * dim..(position + 1) * dim].chunks_exact(dim);
                    rows.map(|row| scale * dot(q, row)).collect()
                };
                let value = |token: usize| &values[(seen + token) * dim..][..dim];
                tally.query(&shift(&products(exact), &products(noise), value, dim));
            }
        }
    }

    /// Normal noise as large, channel by channel, as what coding changes: `[tokens, head_dim]`.
    fn noise(&self, coded: &CodedTensor, kv_head: usize, seed: u64) -> Vec<f32> {
        let (dim, tokens) = (self.shape.head_dim, self.tokens());
        let mut squares = vec![0.0; dim];
        let rows = self.keys.exact(kv_head).chunks_exact(dim).zip(coded.read(kv_head).chunks_exact(dim));
        for (exact, coded) in rows {
            for (sum, (exact, coded)) in squares.iter_mut().zip(exact.iter().zip(coded)) {
                *sum += f64::from(exact - coded).powi(2);
            }
        }
        let sizes: Vec<f64> = squares.iter().map(|sum| (sum / tokens as f64).sqrt()).collect();
        let stream = ((self.document as u64) << 40) | ((self.index as u64) << 20) | kv_head as u64;
        // Stream 0 of this seed makes the synthetic queries.
        let mut normal = Normal::new(seed, stream + 1);
        (0..tokens).flat_map(|_| sizes.iter()).map(|size| (size * normal.draw()) as f32).collect()
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

#[cfg(all(test, feature = "flex"))]
mod tests;
