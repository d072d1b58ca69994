//! Fused decode attention over packed and exact tokens.

mod kernel;
mod merge;
mod plan;
mod scores;
mod softmax;
mod tile;
mod values;

use cubecl::prelude::*;
use cubecl::server::Handle;

use self::kernel::attend_kernel;
use self::merge::merge_kernel;
use self::plan::Plan;
use self::tile::BuffersLaunch;
use super::store::cubes;
use super::{GpuError, Room, Store};

/// Query heads of one KV head that a unit keeps sums of.
const MAX_HEADS: usize = 16;

/// Buffers that the kernel binds.
const BINDINGS: usize = 12;

/// Cubes that keep a device busy, where it does not say how many processors it has.
const CUBES: usize = 512;

/// The same for each processor, where it says.
const CUBES_PER_PROCESSOR: usize = 4;

/// Units of a cube of the second pass.
const MERGE_UNITS: u32 = 64;

/// Parts that a lane is cut into at most; the second pass reads all of them.
const MAX_SPLITS: usize = 64;

/// How many tokens a lane holds, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// All tokens, sinks included.
    pub length: usize,
    /// Tokens behind the sinks whose keys are codes.
    pub coded_keys: usize,
    /// Tokens behind the sinks whose values are codes.
    pub coded_values: usize,
}

/// The lanes of a batch on the device; serves all layers of a step.
#[derive(Clone, Debug)]
pub struct Lanes {
    lanes: Vec<Lane>,
    handle: Handle,
}

impl Lanes {
    /// Uploads the counts of every lane.
    pub fn new<R: Runtime>(client: &ComputeClient<R>, lanes: &[Lane]) -> Self {
        let of = |lane: &Lane| [lane.length, lane.coded_keys, lane.coded_values].map(|count| count as u32);
        let mut counts: Vec<u32> = lanes.iter().flat_map(of).collect();
        counts.push(0);
        Self { lanes: lanes.to_vec(), handle: client.create_from_slice(u32::as_bytes(&counts)) }
    }
}

/// Attention of one query token a lane over the keys and values of one layer.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    keys: &'a Store,
    values: &'a Store,
    heads: usize,
}

impl<'a> Attention<'a> {
    /// Attention of `heads` query heads for each KV head.
    ///
    /// # Errors
    /// [`GpuError::Shape`] where the two stores are not the keys and the values of one layer, or there are more heads
    /// than the kernel keeps sums of.
    pub fn new(keys: &'a Store, values: &'a Store, heads: usize) -> Result<Self, GpuError> {
        if !keys.is_keys() || values.is_keys() {
            return Err(GpuError::Sides);
        }
        same("lanes of the values", values.room.lanes, keys.room.lanes)?;
        same("kv_heads of the values", values.room.kv_heads, keys.room.kv_heads)?;
        same("sinks of the values", values.room.sinks, keys.room.sinks)?;
        same("head_dim of the values", values.packing.tile.head_dim, keys.packing.tile.head_dim)?;
        if !(1..=MAX_HEADS).contains(&heads) {
            let expected = format!("1 to {MAX_HEADS}");
            return Err(GpuError::Shape { what: "query heads of a KV head", found: heads, expected });
        }
        Ok(Self { keys, values, heads })
    }

    /// Attends: `out = softmax(q·Kᵀ)·V` of each lane, over all it holds; zeros for an empty lane.
    ///
    /// # Shapes
    /// - `q`: `[lanes, kv_heads, heads, head_dim]`, f32, already scaled by 1/√head_dim
    /// - `out`: as `q`
    ///
    /// # Errors
    /// [`GpuError`], with nothing launched, where a buffer is too short, a lane holds what the stores cannot, or the
    /// device lacks shared memory or bindings.
    pub fn launch<R: Runtime>(
        &self,
        client: &ComputeClient<R>,
        q: &Handle,
        lanes: &Lanes,
        out: &Handle,
    ) -> Result<(), GpuError> {
        let Room { lanes: n_lanes, kv_heads, sinks, .. } = self.keys.room;
        let head_dim = self.keys.packing.tile.head_dim;
        let len = n_lanes * kv_heads * self.heads * head_dim;
        long_enough("q", q, len)?;
        long_enough("out", out, len)?;
        self.check_lanes(lanes)?;
        let plan = self.plan(client)?;
        let (splits, per_split) = self.split(client, &plan, lanes);
        let partial = client.empty(4 * len * splits);
        let stats_len = 2 * n_lanes * kv_heads * self.heads * splits;
        let stats = client.empty(4 * stats_len);
        let parts = cubes(client, [splits, kv_heads, n_lanes])?;
        let heads = cubes(client, [self.heads, kv_heads, n_lanes])?;
        // SAFETY: buffers are as long as their shapes say and lanes hold what the stores have room for, checked
        // above and where the stores were made; tables point into their pools.
        unsafe {
            attend_kernel::launch_unchecked::<R>(
                client,
                parts,
                CubeDim::new_1d(plan.units() as u32),
                Store::arg(q, len),
                Store::arg(&lanes.handle, 3 * n_lanes),
                buffers(self.keys),
                buffers(self.values),
                Store::arg(&partial, len * splits),
                Store::arg(&stats, stats_len),
                sinks as u32,
                per_split as u32,
                plan,
            );
            merge_kernel::launch_unchecked::<R>(
                client,
                heads,
                CubeDim::new_1d(MERGE_UNITS),
                Store::arg(&partial, len * splits),
                Store::arg(&stats, stats_len),
                Store::arg(out, len),
                splits as u32,
                head_dim,
            );
        }
        Ok(())
    }

    fn check_lanes(&self, lanes: &Lanes) -> Result<(), GpuError> {
        self.keys.check_lanes(lanes.lanes.len())?;
        for (lane, &Lane { length, coded_keys, coded_values }) in lanes.lanes.iter().enumerate() {
            let behind = length.saturating_sub(self.keys.room.sinks);
            self.keys.check_lane(lane, "coded keys", coded_keys, behind)?;
            self.values.check_lane(lane, "coded values", coded_values, behind)?;
        }
        Ok(())
    }

    fn plan<R: Runtime>(&self, client: &ComputeClient<R>) -> Result<Plan, GpuError> {
        let hardware = &client.properties().hardware;
        let lacking = |what, found, expected| GpuError::Device { what, found, expected };
        if (hardware.max_bindings as usize) < BINDINGS {
            return Err(lacking("bindings of a kernel", hardware.max_bindings as usize, BINDINGS));
        }
        let bytes = hardware.max_shared_memory_size;
        Plan::fitting(self.keys.packing, self.values.packing, self.heads, bytes)
            .map_err(|least| lacking("bytes of shared memory", bytes, least))
    }

    /// Parts that every lane is cut into, and chunks of a part: enough cubes to keep the device busy.
    fn split<R: Runtime>(&self, client: &ComputeClient<R>, plan: &Plan, lanes: &Lanes) -> (usize, usize) {
        let Room { kv_heads, sinks, .. } = self.keys.room;
        let of = |lane: &Lane| {
            let first = lane.length.min(sinks);
            first.div_ceil(plan.chunk()) + (lane.length - first).div_ceil(plan.chunk())
        };
        let chunks = lanes.lanes.iter().map(of).max().unwrap_or(0).max(1);
        let processors = client.properties().hardware.num_streaming_multiprocessors;
        let cubes = processors.map_or(CUBES, |n| n as usize * CUBES_PER_PROCESSOR);
        let wanted = cubes.div_ceil(lanes.lanes.len().max(1) * kv_heads).clamp(1, MAX_SPLITS);
        let per_split = chunks.div_ceil(wanted);
        (chunks.div_ceil(per_split), per_split)
    }
}

impl Store {
    /// Whether a lane with `behind` tokens behind the sinks can have `coded` of them as codes and the rest exact.
    fn check_lane(
        &self,
        lane: usize,
        what: &'static str,
        coded: usize,
        behind: usize,
    ) -> Result<(), GpuError> {
        let tokens = self.packing.page;
        let capacity = self.room.pages * tokens;
        if behind > capacity + self.room.ring {
            let expected = format!("at most {}", capacity + self.room.ring);
            return Err(GpuError::Lane { lane, what: "tokens behind the sinks", found: behind, expected });
        }
        let most = behind.min(capacity);
        let least = behind.saturating_sub(self.room.ring);
        let whole = !self.packing.per_channel || coded.is_multiple_of(tokens);
        if !(least..=most).contains(&coded) || !whole {
            let groups =
                if self.packing.per_channel { format!(", in groups of {tokens}") } else { String::new() };
            let expected = format!("{least} to {most}{groups}");
            return Err(GpuError::Lane { lane, what, found: coded, expected });
        }
        Ok(())
    }
}

fn buffers<R: Runtime>(store: &Store) -> BuffersLaunch<R> {
    BuffersLaunch::new(
        Store::arg(&store.table, store.table_len()),
        Store::arg(&store.codes, store.code_len()),
        Store::arg(&store.meta, store.meta_len()),
        Store::arg(&store.exact, store.exact_len()),
        store.room.pages as u32,
        store.room.ring as u32,
    )
}

fn same(what: &'static str, found: usize, expected: usize) -> Result<(), GpuError> {
    if found == expected {
        return Ok(());
    }
    Err(GpuError::Shape { what, found, expected: expected.to_string() })
}

fn long_enough(what: &'static str, handle: &Handle, len: usize) -> Result<(), GpuError> {
    let (found, expected) = (handle.size_in_used(), 4 * len as u64);
    if found < expected {
        return Err(GpuError::Buffer { what, found, expected });
    }
    Ok(())
}
