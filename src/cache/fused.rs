use std::ops::Range;

use kvtune_kernels::packed::{Bias, Partial, Query, Stored, attend};
use rayon::prelude::*;

use super::attend::gather_queries;
use super::{HeadShape, Rows};

/// Tokens that one task reads: enough to keep it busy, few enough that a long cache keeps all threads busy.
const SPAN: usize = 2048;

/// A layer's cache as the fused kernel reads it, one KV head at a time.
pub(super) trait ByHead: Sync {
    /// The keys of a head.
    fn keys(&self, head: usize) -> Stored<'_>;

    /// The values of a head.
    fn values(&self, head: usize) -> Stored<'_>;

    /// What was taken off a head's keys before they were coded.
    fn bias(&self, _head: usize) -> Option<Bias<'_>> {
        None
    }

    /// Whether heads were rotated before they were coded.
    fn is_rotated(&self) -> bool {
        false
    }
}

/// Attention of the queries at positions `start..start + q.rows`, one by one, each over every token that it sees
/// as that is held. Tokens are cut at fixed places, so the result does not depend on the number of threads.
///
/// # Shapes
/// - `q`: `[queries, n_heads * head_dim]`; `out` the same, contiguous
pub(super) fn attend_fused(
    shape: HeadShape,
    window: Option<usize>,
    start: usize,
    q: Rows<'_>,
    cache: &impl ByHead,
    out: &mut [f32],
) {
    for (i, out) in out.chunks_exact_mut(shape.q_width()).enumerate() {
        let end = start + i + 1;
        let spans: Vec<_> = spans(window.map_or(0, |window| end.saturating_sub(window))..end).collect();
        let part = |task: usize| {
            let (head, span) = (task / spans.len(), spans[task % spans.len()].clone());
            let mut of_head = Vec::new();
            gather_queries(q, i..i + 1, head, shape, &mut of_head);
            let (head_dim, hadamard) = (shape.head_dim, cache.is_rotated());
            let query = Query { q: &of_head, head_dim, hadamard, bias: cache.bias(head) };
            attend(query, cache.keys(head), cache.values(head), span)
        };
        let parts: Vec<Partial> = (0..shape.n_kv_heads * spans.len()).into_par_iter().map(part).collect();
        let width = shape.heads_per_kv() * shape.head_dim;
        for (parts, out) in parts.chunks_exact(spans.len()).zip(out.chunks_exact_mut(width)) {
            let mut whole = parts[0].clone();
            parts[1..].iter().for_each(|part| whole.merge(part));
            whole.finish(out);
        }
    }
}

/// Cuts tokens at multiples of [`SPAN`].
fn spans(tokens: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    (tokens.start / SPAN..tokens.end.div_ceil(SPAN))
        .map(move |span| tokens.start.max(span * SPAN)..tokens.end.min((span + 1) * SPAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_cut_at_fixed_places() {
        assert_eq!(spans(0..1).next(), Some(0..1));
        assert_eq!(spans(2047..4097).collect::<Vec<_>>(), [2047..2048, 2048..4096, 4096..4097]);
    }
}
