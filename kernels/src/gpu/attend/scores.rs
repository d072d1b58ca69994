//! Scores of a chunk: q·k of every token and query head.

use cubecl::prelude::*;

use super::kernel::{Chunk, Shared};
use super::plan::Plan;
use super::tile::{Buffers, Words, code_of_rest, grid};
use crate::gpu::known::Known;
use crate::gpu::layout::LANES;

/// A score that weighs nothing, without infinities to subtract.
pub(super) const NOTHING: f32 = -1e30;

/// Loads the queries of all heads and, for keys per token, sums them by group.
#[cube]
pub(super) fn load_queries(q: &Array<f32>, shared: &mut Shared, #[comptime] plan: Plan) {
    let head_dim = comptime!(plan.head_dim());
    let size = comptime!((plan.heads * head_dim) as u32);
    let base = (CUBE_POS_Z * CUBE_COUNT_Y + CUBE_POS_Y) * size;
    let mut i = UNIT_POS;
    while i < size {
        shared.queries[i as usize] = q[(base + i) as usize];
        i += CUBE_DIM;
    }
    sync_cube();
    if comptime!(!plan.keys.per_channel) {
        let groups = comptime!(plan.keys.groups() as u32);
        let mut i = UNIT_POS;
        while i < comptime!(plan.sums_len() as u32) {
            let (head, from) = (i / groups, i % groups * comptime!(plan.keys.group as u32));
            let to = min(from + comptime!(plan.keys.group as u32), comptime!(head_dim as u32).runtime());
            let mut sum = f32::new(0.0);
            for channel in from..to {
                sum += shared.queries[(head * comptime!(head_dim as u32) + channel) as usize];
            }
            shared.sums[i as usize] = sum;
            i += CUBE_DIM;
        }
        sync_cube();
    }
}

/// Scores the tokens of a chunk that are codes: sixteen units a tile, each with its lane's tokens.
#[cube]
pub(super) fn score_codes(keys: &Buffers, chunk: &Chunk, shared: &mut Shared, #[comptime] plan: Plan) {
    let tokens = comptime!(plan.keys.tile.tokens as u32);
    if chunk.start < chunk.coded_keys {
        let tile = UNIT_POS / comptime!(LANES as u32);
        let lane = UNIT_POS % comptime!(LANES as u32);
        let start = chunk.start + tile * tokens;
        let page = comptime!(plan.keys.page as u32).runtime();
        let slot = if start < chunk.coded_keys { keys.slot(start / page) } else { 0u32.runtime() };
        let base = slot * comptime!(plan.keys.code_words() as u32)
            + start % page / tokens * comptime!(plan.keys.tile.words() as u32)
            + lane;
        let mut scores = zeros(comptime!(plan.heads * plan.keys.tile.columns()));
        if comptime!(plan.keys.per_channel) {
            if start < chunk.coded_keys {
                fold(keys, slot, tile, lane, shared, plan);
            }
            sync_cube();
            if start < chunk.coded_keys {
                per_channel(keys, base, tile, shared, &mut scores, plan);
            }
        } else if start < chunk.coded_keys {
            per_token(keys, slot, base, lane, shared, &mut scores, plan);
        }
        #[unroll]
        for block in 0..comptime!(plan.keys.tile.columns()) {
            let token = comptime!((block.known() * LANES) as u32) + lane;
            if token < tokens && start + token < chunk.coded_keys {
                #[unroll]
                for head in 0..comptime!(plan.heads) {
                    let place = place(comptime!(head.known()), tile * tokens + token, plan);
                    shared.scores[place] =
                        scores[comptime!(head.known() * plan.keys.tile.columns() + block.known())];
                }
            }
        }
    }
}

/// Folds a tile's scales into its own copy of the queries, and its zeros into sums of each lane.
#[cube]
fn fold(keys: &Buffers, slot: u32, tile: u32, lane: u32, shared: &mut Shared, #[comptime] plan: Plan) {
    let head_dim = comptime!(plan.head_dim());
    let mut offsets = zeros(plan.heads);
    let mut channel = lane;
    while channel < comptime!(head_dim as u32) {
        let grid = grid(&keys.meta, slot, channel, plan.keys);
        #[unroll]
        for head in 0..comptime!(plan.heads) {
            let q = shared.queries[comptime!(head.known() * head_dim) + channel as usize];
            let folded = tile * comptime!(plan.queries() as u32)
                + comptime!((head.known() * head_dim) as u32)
                + channel;
            shared.scratch[folded as usize] = q * grid.scale;
            offsets[head] += q * grid.zero;
        }
        channel += comptime!(LANES as u32);
    }
    #[unroll]
    for head in 0..comptime!(plan.heads) {
        shared.sums[comptime!(head.known() * plan.units()) + UNIT_POS as usize] = offsets[head];
    }
}

/// Σ (q·s)·code + Σ q·z, scales folded in before.
#[cube]
fn per_channel(
    keys: &Buffers,
    base: u32,
    tile: u32,
    shared: &Shared,
    scores: &mut Array<f32>,
    #[comptime] plan: Plan,
) {
    let blocks = comptime!(plan.keys.tile.columns());
    #[unroll]
    for head in 0..comptime!(plan.heads) {
        let mut offset = f32::new(0.0);
        for i in 0..LANES {
            let unit = (tile * comptime!(LANES as u32)) as usize + i;
            offset += shared.sums[comptime!(head.known() * plan.units()) + unit];
        }
        #[unroll]
        for block in 0..blocks {
            scores[comptime!(head.known() * blocks + block.known())] = offset;
        }
    }
    let first = tile * comptime!(plan.queries() as u32);
    dot(keys, base, &shared.scratch, first, 0usize, comptime!(plan.head_dim()), scores, plan);
}

/// Σ over groups of s·Σ q·code + z·Σq.
#[cube]
fn per_token(
    keys: &Buffers,
    slot: u32,
    base: u32,
    lane: u32,
    shared: &Shared,
    scores: &mut Array<f32>,
    #[comptime] plan: Plan,
) {
    let blocks = comptime!(plan.keys.tile.columns());
    let groups = comptime!(plan.keys.groups());
    #[unroll]
    for group in 0..groups {
        let mut part = zeros(comptime!(plan.heads * blocks));
        let from = comptime!(group.known() * plan.keys.group);
        let to = comptime!(plan.head_dim().min(from + plan.keys.group));
        dot(keys, base, &shared.queries, 0u32.runtime(), from, to, &mut part, plan);
        #[unroll]
        for block in 0..blocks {
            let token =
                comptime!((group.known() * plan.keys.tile.tokens + block.known() * LANES) as u32) + lane;
            let grid = grid(&keys.meta, slot, token, plan.keys);
            #[unroll]
            for head in 0..comptime!(plan.heads) {
                let i = comptime!(head.known() * blocks + block.known());
                scores[i] += grid.scale * part[i]
                    + grid.zero * shared.sums[comptime!(head.known() * groups + group.known())];
            }
        }
    }
}

/// Adds Σ q·code over channels `from..to` to the scores of each head and block of tokens.
#[cube]
fn dot(
    keys: &Buffers,
    base: u32,
    queries: &SharedMemory<f32>,
    first: u32,
    #[comptime] from: usize,
    #[comptime] to: usize,
    scores: &mut Array<f32>,
    #[comptime] plan: Plan,
) {
    let step = comptime!(plan.keys.tile.step() as u32).runtime();
    let full = comptime!(plan.keys.tile.full_rows());
    let mut channel = comptime!(from as u32).runtime();
    while channel < comptime!(to.min(full) as u32) {
        let words = Words::load(&keys.codes, base, channel, plan.keys);
        for i in 0..step {
            let mut codes = Array::<f32>::new(comptime!(plan.keys.tile.columns()));
            #[unroll]
            for column in 0..comptime!(plan.keys.tile.columns()) {
                codes[column] = words.code(i, comptime!(column.known()), plan.keys);
            }
            add_channel(queries, first + channel + i, &codes, scores, plan);
        }
        channel += step;
    }
    #[unroll]
    for row in comptime!(from.max(full))..comptime!(to.max(full)) {
        let mut codes = Array::<f32>::new(comptime!(plan.keys.tile.columns()));
        #[unroll]
        for column in 0..comptime!(plan.keys.tile.columns()) {
            codes[column] =
                code_of_rest(&keys.codes, base, comptime!(row.known()), comptime!(column.known()), plan.keys);
        }
        add_channel(queries, first + comptime!(row.known() as u32), &codes, scores, plan);
    }
}

/// Adds one channel's codes, times its number in each head's query, to the scores.
#[cube]
fn add_channel(
    queries: &SharedMemory<f32>,
    channel: u32,
    codes: &Array<f32>,
    scores: &mut Array<f32>,
    #[comptime] plan: Plan,
) {
    let columns = comptime!(plan.keys.tile.columns());
    #[unroll]
    for head in 0..comptime!(plan.heads) {
        let q = queries[(channel + comptime!((head.known() * plan.head_dim()) as u32)) as usize];
        #[unroll]
        for column in 0..columns {
            scores[comptime!(head.known() * columns + column.known())] += q * codes[column];
        }
    }
}

/// Scores the tokens of a chunk that are exact, one a unit, and marks those that there are not.
#[cube]
pub(super) fn score_exact(keys: &Buffers, chunk: &Chunk, shared: &mut Shared, #[comptime] plan: Plan) {
    let head_dim = comptime!(plan.head_dim());
    let mut i = UNIT_POS;
    while i < comptime!(plan.chunk() as u32) {
        let token = chunk.start + i;
        if token >= chunk.coded_keys {
            let mut scores = zeros(plan.heads);
            if token < chunk.end {
                let base = keys.row(chunk.sinks, chunk.row(token, keys.ring), head_dim) as usize;
                for channel in 0..head_dim {
                    let k = keys.exact[base + channel];
                    #[unroll]
                    for head in 0..comptime!(plan.heads) {
                        scores[head] += k * shared.queries[comptime!(head.known() * head_dim) + channel];
                    }
                }
            }
            #[unroll]
            for head in 0..comptime!(plan.heads) {
                let score = select(token < chunk.end, scores[head], f32::new(NOTHING));
                shared.scores[place(comptime!(head.known()), i, plan)] = score;
            }
        }
        i += CUBE_DIM;
    }
}

/// Where a head's number of a token of the chunk stands.
#[cube]
pub(super) fn place(#[comptime] row: usize, token: u32, #[comptime] plan: Plan) -> usize {
    (comptime!((row * plan.row()) as u32) + token + token / 32) as usize
}

/// An array of zeros in registers.
#[cube]
pub(super) fn zeros(#[comptime] length: usize) -> Array<f32> {
    let mut numbers = Array::<f32>::new(length);
    #[unroll]
    for i in 0..length {
        numbers[i] = f32::new(0.0);
    }
    numbers
}
