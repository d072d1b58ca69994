use kvtune_kernels::attention::{Source, Visible, probabilities, weigh};
use rayon::prelude::*;

use super::{HeadShape, Rows};

/// Keys or values of all KV heads, and how many leading tokens each query reads as codes.
pub struct Side<'a> {
    /// The two versions of one KV head.
    pub source: &'a (dyn Fn(usize) -> Source<'a> + Sync),
    /// One count per query.
    pub frozen: &'a [usize],
}

/// Causal attention of the queries at positions `start..start + q.rows`.
///
/// # Shapes
/// - `q`: `[queries, n_heads * head_dim]`; `out` the same, contiguous
pub fn attend(
    shape: HeadShape,
    window: Option<usize>,
    start: usize,
    q: Rows<'_>,
    keys: &Side<'_>,
    values: &Side<'_>,
    out: &mut [f32],
) {
    let block = block_len(shape, start + q.rows);
    let work = |scratch: &mut Scratch, (index, out): (usize, &mut [f32])| {
        let first = index * block;
        let queries = out.len() / shape.q_width();
        let visible = |frozen| Visible { start: start + first, frozen, window };
        let of_keys = visible(&keys.frozen[first..first + queries]);
        let of_values = visible(&values.frozen[first..first + queries]);
        for head in 0..shape.n_kv_heads {
            gather_queries(q, first..first + queries, head, shape, &mut scratch.q);
            let rows = shape.heads_per_kv() * queries;
            scratch.weights.resize(rows * of_keys.columns(), 0.0);
            scratch.out.resize(rows * shape.head_dim, 0.0);
            probabilities(&scratch.q, shape.head_dim, (keys.source)(head), of_keys, &mut scratch.weights);
            weigh(&scratch.weights, shape.head_dim, (values.source)(head), of_values, &mut scratch.out);
            scatter_heads(&scratch.out, queries, head, shape, out);
        }
    };
    out.par_chunks_mut(block * shape.q_width()).enumerate().for_each_init(Scratch::default, work);
}

/// Queries of one block: as many as keep a block's attention weights within the second-level cache.
pub fn block_len(shape: HeadShape, tokens: usize) -> usize {
    const WEIGHTS: usize = 1 << 17;
    (WEIGHTS / (shape.heads_per_kv() * tokens.max(1))).clamp(8, 64)
}

/// The queries of one KV head's heads, head after head, scaled by 1/√head_dim.
///
/// # Shapes
/// - `out`: `[heads_per_kv * queries, head_dim]`
pub fn gather_queries(
    q: Rows<'_>,
    queries: std::ops::Range<usize>,
    kv_head: usize,
    shape: HeadShape,
    out: &mut Vec<f32>,
) {
    let scale = 1.0 / (shape.head_dim as f32).sqrt();
    out.clear();
    for head in 0..shape.heads_per_kv() {
        let at = (kv_head * shape.heads_per_kv() + head) * shape.head_dim;
        for query in queries.clone() {
            out.extend(q.row(query)[at..][..shape.head_dim].iter().map(|x| x * scale));
        }
    }
}

/// Puts a block of one KV head's query heads, `[heads_per_kv * queries, head_dim]`, into rows of
/// `[queries, n_heads * head_dim]`.
pub fn scatter_heads(block: &[f32], queries: usize, kv_head: usize, shape: HeadShape, out: &mut [f32]) {
    for (row, from) in block.chunks_exact(shape.head_dim).enumerate() {
        let (head, query) = (row / queries, row % queries);
        let at = query * shape.q_width() + (kv_head * shape.heads_per_kv() + head) * shape.head_dim;
        out[at..][..shape.head_dim].copy_from_slice(from);
    }
}

/// Buffers that one thread reuses from block to block.
#[derive(Default)]
struct Scratch {
    q: Vec<f32>,
    weights: Vec<f32>,
    out: Vec<f32>,
}
