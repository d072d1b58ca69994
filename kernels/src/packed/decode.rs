//! One query over everything that is held: codes, exact tokens before and behind them.

use std::ops::Range;

use super::online::Online;
use super::stored::Stored;
use crate::isa::{Isa, Loop, dispatch};
use crate::pointwise::exp;

/// Tokens that go through the softmax together.
const CHUNK: usize = 256;

/// What was taken off a key before it was coded, by position: `key_bias: subtract`.
#[derive(Clone, Copy, Debug)]
pub struct Bias<'a> {
    /// The bias of the head at position 0, 1, …, `stride` elements apart.
    pub data: &'a [f32],
    /// Elements from one position to the next.
    pub stride: usize,
}

/// The query heads of one KV head.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// `[heads, head_dim]`, already scaled by 1/√head_dim.
    pub q: &'a [f32],
    /// Channels of a head.
    pub head_dim: usize,
    /// Whether keys and values were rotated before coding.
    pub hadamard: bool,
    /// Whether a bias was taken off the keys before that.
    pub bias: Option<Bias<'a>>,
}

/// Attention over some of the tokens, to be merged with that over others.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    /// The largest score of each head; −∞ where it has seen no token.
    max: Vec<f32>,
    /// Σ exp(score − max).
    sum: Vec<f32>,
    /// `[heads, head_dim]`: Σ exp(score − max) · value.
    out: Vec<f32>,
}

impl Partial {
    pub(super) fn new(max: Vec<f32>, sum: Vec<f32>, out: Vec<f32>) -> Self {
        Self { max, sum, out }
    }

    /// Both together.
    pub fn merge(&mut self, other: &Self) {
        let head_dim = self.out.len() / self.max.len().max(1);
        for h in 0..self.max.len() {
            let max = self.max[h].max(other.max[h]);
            let factor = |of: f32| if of > f32::NEG_INFINITY { exp(of - max) } else { 0.0 };
            let (mine, theirs) = (factor(self.max[h]), factor(other.max[h]));
            self.max[h] = max;
            self.sum[h] = self.sum[h] * mine + other.sum[h] * theirs;
            let heads = h * head_dim..(h + 1) * head_dim;
            for (out, other) in self.out[heads.clone()].iter_mut().zip(&other.out[heads]) {
                *out = *out * mine + other * theirs;
            }
        }
    }

    /// More heads.
    fn extend(&mut self, other: Self) {
        self.max.extend(other.max);
        self.sum.extend(other.sum);
        self.out.extend(other.out);
    }

    /// The attention outputs, `[heads, head_dim]`.
    pub fn finish(&self, out: &mut [f32]) {
        let head_dim = self.out.len() / self.max.len().max(1);
        for (h, (out, sums)) in
            out.chunks_exact_mut(head_dim).zip(self.out.chunks_exact(head_dim)).enumerate()
        {
            let scale = 1.0 / self.sum[h];
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = sum * scale;
            }
        }
    }
}

/// Attention of the query heads of one KV head over a range of tokens, on the calling thread.
///
/// Online softmax (Milakov & Gimelshein 2018) over chunks of 256 tokens at fixed places: the result depends on
/// the range, not on who computes what. Codes are read once for up to four query heads, where the processor has so many registers.
///
/// # Panics
/// If the range ends behind the last token, or keys and values do not hold the same tokens.
pub fn attend(query: Query<'_>, keys: Stored<'_>, values: Stored<'_>, tokens: Range<usize>) -> Partial {
    assert_eq!(keys.len(query.head_dim), values.len(query.head_dim), "as many keys as values");
    assert!(tokens.end <= keys.len(query.head_dim), "tokens {tokens:?} of {}", keys.len(query.head_dim));
    dispatch(Attend { query, keys, values, tokens })
}

/// [`attend`] in every instruction set that the processor has.
#[cfg(test)]
pub(super) fn attend_on_each(
    query: Query<'_>,
    keys: Stored<'_>,
    values: Stored<'_>,
    tokens: Range<usize>,
) -> Vec<Partial> {
    crate::isa::on_each(&Attend { query, keys, values, tokens })
}

#[derive(Clone)]
struct Attend<'a> {
    query: Query<'a>,
    keys: Stored<'a>,
    values: Stored<'a>,
    tokens: Range<usize>,
}

impl Loop for Attend<'_> {
    type Output = Partial;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> Partial {
        let head_dim = self.query.head_dim;
        let mut partial = Partial::new(Vec::new(), Vec::new(), Vec::new());
        let mut rest = self.query.q;
        while !rest.is_empty() {
            let heads = (rest.len() / head_dim).min(I::HEADS);
            let (q, others) = rest.split_at(heads * head_dim);
            rest = others;
            partial.extend(self.heads_up_to_four(isa, Query { q, ..self.query }, heads));
        }
        partial
    }
}

impl Attend<'_> {
    #[inline(always)]
    fn heads_up_to_four<I: Isa>(&self, isa: I, query: Query<'_>, heads: usize) -> Partial {
        if const { I::HEADS >= 4 } {
            match heads {
                4 => return self.heads::<I, 4>(isa, query),
                3 => return self.heads::<I, 3>(isa, query),
                _ => {}
            }
        }
        if const { I::HEADS >= 2 } && heads == 2 {
            return self.heads::<I, 2>(isa, query);
        }
        self.heads::<I, 1>(isa, query)
    }

    #[inline(always)]
    fn heads<I: Isa, const H: usize>(&self, isa: I, query: Query<'_>) -> Partial {
        let head_dim = query.head_dim;
        let mut state = Online::<H>::new(&query, &self.keys, &self.values);
        let first = self.keys.coded(head_dim).start;
        let mut start = self.tokens.start;
        while start < self.tokens.end {
            // Chunks begin at multiples behind the sinks, so that they are whole tiles.
            let next = first + (start.saturating_sub(first) / CHUNK + 1) * CHUNK;
            let chunk = start..next.min(self.tokens.end);
            start = chunk.end;
            state.scores(isa, &query, &self.keys, chunk.clone());
            state.soften(isa);
            state.weigh(isa, head_dim, &self.values, chunk);
        }
        state.finish(head_dim, query.hadamard)
    }
}
