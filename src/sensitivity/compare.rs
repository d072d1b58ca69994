//! One layer's attention, over coded tensors beside full precision: outputs of each, and how the weights moved.

use std::ops::Range;

use kvtune_kernels::attention::{Visible, probabilities, weigh};
use kvtune_kernels::statistics::{Deviation, absolute_difference, root_mean_square};
use rayon::prelude::*;

use super::SensitivityError;
use crate::cache::{CodedTensor, HeadShape, Rows, block_len, gather_queries, scatter_heads};
use crate::precision::LayerId;

/// Where a layer's attention looks: heads, window, and which leading tokens each query reads as codes.
#[derive(Clone, Copy)]
pub(super) struct Geometry<'a> {
    pub shape: HeadShape,
    pub window: Option<usize>,
    /// One count per query, from position 0 on.
    pub key_frozen: &'a [usize],
    pub value_frozen: &'a [usize],
}

/// A run's queries and keys.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub q: Rows<'a>,
    pub keys: &'a CodedTensor,
}

/// A coding of the keys, and the codings of the values that are read with it.
pub(super) struct Reading<'a> {
    pub side: Side<'a>,
    pub values: Vec<&'a CodedTensor>,
}

/// What queries read from coded keys, and from each of several codings of the values.
#[derive(Default)]
pub(super) struct Compared {
    /// Σ|a − â| and number of visible entries, by query head.
    pub attention: Vec<(f64, u64)>,
    /// `[queries, n_heads * head_dim]` for each coding of the values.
    pub outputs: Vec<Vec<f32>>,
}

/// Attention of one reading against `full` (its keys exact), over the whole sequence.
pub(super) fn compare(geometry: &Geometry<'_>, full: Side<'_>, reading: &Reading<'_>) -> Compared {
    let readings = std::slice::from_ref(reading);
    let mut whole = Compared {
        outputs: vec![Vec::with_capacity(full.q.rows * geometry.shape.q_width()); reading.values.len()],
        ..Default::default()
    };
    for block in compare_blocks(geometry, full, readings, |_, compared| compared).into_iter().flatten() {
        add_attention(&mut whole.attention, &block.attention);
        for (whole, block) in whole.outputs.iter_mut().zip(block.outputs) {
            whole.extend(block);
        }
    }
    whole
}

/// Attention of each reading against `full` (its keys exact), block by block of queries: `keep` makes of what one
/// reading gave in a block what is kept of it, `[block][reading]`.
///
/// Weights over exact keys are computed once for all readings, those over coded keys once for all of a reading's
/// value codings.
pub(super) fn compare_blocks<T: Send>(
    geometry: &Geometry<'_>,
    full: Side<'_>,
    readings: &[Reading<'_>],
    keep: impl Fn(&Range<usize>, Compared) -> T + Sync,
) -> Vec<Vec<T>> {
    let tokens = full.q.rows;
    let block = block_len(geometry.shape, tokens);
    let starts: Vec<usize> = (0..tokens).step_by(block).collect();
    let of_block = |first: usize| {
        let queries = first..tokens.min(first + block);
        let compared = Block::new(geometry, &queries).compare(full, readings);
        compared.into_iter().map(|compared| keep(&queries, compared)).collect()
    };
    starts.into_par_iter().map(of_block).collect()
}

/// Some queries of a layer, and memory for what one KV head's heads compute for them.
struct Block<'a> {
    geometry: &'a Geometry<'a>,
    queries: &'a Range<usize>,
    /// No token is read as codes.
    exact: Vec<usize>,
    q: Vec<f32>,
    /// Attention weights over exact keys.
    reference: Vec<f32>,
    weights: Vec<f32>,
    out: Vec<f32>,
}

impl<'a> Block<'a> {
    fn new(geometry: &'a Geometry<'a>, queries: &'a Range<usize>) -> Self {
        let shape = geometry.shape;
        let exact = vec![0; queries.len()];
        let columns = Visible { start: queries.start, frozen: &exact, window: geometry.window }.columns();
        let rows = shape.heads_per_kv() * queries.len();
        let weights = vec![0.0; rows * columns];
        let out = vec![0.0; rows * shape.head_dim];
        Self { geometry, queries, exact, q: Vec::new(), reference: weights.clone(), weights, out }
    }

    fn compare(mut self, full: Side<'_>, readings: &[Reading<'_>]) -> Vec<Compared> {
        let shape = self.geometry.shape;
        let len = self.queries.len() * shape.q_width();
        let empty = |reading: &Reading<'_>| Compared {
            attention: Vec::with_capacity(shape.n_heads),
            outputs: vec![vec![0.0; len]; reading.values.len()],
        };
        let mut results: Vec<Compared> = readings.iter().map(empty).collect();
        for kv_head in 0..shape.n_kv_heads {
            gather_queries(full.q, self.queries.clone(), kv_head, shape, &mut self.q);
            let visible =
                Visible { start: self.queries.start, frozen: &self.exact, window: self.geometry.window };
            probabilities(&self.q, shape.head_dim, full.keys.source(kv_head), visible, &mut self.reference);
            for (reading, result) in readings.iter().zip(&mut results) {
                self.read(reading, kv_head, result);
            }
        }
        results
    }

    /// One KV head of one reading.
    fn read(&mut self, reading: &Reading<'_>, kv_head: usize, result: &mut Compared) {
        let Geometry { shape, window, key_frozen, value_frozen } = *self.geometry;
        let visible = |frozen: &'a [usize]| Visible {
            start: self.queries.start,
            frozen: &frozen[self.queries.clone()],
            window,
        };
        gather_queries(reading.side.q, self.queries.clone(), kv_head, shape, &mut self.q);
        let keys = reading.side.keys.source(kv_head);
        probabilities(&self.q, shape.head_dim, keys, visible(key_frozen), &mut self.weights);
        let by_head = self.weights.len() / shape.heads_per_kv();
        let seen = seen_entries(window, self.queries.clone());
        for (a, b) in self.reference.chunks_exact(by_head).zip(self.weights.chunks_exact(by_head)) {
            result.attention.push((absolute_difference(a, b), seen));
        }
        for (values, result) in reading.values.iter().zip(&mut result.outputs) {
            weigh(
                &self.weights,
                shape.head_dim,
                values.source(kv_head),
                visible(value_frozen),
                &mut self.out,
            );
            scatter_heads(&self.out, self.queries.len(), kv_head, shape, result);
        }
    }
}

/// Takes in another block's sums; blocks come in their order, whatever thread computed them.
pub(super) fn add_attention(sums: &mut Vec<(f64, u64)>, block: &[(f64, u64)]) {
    sums.resize(block.len(), (0.0, 0));
    for (sum, head) in sums.iter_mut().zip(block) {
        *sum = (sum.0 + head.0, sum.1 + head.1);
    }
}

/// (query, key) entries that a head's queries see.
fn seen_entries(window: Option<usize>, queries: Range<usize>) -> u64 {
    queries.map(|position| (position + 1).min(window.unwrap_or(usize::MAX)) as u64).sum()
}

/// Error of attention outputs by query head.
///
/// # Shapes
/// - both: `[tokens, n_heads * head_dim]`
pub(super) fn output_errors(
    layer: LayerId,
    shape: HeadShape,
    full: &[f32],
    coded: &[f32],
) -> Result<Vec<Deviation>, SensitivityError> {
    finite_outputs(layer, head_deviations(shape, floor_of(full), full, coded))
}

/// Deviations of some rows of attention outputs by query head, with |x| floored at `floor`.
///
/// # Shapes
/// - both: `[queries, n_heads * head_dim]`
pub(super) fn head_deviations(shape: HeadShape, floor: f32, full: &[f32], coded: &[f32]) -> Vec<Deviation> {
    let mut heads = vec![Deviation::default(); shape.n_heads];
    for (full, coded) in full.chunks_exact(shape.q_width()).zip(coded.chunks_exact(shape.q_width())) {
        let rows = full.chunks_exact(shape.head_dim).zip(coded.chunks_exact(shape.head_dim));
        for (head, (full, coded)) in heads.iter_mut().zip(rows) {
            head.add(&Deviation::new(full, coded, floor));
        }
    }
    heads
}

/// # Errors
/// [`SensitivityError::NotFinite`] naming the first head whose sums are not finite.
pub(super) fn finite_outputs(
    layer: LayerId,
    heads: Vec<Deviation>,
) -> Result<Vec<Deviation>, SensitivityError> {
    finite(layer, "attention outputs", heads)
}

/// Error of keys or values by KV head: exact in one run against as read in another (or the same).
pub(super) fn tensor_errors(
    layer: LayerId,
    tensor: &'static str,
    full: &CodedTensor,
    coded: &CodedTensor,
    shape: HeadShape,
) -> Result<Vec<Deviation>, SensitivityError> {
    let len = full.len() * shape.head_dim;
    let head_rms = |head| root_mean_square(&full.exact(head)[..len]);
    let mean_square: f64 = (0..shape.n_kv_heads).map(|head| head_rms(head).powi(2)).sum();
    let floor = (1e-6 * (mean_square / shape.n_kv_heads as f64).sqrt()) as f32;
    let of_head =
        |head| Deviation::new(&full.exact(head)[..len], &coded.read(head)[..len], floor_or_tiny(floor));
    finite(layer, tensor, (0..shape.n_kv_heads).map(of_head).collect())
}

/// |x| is floored at 1e-6 · rms(x), over the layer's whole tensor.
pub(super) fn floor_of(x: &[f32]) -> f32 {
    floor_or_tiny((1e-6 * root_mean_square(x)) as f32)
}

/// An all-zero tensor has no rms; any positive floor then gives 0 for no error and a large number otherwise.
fn floor_or_tiny(floor: f32) -> f32 {
    floor.max(f32::MIN_POSITIVE)
}

fn finite(
    layer: LayerId,
    tensor: &'static str,
    heads: Vec<Deviation>,
) -> Result<Vec<Deviation>, SensitivityError> {
    let bad = heads.iter().position(|head| !head.absolute.is_finite() || !head.magnitude.is_finite());
    match bad {
        Some(head) => Err(SensitivityError::NotFinite { layer, tensor, head }),
        None => Ok(heads),
    }
}
