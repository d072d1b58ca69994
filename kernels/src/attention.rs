//! Attention of a block of queries over keys and values that are partly codes, partly exact.
//!
//! Every query reads the leading `frozen` tokens as they dequantize and the rest exact; how many are frozen
//! depends on when the query is asked, so it is a number per query. Both versions of a tensor lie side by side
//! ([`Source`]), a block of queries is two small products with each, and the few columns where the queries of
//! one block disagree are computed both ways. The two halves, [`probabilities`] and [`weigh`], stand alone as
//! well: sensitivity shares the first between many value widths.
//!
//! All query heads of one KV head go together: row `h * queries + i` is query i of head h.

use crate::matrix::{Matrix, multiply};
use crate::pointwise::softmax;

/// Keys or values of one KV head, `[tokens, head_dim]` twice: as attention reads frozen tokens, and exact.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Dequantized codes; only leading tokens that some query calls frozen are read.
    pub coded: &'a [f32],
    /// What was appended.
    pub exact: &'a [f32],
}

/// Which tokens each query of a block may see, and how it reads them.
#[derive(Clone, Copy, Debug)]
pub struct Visible<'a> {
    /// Position of the first query; query i stands at `start + i` and sees no later token.
    pub start: usize,
    /// Leading tokens that each query reads as codes.
    pub frozen: &'a [usize],
    /// How many tokens back a query sees, itself included; `None` is all.
    pub window: Option<usize>,
}

impl Visible<'_> {
    fn queries(&self) -> usize {
        self.frozen.len()
    }

    /// One past the last token that any query of the block sees.
    pub fn end(&self) -> usize {
        self.start + self.queries()
    }

    /// The first token that query `i` sees.
    fn first(&self, i: usize) -> usize {
        self.window.map_or(0, |window| (self.start + i + 1).saturating_sub(window))
    }

    /// The first token that any query of the block sees.
    pub fn begin(&self) -> usize {
        self.first(0)
    }

    /// Tokens between [`begin`](Self::begin) and [`end`](Self::end): the columns of a block's probabilities.
    pub fn columns(&self) -> usize {
        self.end() - self.begin()
    }

    /// Where exact reading starts and coded reading ends over the whole block, as columns.
    fn split(&self) -> Split {
        let (mut exact_from, mut coded_to) = (self.end(), self.begin());
        for (i, &frozen) in self.frozen.iter().enumerate() {
            let seen = self.start + i + 1;
            if frozen < seen {
                exact_from = exact_from.min(frozen.max(self.begin()));
            }
            coded_to = coded_to.max(frozen.min(seen));
        }
        Split { exact_from: exact_from - self.begin(), coded_to: coded_to - self.begin() }
    }

    /// Columns that query `i` sees.
    fn seen(&self, i: usize) -> std::ops::Range<usize> {
        self.first(i) - self.begin()..self.start + i + 1 - self.begin()
    }

    /// Columns that query `i` reads as codes, clamped to the block.
    fn coded(&self, i: usize) -> usize {
        self.frozen[i].saturating_sub(self.begin()).min(self.columns())
    }
}

/// Columns `..coded_to` are read as codes by some query, columns `exact_from..` exact by some query.
struct Split {
    exact_from: usize,
    coded_to: usize,
}

/// Attention weights of a block of queries.
///
/// # Shapes
/// - `q`: `[heads * queries, head_dim]`, already scaled by 1/√head_dim
/// - `out`: `[heads * queries, visible.columns()]`; columns a query does not see are 0
pub fn probabilities(q: &[f32], head_dim: usize, keys: Source<'_>, visible: Visible<'_>, out: &mut [f32]) {
    let (columns, queries) = (visible.columns(), visible.queries());
    let rows = q.len() / head_dim;
    let Split { exact_from, coded_to } = visible.split();
    let q = Matrix::new(q, rows, head_dim, head_dim);
    let tokens = |data, from: usize, to: usize| {
        let at = (visible.begin() + from) * head_dim;
        Matrix::new(slice_from(data, at, to - from), to - from, head_dim, head_dim).transposed()
    };
    multiply(out, columns, false, q, tokens(keys.coded, 0, coded_to));
    let exact_only = exact_from.max(coded_to);
    multiply(&mut out[exact_only.min(columns)..], columns, false, q, tokens(keys.exact, exact_only, columns));
    if exact_from < coded_to {
        let width = coded_to - exact_from;
        let mut mixed = vec![0.0; rows * width];
        multiply(&mut mixed, width, false, q, tokens(keys.exact, exact_from, coded_to));
        for (row, exact) in mixed.chunks_exact(width).enumerate() {
            let from = visible.coded(row % queries).clamp(exact_from, coded_to);
            out[row * columns..][from..coded_to].copy_from_slice(&exact[from - exact_from..]);
        }
    }
    for (row, out) in out[..rows * columns].chunks_exact_mut(columns).enumerate() {
        let seen = visible.seen(row % queries);
        out[..seen.start].fill(0.0);
        out[seen.end..].fill(0.0);
        softmax(&mut out[seen]);
    }
}

/// Attention outputs of a block of queries: `weights · values`.
///
/// # Shapes
/// - `weights`: `[heads * queries, visible.columns()]`, as [`probabilities`] gives them
/// - `out`: `[heads * queries, head_dim]`
pub fn weigh(weights: &[f32], head_dim: usize, values: Source<'_>, visible: Visible<'_>, out: &mut [f32]) {
    let (columns, queries) = (visible.columns(), visible.queries());
    let rows = weights.len() / columns;
    let Split { exact_from, coded_to } = visible.split();
    let part =
        |from: usize, to: usize| Matrix::new(slice_from(weights, from, to - from), rows, to - from, columns);
    let tokens = |data, from: usize, to: usize| {
        let at = (visible.begin() + from) * head_dim;
        Matrix::new(slice_from(data, at, to - from), to - from, head_dim, head_dim)
    };
    let coded_only = exact_from.min(coded_to);
    multiply(out, head_dim, false, part(0, coded_only), tokens(values.coded, 0, coded_only));
    if coded_only == 0 {
        out[..rows * head_dim].fill(0.0);
    }
    let exact_only = exact_from.max(coded_to);
    let exact = tokens(values.exact, exact_only, columns);
    multiply(out, head_dim, true, part(exact_only, columns), exact);
    if exact_from < coded_to {
        let width = coded_to - exact_from;
        let mut mine = vec![0.0; rows * width];
        for (data, coded) in [(values.coded, true), (values.exact, false)] {
            for (row, mine) in mine.chunks_exact_mut(width).enumerate() {
                let from = visible.coded(row % queries).clamp(exact_from, coded_to) - exact_from;
                mine.copy_from_slice(&weights[row * columns..][exact_from..coded_to]);
                if coded { mine[from..].fill(0.0) } else { mine[..from].fill(0.0) }
            }
            let mine = Matrix::new(&mine, rows, width, width);
            multiply(out, head_dim, true, mine, tokens(data, exact_from, coded_to));
        }
    }
}

/// `data[at..]`, or nothing when no element is wanted (the other version of a tensor may not be there).
fn slice_from(data: &[f32], at: usize, wanted: usize) -> &[f32] {
    if wanted == 0 { &[] } else { &data[at..] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIM: usize = 8;

    fn noise(len: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761).max(1);
        let next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as f32 / u32::MAX as f32 - 0.5
        };
        std::iter::repeat_with(next).take(len).collect()
    }

    /// Attention as the formula says it, one query and one token at a time, in f64.
    fn reference(q: &[f32], keys: Source<'_>, values: Source<'_>, visible: Visible<'_>) -> Vec<f64> {
        let mut out = Vec::new();
        for (row, q) in q.chunks(DIM).enumerate() {
            let i = row % visible.queries();
            let position = visible.start + i;
            let first = visible.window.map_or(0, |window| (position + 1).saturating_sub(window));
            let pick = |source: Source<'_>, token: usize, d: usize| {
                let data = if token < visible.frozen[i] { source.coded } else { source.exact };
                f64::from(data[token * DIM + d])
            };
            let dot = |token| (0..DIM).map(|d| f64::from(q[d]) * pick(keys, token, d)).sum::<f64>();
            let scores: Vec<f64> = (first..=position).map(|token| dot(token).exp()).collect();
            let total: f64 = scores.iter().sum();
            for d in 0..DIM {
                let weighted =
                    scores.iter().zip(first..).map(|(s, token)| s / total * pick(values, token, d));
                out.push(weighted.sum());
            }
        }
        out
    }

    fn check(
        tokens: usize,
        start: usize,
        heads: usize,
        window: Option<usize>,
        frozen: impl Fn(usize) -> usize,
    ) {
        let queries = tokens - start;
        let tensors: Vec<Vec<f32>> = (1..=4).map(|seed| noise(tokens * DIM, seed)).collect();
        let keys = Source { coded: &tensors[0], exact: &tensors[1] };
        let values = Source { coded: &tensors[2], exact: &tensors[3] };
        let q: Vec<f32> = noise(heads * queries * DIM, 5).iter().map(|x| 4.0 * x).collect();
        let frozen: Vec<usize> = (start..tokens).map(frozen).collect();
        let visible = Visible { start, frozen: &frozen, window };
        let mut weights = vec![f32::NAN; heads * queries * visible.columns()];
        let mut out = vec![f32::NAN; heads * queries * DIM];
        probabilities(&q, DIM, keys, visible, &mut weights);
        weigh(&weights, DIM, values, visible, &mut out);
        for (found, expected) in out.iter().zip(reference(&q, keys, values, visible)) {
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} is not {expected}");
        }
    }

    #[test]
    fn a_full_precision_block_is_plain_causal_attention() {
        check(9, 0, 1, None, |_| 0);
        check(70, 5, 3, None, |_| 0);
    }

    #[test]
    fn every_query_reads_codes_up_to_its_own_boundary() {
        check(70, 5, 3, None, |position| position + 1);
        check(70, 5, 2, None, |position| (position + 1) / 32 * 32);
        check(70, 5, 2, None, |position| (position + 1_usize).saturating_sub(16));
        check(40, 0, 2, None, |_| 32);
        check(40, 39, 3, None, |_| 32);
    }

    #[test]
    fn a_window_hides_what_lies_before_it() {
        check(70, 0, 2, Some(16), |_| 0);
        check(70, 30, 2, Some(16), |position| (position + 1) / 32 * 32);
        check(70, 69, 1, Some(5), |_| 64);
        check(70, 20, 1, Some(100), |position| position + 1);
    }

    #[test]
    fn an_absent_version_is_never_touched() {
        let exact = noise(6 * DIM, 1);
        let q = noise(2 * DIM, 2);
        let visible = Visible { start: 4, frozen: &[0, 0], window: None };
        let source = Source { coded: &[], exact: &exact };
        let mut weights = vec![0.0; 2 * 6];
        let mut out = vec![0.0; 2 * DIM];
        probabilities(&q, DIM, source, visible, &mut weights);
        weigh(&weights, DIM, source, visible, &mut out);
        assert!(out.iter().all(|x| x.is_finite()));
    }
}
