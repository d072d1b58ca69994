//! Weighted sums of a chunk's values, and what a cube hands on at its end.

use cubecl::prelude::*;

use super::kernel::{Chunk, Running, Shared};
use super::plan::Plan;
use super::scores::place;
use super::tile::{Buffers, Words};
use crate::gpu::known::Known;
use crate::gpu::layout::LANES;

/// Adds Σ (weight·s)·code: sixteen units a tile, each with its lane's channels.
#[cube]
pub(super) fn add_codes(
    values: &Buffers,
    chunk: &Chunk,
    shared: &Shared,
    running: &mut Running,
    #[comptime] plan: Plan,
) {
    let tokens = comptime!(plan.values.tile.tokens as u32);
    let step = comptime!(plan.values.tile.step() as u32).runtime();
    let lane = UNIT_POS % comptime!(LANES as u32);
    let mut tile = UNIT_POS / comptime!(LANES as u32);
    while tile < comptime!(plan.value_tiles() as u32) {
        let start = chunk.start + tile * tokens;
        if start < chunk.coded_values {
            let base = values.slot(start / tokens) * comptime!(plan.values.code_words() as u32) + lane;
            let last = min(chunk.coded_values - start, tokens);
            let mut token = 0u32;
            while token < last {
                let words = Words::load(&values.codes, base, token, plan.values);
                for i in 0..step {
                    add_token(&words, i, tile * tokens + token + i, shared, running, plan);
                }
                token += step;
            }
        }
        tile += comptime!(plan.tiles as u32);
    }
}

/// Adds token `i` of a step to all heads and blocks of channels.
#[cube]
fn add_token(words: &Words, i: u32, at: u32, shared: &Shared, running: &mut Running, #[comptime] plan: Plan) {
    let blocks = comptime!(plan.values.tile.columns());
    let groups = comptime!(plan.values.groups());
    let mut codes = Array::<f32>::new(blocks);
    #[unroll]
    for block in 0..blocks {
        codes[block] = words.code(i, comptime!(block.known()), plan.values);
    }
    #[unroll]
    for head in 0..comptime!(plan.heads) {
        #[unroll]
        for group in 0..groups {
            let weight = shared.scratch[place(comptime!(head.known() * groups + group.known()), at, plan)];
            let from = comptime!(group.known() * plan.values.group / LANES);
            let to = comptime!(blocks.min(((group.known() + 1) * plan.values.group).div_ceil(LANES)));
            #[unroll]
            for block in from..to {
                running.sums[comptime!(head.known() * blocks + block.known())] += weight * codes[block];
            }
        }
    }
}

/// Adds Σ weight·v of exact tokens; rows of sixteen units take them in turns.
#[cube]
pub(super) fn add_exact(
    values: &Buffers,
    chunk: &Chunk,
    shared: &Shared,
    running: &mut Running,
    #[comptime] plan: Plan,
) {
    let head_dim = comptime!(plan.head_dim());
    let blocks = comptime!(plan.values.tile.columns());
    let lane = UNIT_POS % comptime!(LANES as u32);
    let first = max(chunk.start, chunk.coded_values);
    let last = min(chunk.start + comptime!(plan.chunk() as u32), chunk.end);
    let mut token = first + UNIT_POS / comptime!(LANES as u32);
    while token < last {
        let base = values.row(chunk.sinks, chunk.row(token, values.ring), head_dim);
        #[unroll]
        for block in 0..blocks {
            let channel = comptime!((block.known() * LANES) as u32) + lane;
            if channel < comptime!(head_dim as u32) {
                let v = values.exact[(base + channel) as usize];
                #[unroll]
                for head in 0..comptime!(plan.heads) {
                    let weight = shared.scores[place(comptime!(head.known()), token - chunk.start, plan)];
                    running.sums[comptime!(head.known() * blocks + block.known())] += weight * v;
                }
            }
        }
        token += comptime!(plan.tiles as u32);
    }
}

/// Sums over the units of the cube and writes the cube's part of the output.
#[cube]
pub(super) fn finish(
    shared: &mut Shared,
    running: &Running,
    partial: &mut Array<f32>,
    stats: &mut Array<f32>,
    #[comptime] plan: Plan,
) {
    sum_totals(shared, running, plan);
    lay_sums(shared, running, plan);
    sync_cube();
    let head_dim = comptime!(plan.head_dim() as u32);
    let heads = comptime!(plan.heads as u32);
    let groups = comptime!(plan.values.groups() as u32);
    let split = ((CUBE_POS_Z * CUBE_COUNT_Y + CUBE_POS_Y) * CUBE_COUNT_X + CUBE_POS_X) * heads;
    let mut i = UNIT_POS;
    while i < heads * head_dim {
        let group = i % head_dim / comptime!(plan.values.group as u32);
        let zero = shared.totals[(heads + i / head_dim * groups + group) as usize];
        let mut sum = zero;
        for row in 0..comptime!(plan.tiles as u32) {
            sum += shared.scratch[(row * comptime!(plan.queries() as u32) + i) as usize];
        }
        partial[(split * head_dim + i) as usize] = sum;
        i += CUBE_DIM;
    }
    if UNIT_POS == 0 {
        #[unroll]
        for head in 0..comptime!(plan.heads) {
            let at = ((split + comptime!(head.known() as u32)) * 2) as usize;
            stats[at] = running.maximum[head];
            stats[at + 1] = shared.totals[head];
        }
    }
}

/// Sums weights and weighted zeros over all units.
#[cube]
fn sum_totals(shared: &mut Shared, running: &Running, #[comptime] plan: Plan) {
    let units = comptime!(plan.units());
    let groups = comptime!(plan.values.groups());
    #[unroll]
    for head in 0..comptime!(plan.heads) {
        shared.scores[comptime!(head.known() * units) + UNIT_POS as usize] = running.total[head];
    }
    #[unroll]
    for row in 0..comptime!(plan.heads * groups) {
        shared.scratch[comptime!(row.known() * units) + UNIT_POS as usize] = running.zeros[row];
    }
    sync_cube();
    let heads = comptime!(plan.heads as u32).runtime();
    let mut i = UNIT_POS;
    while i < comptime!((plan.heads * (1 + groups)) as u32) {
        let mut sum = f32::new(0.0);
        for unit in 0..units {
            if i < heads {
                sum += shared.scores[i as usize * units + unit];
            } else {
                sum += shared.scratch[(i - heads) as usize * units + unit];
            }
        }
        shared.totals[i as usize] = sum;
        i += CUBE_DIM;
    }
    sync_cube();
}

/// Lays down the sums of each row of units, as queries with folded scales lay before.
#[cube]
fn lay_sums(shared: &mut Shared, running: &Running, #[comptime] plan: Plan) {
    let head_dim = comptime!(plan.head_dim());
    let blocks = comptime!(plan.values.tile.columns());
    let lane = UNIT_POS % comptime!(LANES as u32);
    let row = UNIT_POS / comptime!(LANES as u32) * comptime!(plan.queries() as u32);
    #[unroll]
    for block in 0..blocks {
        let channel = comptime!((block.known() * LANES) as u32) + lane;
        if channel < comptime!(head_dim as u32) {
            #[unroll]
            for head in 0..comptime!(plan.heads) {
                let at = row + comptime!((head.known() * head_dim) as u32) + channel;
                shared.scratch[at as usize] = running.sums[comptime!(head.known() * blocks + block.known())];
            }
        }
    }
}
