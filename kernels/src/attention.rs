//! Attention of a block of queries over keys and values that are partly codes, partly exact.
//!
//! Every query reads the leading `frozen` tokens as they dequantize and the rest exact; how many are frozen
//! depends on when the query is asked, so it is a number per query. Both versions of a tensor lie side by side
//! ([`Source`]), a block of queries is two products with each, and the few tokens where the queries of
//! one block disagree are computed both ways. Tokens go through products in chunks at fixed places, so that a
//! query's result is the same bits whether it comes alone or among others. The two halves, [`probabilities`] and
//! [`weigh`], stand alone as well: sensitivity shares the first between many value widths.
//!
//! All query heads of one KV head go together: row `h * queries + i` is query i of head h.

use std::ops::Range;

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

    /// Columns that query `i` sees.
    fn seen(&self, i: usize) -> Range<usize> {
        self.first(i) - self.begin()..self.start + i + 1 - self.begin()
    }

    /// Which versions of the tokens `chunk` the block reads: (some query as codes, some query exact).
    fn versions(&self, chunk: &Range<usize>) -> (bool, bool) {
        let (mut coded, mut exact) = (false, false);
        for (i, &frozen) in self.frozen.iter().enumerate() {
            let (from, to) = (self.first(i).max(chunk.start), (self.start + i + 1).min(chunk.end));
            coded |= from < to.min(frozen);
            exact |= from.max(frozen) < to;
        }
        (coded, exact)
    }

    /// Tokens of a chunk that query `i` reads in one version, as columns of the chunk.
    fn read_in(&self, i: usize, chunk: &Range<usize>, version: Version) -> Range<usize> {
        let boundary = self.frozen[i].clamp(chunk.start, chunk.end) - chunk.start;
        match version {
            Version::Coded => 0..boundary,
            Version::Exact => boundary..chunk.len(),
        }
    }

    /// The chunks of tokens that the block sees, at multiples of [`CHUNK`] whatever the block.
    fn chunks(&self) -> impl Iterator<Item = Range<usize>> {
        let end = self.end();
        (self.begin() / CHUNK * CHUNK..end).step_by(CHUNK).map(move |from| from..end.min(from + CHUNK))
    }

    /// The part of a chunk that lies among the block's columns: as columns, and as columns of the chunk.
    fn overlap(&self, chunk: &Range<usize>) -> (Range<usize>, Range<usize>) {
        let from = chunk.start.max(self.begin());
        (from - self.begin()..chunk.end - self.begin(), from - chunk.start..chunk.len())
    }
}

/// Tokens that go through one product.
const CHUNK: usize = 128;

/// Rows that every product has at least. The engine sums small products in another order; with so many rows
/// and [`CHUNK`] columns it never does.
const MIN_ROWS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Coded,
    Exact,
}

impl Source<'_> {
    /// The tokens of a chunk, `[CHUNK, head_dim]`, zeros behind the last one.
    fn chunk<'s>(
        &'s self,
        version: Version,
        chunk: &Range<usize>,
        head_dim: usize,
        padded: &'s mut Vec<f32>,
    ) -> Matrix<'s> {
        let data = if version == Version::Coded { self.coded } else { self.exact };
        let data = &data[chunk.start * head_dim..];
        let data = if data.len() >= CHUNK * head_dim {
            data
        } else {
            padded.clear();
            padded.extend_from_slice(&data[..chunk.len() * head_dim]);
            padded.resize(CHUNK * head_dim, 0.0);
            padded
        };
        Matrix::new(data, CHUNK, head_dim, head_dim)
    }
}

/// Attention weights of a block of queries.
///
/// A query's weights do not depend, bit for bit, on what other queries are in its block.
///
/// # Shapes
/// - `q`: `[heads * queries, head_dim]`, already scaled by 1/√head_dim
/// - `out`: `[heads * queries, visible.columns()]`; columns a query does not see are 0
pub fn probabilities(q: &[f32], head_dim: usize, keys: Source<'_>, visible: Visible<'_>, out: &mut [f32]) {
    let (columns, queries) = (visible.columns(), visible.queries());
    let rows = q.len() / head_dim;
    let mut q = std::borrow::Cow::Borrowed(q);
    if rows < MIN_ROWS {
        q.to_mut().resize(MIN_ROWS * head_dim, 0.0);
    }
    let padded_rows = rows.max(MIN_ROWS);
    let mut scores = vec![0.0; padded_rows * CHUNK];
    let mut padded = Vec::new();
    for chunk in visible.chunks() {
        let (coded, exact) = visible.versions(&chunk);
        let (to, from) = visible.overlap(&chunk);
        for version in [(coded, Version::Coded), (exact, Version::Exact)] {
            let (true, version) = version else { continue };
            let tokens = keys.chunk(version, &chunk, head_dim, &mut padded).transposed();
            multiply(&mut scores, CHUNK, false, Matrix::new(&q, padded_rows, head_dim, head_dim), tokens);
            for (row, scores) in scores.chunks_exact(CHUNK).take(rows).enumerate() {
                let mine = visible.read_in(row % queries, &chunk, version);
                let (start, end) = (mine.start.max(from.start), mine.end.max(from.start));
                out[row * columns + to.start + start - from.start..][..end - start]
                    .copy_from_slice(&scores[start..end]);
            }
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
/// Tokens are summed chunk by chunk at fixed places, so a query's output does not depend, bit for bit, on what
/// other queries are in its block.
///
/// # Shapes
/// - `weights`: `[heads * queries, visible.columns()]`, as [`probabilities`] gives them
/// - `out`: `[heads * queries, head_dim]`
pub fn weigh(weights: &[f32], head_dim: usize, values: Source<'_>, visible: Visible<'_>, out: &mut [f32]) {
    let (columns, queries) = (visible.columns(), visible.queries());
    let rows = weights.len() / columns;
    let padded_rows = rows.max(MIN_ROWS);
    let mut sum = vec![0.0; padded_rows * head_dim];
    let mut mine = vec![0.0; padded_rows * CHUNK];
    let mut padded = Vec::new();
    for chunk in visible.chunks() {
        let (coded, exact) = visible.versions(&chunk);
        let (from, to) = visible.overlap(&chunk);
        for version in [(coded, Version::Coded), (exact, Version::Exact)] {
            let (true, version) = version else { continue };
            for (row, mine) in mine.chunks_exact_mut(CHUNK).take(rows).enumerate() {
                let read = visible.read_in(row % queries, &chunk, version);
                let (start, end) = (read.start.max(to.start), read.end.max(to.start));
                mine.fill(0.0);
                mine[start..end].copy_from_slice(
                    &weights[row * columns + from.start + start - to.start..][..end - start],
                );
            }
            let tokens = values.chunk(version, &chunk, head_dim, &mut padded);
            multiply(&mut sum, head_dim, true, Matrix::new(&mine, padded_rows, CHUNK, CHUNK), tokens);
        }
    }
    out[..rows * head_dim].copy_from_slice(&sum[..rows * head_dim]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::noise;

    const DIM: usize = 8;

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

    /// Outputs of queries `start..tokens` in blocks of `block`.
    fn in_blocks(tokens: usize, start: usize, heads: usize, window: Option<usize>, block: usize) -> Vec<f32> {
        let tensors: Vec<Vec<f32>> = (1..=4).map(|seed| noise(tokens * DIM, seed)).collect();
        let keys = Source { coded: &tensors[0], exact: &tensors[1] };
        let values = Source { coded: &tensors[2], exact: &tensors[3] };
        let q = noise(tokens * heads * DIM, 5);
        let mut outputs = Vec::new();
        for from in (start..tokens).step_by(block) {
            let to = tokens.min(from + block);
            let frozen: Vec<usize> = (from..to).map(|position| (position + 1) / 32 * 32).collect();
            let visible = Visible { start: from, frozen: &frozen, window };
            let query =
                |row: usize| &q[(from + row % (to - from)) * heads * DIM + row / (to - from) * DIM..][..DIM];
            let rows = heads * (to - from);
            let q: Vec<f32> = (0..rows).flat_map(query).copied().collect();
            let (mut weights, mut out) = (vec![0.0; rows * visible.columns()], vec![0.0; rows * DIM]);
            probabilities(&q, DIM, keys, visible, &mut weights);
            weigh(&weights, DIM, values, visible, &mut out);
            let head_of = |i: usize| (0..heads).map(move |head| head * (to - from) + i);
            outputs.extend((0..to - from).flat_map(head_of).flat_map(|row| out[row * DIM..][..DIM].to_vec()));
        }
        outputs
    }

    #[test]
    fn a_query_is_the_same_bits_alone_or_among_others() {
        for (heads, window) in [(1, None), (3, None), (2, Some(40))] {
            let together = in_blocks(300, 0, heads, window, 300);
            for block in [1, 7, 64] {
                assert_eq!(in_blocks(300, 0, heads, window, block), together, "{heads} heads, {block}");
            }
        }
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
