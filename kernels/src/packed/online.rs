//! The running sums of one thread: scores, online softmax, weighted values, chunk by chunk.

use std::ops::Range;

use super::LANES;
use super::decode::{Partial, Query};
use super::dense::{self, Rows};
use super::head::{PackedHead, Scratch as TileScratch};
use super::keys::{self, KeyQuery, KeyScratch};
use super::stored::{Parts, Stored};
use super::values::{self, ValuePlan, ValueScratch};
use crate::hadamard::hadamard;
use crate::isa::Isa;
use crate::pointwise::exp;

/// What one thread keeps from chunk to chunk.
pub(super) struct Online<const H: usize> {
    /// `[H][width]`: queries as exact keys see them, and as codes do.
    exact_q: Vec<f32>,
    coded_q: Vec<f32>,
    width: usize,
    key_query: Option<KeyQuery>,
    key_scratch: KeyScratch,
    value_plan: Option<ValuePlan>,
    value_scratch: ValueScratch,
    tile_scratch: TileScratch,
    /// `[H][chunk]`: scores, then weights.
    scores: Vec<f32>,
    chunk: usize,
    /// Room for the scores or weights of some tiles, and for the tokens of one.
    buffer: Vec<f32>,
    tokens: Vec<f32>,
    max: [f32; H],
    sum: [f32; H],
    /// `[H][width]`: sums over exact values, and over codes.
    exact_out: Vec<f32>,
    coded_out: Vec<f32>,
}

impl<const H: usize> Online<H> {
    pub(super) fn new(query: &Query<'_>, keys: &Stored<'_>, values: &Stored<'_>) -> Self {
        let head_dim = query.head_dim;
        let width = head_dim.next_multiple_of(LANES);
        let padded = |q: &[f32]| {
            let mut padded = vec![0.0; H * width];
            for (to, from) in padded.chunks_exact_mut(width).zip(q.chunks_exact(head_dim)) {
                to[..head_dim].copy_from_slice(from);
            }
            padded
        };
        let exact_q = padded(query.q);
        let coded_q = match query.hadamard {
            true => {
                let mut rotated = query.q.to_vec();
                hadamard(&mut rotated, head_dim);
                padded(&rotated)
            }
            false => exact_q.clone(),
        };
        let of_codes = |keys: &&PackedHead| keys.layout().codec().is_affine();
        let key_query =
            keys.packed.filter(of_codes).map(|keys| KeyQuery::new(keys.layout(), &coded_q, width));
        let direct = |values: &&PackedHead| of_codes(values) && values::groups_are_strips(values.layout());
        let value_plan = values.packed.filter(direct).map(|values| ValuePlan::new(values.layout()));
        Self {
            exact_q,
            coded_q,
            width,
            key_query,
            key_scratch: KeyScratch::default(),
            value_plan,
            value_scratch: ValueScratch::default(),
            tile_scratch: TileScratch::default(),
            scores: Vec::new(),
            chunk: 0,
            buffer: Vec::new(),
            tokens: Vec::new(),
            max: [f32::NEG_INFINITY; H],
            sum: [0.0; H],
            exact_out: vec![0.0; H * width],
            coded_out: vec![0.0; H * width],
        }
    }

    #[inline(always)]
    pub(super) fn scores<I: Isa>(
        &mut self,
        isa: I,
        query: &Query<'_>,
        keys: &Stored<'_>,
        chunk: Range<usize>,
    ) {
        let (head_dim, width) = (query.head_dim, self.width);
        self.chunk = chunk.len();
        self.scores.clear();
        self.scores.resize(H * self.chunk, 0.0);
        let parts = Parts::of(keys, head_dim, &chunk);
        let exact_q = heads::<H>(&self.exact_q, width);
        for (data, at) in [parts.sinks, parts.tail] {
            let rows = Rows { data, stride: head_dim, rows: data.len() / head_dim };
            if rows.rows > 0 {
                dense::scores(isa, exact_q, head_dim, rows, &mut self.scores[at..], self.chunk);
            }
        }
        let (Some(packed), false) = (keys.packed, parts.coded.is_empty()) else { return };
        if let Some(bias) = query.bias {
            let first = chunk.start + parts.coded_at;
            let data = &bias.data[first * bias.stride..];
            let rows = Rows { data, stride: bias.stride, rows: parts.coded.len() };
            dense::scores(isa, exact_q, head_dim, rows, &mut self.scores[parts.coded_at..], self.chunk);
        }
        self.packed_scores(isa, packed, head_dim, parts.coded.clone(), parts.coded_at);
    }

    /// Scores of coded tokens, counted behind the sinks; the first stands at column `at`.
    #[inline(always)]
    fn packed_scores<I: Isa>(
        &mut self,
        isa: I,
        keys: &PackedHead,
        head_dim: usize,
        tokens: Range<usize>,
        at: usize,
    ) {
        let layout = keys.layout();
        let (size, width) = (layout.tile_tokens(), layout.columns() * LANES);
        for tiles in keys.stretches(keys.tiles(tokens.clone())) {
            let stride = tiles.len() * width;
            self.buffer.resize(H * stride, 0.0);
            match &self.key_query {
                Some(query) => {
                    let (scratch, out) = (&mut self.key_scratch, &mut self.buffer);
                    keys::scores::<I, H>(isa, keys, query, tiles.clone(), scratch, out);
                }
                None => self.decoded_scores(isa, keys, head_dim, tiles.clone(), stride),
            }
            for (index, tile) in tiles.enumerate() {
                let (from, to) = (tokens.start.max(tile * size), tokens.end.min((tile + 1) * size));
                for h in 0..H {
                    let scores = &mut self.scores[h * self.chunk + at + from - tokens.start..][..to - from];
                    let packed = &self.buffer[h * stride + index * width + from - tile * size..];
                    for (score, packed) in scores.iter_mut().zip(packed) {
                        *score += packed;
                    }
                }
            }
        }
    }

    /// The same by way of tokens, for codes that are not affine.
    #[inline(always)]
    fn decoded_scores<I: Isa>(
        &mut self,
        isa: I,
        keys: &PackedHead,
        head_dim: usize,
        tiles: Range<usize>,
        stride: usize,
    ) {
        let layout = keys.layout();
        let (size, width) = (layout.tile_tokens(), layout.columns() * LANES);
        self.tokens.resize(size * head_dim, 0.0);
        self.buffer.fill(0.0);
        let ahead = tiles.len();
        for (index, tile) in tiles.enumerate() {
            keys.prefetch(isa, tile + ahead..tile + ahead + 1);
            keys.decode_tile(tile, &mut self.tokens, &mut self.tile_scratch);
            let q = heads(&self.coded_q, self.width);
            let rows = Rows { data: &self.tokens, stride: head_dim, rows: size };
            dense::scores::<I, H>(isa, q, head_dim, rows, &mut self.buffer[index * width..], stride);
        }
    }

    /// Scores become weights relative to the largest score so far; earlier sums are brought to the same.
    #[inline(always)]
    pub(super) fn soften<I: Isa>(&mut self, isa: I) {
        for (h, scores) in self.scores.chunks_exact_mut(self.chunk).enumerate() {
            let max = largest(isa, scores, self.max[h]);
            let rescale = exp(self.max[h] - max);
            for score in scores.iter_mut() {
                *score = exp(*score - max);
            }
            let mut lanes = [0.0; LANES];
            let (chunks, rest) = scores.as_chunks::<LANES>();
            for chunk in chunks {
                for (lane, weight) in lanes.iter_mut().zip(chunk) {
                    *lane += weight;
                }
            }
            let sum = lanes.iter().sum::<f32>() + rest.iter().sum::<f32>();
            self.max[h] = max;
            self.sum[h] = self.sum[h] * rescale + sum;
            for out in [&mut self.exact_out, &mut self.coded_out] {
                for out in &mut out[h * self.width..][..self.width] {
                    *out *= rescale;
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn weigh<I: Isa>(
        &mut self,
        isa: I,
        head_dim: usize,
        values: &Stored<'_>,
        chunk: Range<usize>,
    ) {
        let parts = Parts::of(values, head_dim, &chunk);
        for (data, at) in [parts.sinks, parts.tail] {
            let rows = Rows { data, stride: head_dim, rows: data.len() / head_dim };
            if rows.rows > 0 {
                let weights = &self.scores[at..];
                dense::weigh::<I, H>(isa, weights, self.chunk, head_dim, rows, &mut self.exact_out);
            }
        }
        let (Some(packed), false) = (values.packed, parts.coded.is_empty()) else { return };
        let size = packed.layout().tile_tokens();
        for tiles in packed.stretches(packed.tiles(parts.coded.clone())) {
            let stride = tiles.len() * size;
            let first = tiles.start * size;
            let (from, to) = (parts.coded.start.max(first), parts.coded.end.min(first + stride));
            self.buffer.clear();
            self.buffer.resize(H * stride, 0.0);
            for h in 0..H {
                let at = h * self.chunk + parts.coded_at + from - parts.coded.start;
                self.buffer[h * stride + from - first..][..to - from]
                    .copy_from_slice(&self.scores[at..][..to - from]);
            }
            self.weigh_tiles(isa, head_dim, packed, tiles);
        }
    }

    /// Adds the values of tiles of one stretch, weighted by what stands in `self.buffer`.
    #[inline(always)]
    fn weigh_tiles<I: Isa>(&mut self, isa: I, head_dim: usize, values: &PackedHead, tiles: Range<usize>) {
        if let Some(plan) = &self.value_plan {
            let (weights, scratch) = (&self.buffer, &mut self.value_scratch);
            return values::weigh::<I, H>(isa, values, plan, tiles, weights, scratch, &mut self.coded_out);
        }
        let size = values.layout().tile_tokens();
        let stride = tiles.len() * size;
        self.tokens.resize(size * head_dim, 0.0);
        let ahead = tiles.len();
        for (index, tile) in tiles.enumerate() {
            values.prefetch(isa, tile + ahead..tile + ahead + 1);
            values.decode_tile(tile, &mut self.tokens, &mut self.tile_scratch);
            let rows = Rows { data: &self.tokens, stride: head_dim, rows: size };
            let weights = &self.buffer[index * size..];
            dense::weigh::<I, H>(isa, weights, stride, head_dim, rows, &mut self.coded_out);
        }
    }

    pub(super) fn finish(mut self, head_dim: usize, rotated: bool) -> Partial {
        let mut out = Vec::with_capacity(H * head_dim);
        for (coded, exact) in
            self.coded_out.chunks_exact_mut(self.width).zip(self.exact_out.chunks_exact(self.width))
        {
            let coded = &mut coded[..head_dim];
            if rotated {
                hadamard(coded, head_dim);
            }
            out.extend(coded.iter().zip(exact).map(|(coded, exact)| coded + exact));
        }
        Partial::new(self.max.to_vec(), self.sum.to_vec(), out)
    }
}

/// One row of `width` elements a head.
#[inline(always)]
fn heads<const H: usize>(rows: &[f32], width: usize) -> [&[f32]; H] {
    let mut heads = [&rows[..width]; H];
    for h in 1..H {
        heads[h] = &rows[h * width..][..width];
    }
    heads
}

/// The largest of some numbers and one more.
#[inline(always)]
fn largest<I: Isa>(isa: I, numbers: &[f32], other: f32) -> f32 {
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    let mut lanes = isa.splat(other);
    for chunk in chunks {
        lanes = isa.max(lanes, isa.load(chunk));
    }
    let mut largest = [0.0; LANES];
    isa.store(lanes, &mut largest);
    largest.iter().chain(rest).copied().fold(other, f32::max)
}
