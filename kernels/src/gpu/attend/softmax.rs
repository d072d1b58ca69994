//! The running softmax: scores of a chunk become weights, what was summed before is rescaled.

use cubecl::prelude::*;

use super::kernel::{Chunk, Running, Shared};
use super::plan::{PARTS, Plan};
use super::scores::{NOTHING, place, zeros};
use super::tile::{Buffers, grid};
use crate::gpu::known::Known;

/// Nothing summed yet.
#[cube]
pub(super) fn start(#[comptime] plan: Plan) -> Running {
    let mut maximum = Array::<f32>::new(plan.heads);
    #[unroll]
    for head in 0..comptime!(plan.heads) {
        maximum[head] = f32::new(NOTHING);
    }
    Running {
        maximum,
        total: zeros(plan.heads),
        zeros: zeros(comptime!(plan.heads * plan.values.groups())),
        sums: zeros(comptime!(plan.heads * plan.values.tile.columns())),
    }
}

/// Turns scores into weights and, where values are codes, weights into weight · scale.
#[cube]
pub(super) fn weigh(
    values: &Buffers,
    chunk: &Chunk,
    shared: &mut Shared,
    running: &mut Running,
    #[comptime] plan: Plan,
) {
    find_maxima(shared, plan);
    sync_cube();
    rescale(shared, running, plan);
    let groups = comptime!(plan.values.groups());
    let mut i = UNIT_POS;
    while i < comptime!(plan.chunk() as u32) {
        #[unroll]
        for head in 0..comptime!(plan.heads) {
            let at = place(comptime!(head.known()), i, plan);
            let weight = (shared.scores[at] - running.maximum[head]).exp();
            shared.scores[at] = weight;
            running.total[head] += weight;
        }
        let token = chunk.start + i;
        let tokens = comptime!(plan.values.tile.tokens as u32);
        let coded = token < chunk.coded_values;
        let slot = if coded { values.slot(token / tokens) } else { 0u32.runtime() };
        #[unroll]
        for group in 0..groups {
            let (mut scale, mut zero) = (f32::new(0.0), f32::new(0.0));
            if coded {
                let index = comptime!((group.known() * plan.values.tile.tokens) as u32) + token % tokens;
                let grid = grid(&values.meta, slot, index, plan.values);
                scale = grid.scale;
                zero = grid.zero;
            }
            #[unroll]
            for head in 0..comptime!(plan.heads) {
                let weight = shared.scores[place(comptime!(head.known()), i, plan)];
                let row = comptime!(head.known() * groups + group.known());
                shared.scratch[place(comptime!(row.known()), i, plan)] = weight * scale;
                running.zeros[row] += weight * zero;
            }
        }
        i += CUBE_DIM;
    }
}

/// The greatest score of each head in each of [`PARTS`] parts of the chunk.
#[cube]
fn find_maxima(shared: &mut Shared, #[comptime] plan: Plan) {
    let parts = comptime!(PARTS as u32);
    let mut i = UNIT_POS;
    while i < comptime!((plan.heads * PARTS) as u32) {
        let row = (i / parts * comptime!(plan.row() as u32)) as usize;
        let mut maximum = f32::new(NOTHING);
        let mut token = i % parts;
        while token < comptime!(plan.chunk() as u32) {
            maximum = max(maximum, shared.scores[row + (token + token / 32) as usize]);
            token += parts;
        }
        shared.maxima[i as usize] = maximum;
        i += CUBE_DIM;
    }
}

/// Raises the maxima to those of the chunk and shrinks what was summed under the old ones.
#[cube]
fn rescale(shared: &Shared, running: &mut Running, #[comptime] plan: Plan) {
    let groups = comptime!(plan.values.groups());
    let blocks = comptime!(plan.values.tile.columns());
    #[unroll]
    for head in 0..comptime!(plan.heads) {
        let mut maximum = running.maximum[head];
        for part in 0..PARTS {
            maximum = max(maximum, shared.maxima[comptime!(head.known() * PARTS) + part]);
        }
        let shrink = (running.maximum[head] - maximum).exp();
        running.maximum[head] = maximum;
        running.total[head] *= shrink;
        #[unroll]
        for group in 0..groups {
            running.zeros[comptime!(head.known() * groups + group.known())] *= shrink;
        }
        #[unroll]
        for block in 0..blocks {
            running.sums[comptime!(head.known() * blocks + block.known())] *= shrink;
        }
    }
}
