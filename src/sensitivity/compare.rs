//! One layer's attention, over coded tensors beside full precision: outputs of each, and how the weights moved.

use kvtune_kernels::attention::{Visible, probabilities, weigh};
use kvtune_kernels::statistics::{Deviation, absolute_difference, root_mean_square};
use rayon::prelude::*;

use super::SensitivityError;
use crate::cache::{CodedTensor, HeadShape, Rows, block_len, gather_queries};
use crate::precision::LayerId;

/// Where a layer's attention looks: heads, window, and which leading tokens each query reads as codes.
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

/// What the queries of one run read from coded keys, and from each of several codings of the values.
pub(super) struct Compared {
    /// Σ|a − â| and number of visible entries, by query head.
    pub attention: Vec<(f64, u64)>,
    /// `[tokens, n_heads * head_dim]` for each coding of the values.
    pub outputs: Vec<Vec<f32>>,
}

/// Attention of `coded` (its keys as codes) against `full` (its keys exact), over all of `values` as codes.
///
/// The weights over coded keys are computed once for all value codings.
pub(super) fn compare(
    geometry: &Geometry<'_>,
    full: Side<'_>,
    coded: Side<'_>,
    values: &[&CodedTensor],
) -> Compared {
    let shape = geometry.shape;
    let tokens = full.q.rows;
    let block = block_len(shape, tokens);
    let starts: Vec<usize> = (0..tokens).step_by(block).collect();
    let blocks: Vec<Compared> = starts
        .into_par_iter()
        .map(|first| compare_block(geometry, full, coded, values, first..tokens.min(first + block)))
        .collect();
    // Sums in the order of blocks, whatever thread computed them.
    let mut whole = Compared {
        attention: vec![(0.0, 0); shape.n_heads],
        outputs: vec![Vec::with_capacity(tokens * shape.q_width()); values.len()],
    };
    for block in blocks {
        for (sum, head) in whole.attention.iter_mut().zip(block.attention) {
            *sum = (sum.0 + head.0, sum.1 + head.1);
        }
        for (whole, block) in whole.outputs.iter_mut().zip(block.outputs) {
            whole.extend(block);
        }
    }
    whole
}

fn compare_block(
    geometry: &Geometry<'_>,
    full: Side<'_>,
    coded: Side<'_>,
    values: &[&CodedTensor],
    queries: std::ops::Range<usize>,
) -> Compared {
    let Geometry { shape, window, .. } = *geometry;
    let (n, dim) = (queries.len(), shape.head_dim);
    let exact = vec![0; n];
    let visible = |frozen| Visible { start: queries.start, frozen, window };
    let of_full = visible(&exact);
    let of_keys = visible(&geometry.key_frozen[queries.clone()]);
    let of_values = visible(&geometry.value_frozen[queries.clone()]);
    let rows = shape.heads_per_kv() * n;
    let (mut q, mut out) = (Vec::new(), vec![0.0; rows * dim]);
    let mut reference = vec![0.0; rows * of_full.columns()];
    let mut weights = reference.clone();
    let mut result = Compared {
        attention: Vec::with_capacity(shape.n_heads),
        outputs: vec![vec![0.0; n * shape.q_width()]; values.len()],
    };
    let seen = seen_entries(window, queries.clone());
    for kv_head in 0..shape.n_kv_heads {
        gather_queries(full.q, queries.clone(), kv_head, shape, &mut q);
        probabilities(&q, dim, full.keys.source(kv_head), of_full, &mut reference);
        gather_queries(coded.q, queries.clone(), kv_head, shape, &mut q);
        probabilities(&q, dim, coded.keys.source(kv_head), of_keys, &mut weights);
        let by_head = n * of_full.columns();
        for (a, b) in reference.chunks_exact(by_head).zip(weights.chunks_exact(by_head)) {
            result.attention.push((absolute_difference(a, b), seen));
        }
        for (values, result) in values.iter().zip(&mut result.outputs) {
            weigh(&weights, dim, values.source(kv_head), of_values, &mut out);
            crate::cache::scatter_heads(&out, n, kv_head, shape, result);
        }
    }
    result
}

/// (query, key) entries that a head's queries see.
fn seen_entries(window: Option<usize>, queries: std::ops::Range<usize>) -> u64 {
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
    let floor = floor_of(full);
    let mut heads = vec![Deviation::default(); shape.n_heads];
    for (full, coded) in full.chunks_exact(shape.q_width()).zip(coded.chunks_exact(shape.q_width())) {
        let rows = full.chunks_exact(shape.head_dim).zip(coded.chunks_exact(shape.head_dim));
        for (head, (full, coded)) in heads.iter_mut().zip(rows) {
            head.add(&Deviation::new(full, coded, floor));
        }
    }
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
fn floor_of(x: &[f32]) -> f32 {
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
