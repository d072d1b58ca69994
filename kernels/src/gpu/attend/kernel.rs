//! Attention of one query token over part of a lane: one cube a KV head, its chunks one after the other.
//!
//! A chunk is scored ([`scores`](super::scores)), its weights join a running softmax ([`softmax`](super::softmax)),
//! and its values are summed ([`values`](super::values)). Codes stay in registers; all query heads of the KV head
//! share them.

use cubecl::prelude::*;

use super::plan::{PARTS, Plan};
use super::tile::Buffers;
use super::{scores, softmax, values};

/// What one cube keeps in shared memory; lengths are those of [`Plan`].
#[derive(CubeType)]
pub(super) struct Shared {
    pub(super) queries: SharedMemory<f32>,
    pub(super) scores: SharedMemory<f32>,
    pub(super) scratch: SharedMemory<f32>,
    pub(super) sums: SharedMemory<f32>,
    pub(super) maxima: SharedMemory<f32>,
    pub(super) totals: SharedMemory<f32>,
}

/// What one unit keeps in registers over all chunks.
#[derive(CubeType)]
pub(super) struct Running {
    /// Greatest score of each head; the same in all units.
    pub(super) maximum: Array<f32>,
    /// Sum of weights of each head, over the unit's tokens.
    pub(super) total: Array<f32>,
    /// Sum of weight · zero of each head and value group, over the unit's tokens.
    pub(super) zeros: Array<f32>,
    /// Weighted sums of each head and of the unit's lane in each block of sixteen channels.
    pub(super) sums: Array<f32>,
}

/// The tokens of a chunk, counted as exact rows are for the chunk's kind.
#[derive(CubeType)]
pub(super) struct Chunk {
    /// First token: counted after the sinks, or among them.
    pub(super) start: u32,
    /// One past the last token that there is.
    pub(super) end: u32,
    /// Tokens whose keys are codes.
    pub(super) coded_keys: u32,
    /// Tokens whose values are codes.
    pub(super) coded_values: u32,
    /// Whether the chunk lies among the sinks.
    among: bool,
    /// Sinks of the store.
    pub(super) sinks: u32,
}

#[cube]
impl Chunk {
    /// Chunk `index` of a lane.
    fn at(index: u32, lanes: &Array<u32>, sinks: u32, #[comptime] plan: Plan) -> Chunk {
        let size = comptime!(plan.chunk() as u32).runtime();
        let lane = (CUBE_POS_Z * 3) as usize;
        let length = lanes[lane];
        let first = min(length, sinks);
        let sink_chunks = first.div_ceil(size);
        let among = index < sink_chunks;
        Chunk {
            start: select(among, index, index - sink_chunks) * size,
            end: select(among, first, length - first),
            coded_keys: select(among, 0, lanes[lane + 1]),
            coded_values: select(among, 0, lanes[lane + 2]),
            among,
            sinks,
        }
    }

    /// The exact row of a token.
    pub(super) fn row(&self, token: u32, ring: u32) -> u32 {
        select(self.among, token, self.sinks + token % max(ring, 1))
    }
}

/// Chunks of a lane.
#[cube]
fn chunks(lanes: &Array<u32>, sinks: u32, #[comptime] plan: Plan) -> u32 {
    let size = comptime!(plan.chunk() as u32).runtime();
    let length = lanes[(CUBE_POS_Z * 3) as usize];
    let first = min(length, sinks);
    first.div_ceil(size) + (length - first).div_ceil(size)
}

/// Attends over chunks `CUBE_POS_X · per_split ..` of a lane.
///
/// # Shapes
/// - `q`: `[lanes, kv_heads, heads, head_dim]`
/// - `lanes`: `[lanes, 3]`, length, coded keys, coded values
/// - `partial`: `[lanes, kv_heads, splits, heads, head_dim]`, not yet divided by the total
/// - `stats`: `[lanes, kv_heads, splits, heads, 2]`, maximum and total
#[cube(launch_unchecked)]
pub(super) fn attend_kernel(
    q: &Array<f32>,
    lanes: &Array<u32>,
    keys: &Buffers,
    values: &Buffers,
    partial: &mut Array<f32>,
    stats: &mut Array<f32>,
    sinks: u32,
    per_split: u32,
    #[comptime] plan: Plan,
) {
    let mut shared = Shared {
        queries: SharedMemory::new(comptime!(plan.queries())),
        scores: SharedMemory::new(comptime!(plan.scores_len())),
        scratch: SharedMemory::new(comptime!(plan.scratch_len())),
        sums: SharedMemory::new(comptime!(plan.sums_len())),
        maxima: SharedMemory::new(comptime!(plan.heads * PARTS)),
        totals: SharedMemory::new(comptime!(plan.heads * (1 + plan.values.groups()))),
    };
    let mut running = softmax::start(plan);
    scores::load_queries(q, &mut shared, plan);
    let first = CUBE_POS_X * per_split;
    let last = min(first + per_split, chunks(lanes, sinks, plan));
    for index in first..last {
        let chunk = Chunk::at(index, lanes, sinks, plan);
        scores::score_codes(keys, &chunk, &mut shared, plan);
        scores::score_exact(keys, &chunk, &mut shared, plan);
        sync_cube();
        softmax::weigh(values, &chunk, &mut shared, &mut running, plan);
        sync_cube();
        values::add_codes(values, &chunk, &shared, &mut running, plan);
        values::add_exact(values, &chunk, &shared, &mut running, plan);
        sync_cube();
    }
    values::finish(&mut shared, &running, partial, stats, plan);
}
