//! Device buffers of the keys or the values of one layer.

use cubecl::prelude::*;
use cubecl::server::Handle;

use super::layout::Order;
use super::{Fault, FaultKind, GpuError, Packing};

/// How much a store has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Sequences.
    pub lanes: usize,
    /// KV heads of the layer.
    pub kv_heads: usize,
    /// Pages of one lane: of [`page_tokens`](Packing::page_tokens) tokens.
    pub pages: usize,
    /// Leading tokens of a lane that stay exact.
    pub sinks: usize,
    /// Exact rows behind the sinks: row `t mod ring` is token t, counted after the sinks.
    pub ring: usize,
}

impl Room {
    /// Exact rows of one lane and KV head.
    pub fn exact_rows(&self) -> usize {
        self.sinks + self.ring
    }
}

/// Keys or values of one layer, in lanes that share a [`Packing`]: pages of codes, and rows that are exact.
///
/// Pages live in a pool and a table says which page of the pool a lane's page is, so that lanes grow without
/// copying and may share what they have in common. Tokens of pages are counted after the sinks.
///
/// # Shapes
/// - codes, u32: `[slots, kv_heads, code_words]`, a page's tiles as [`layout`](super::layout) has them
/// - metadata, u32 words of f16 pairs or f32: `[slots, kv_heads, meta_words]`; per token
///   `first[group][token]` then `second[group][token]`, per channel `first[channel]` then `second[channel]`
/// - exact rows, f32: `[lanes, kv_heads, sinks + ring, head_dim]`
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) packing: Packing,
    pub(super) room: Room,
    pub(super) slots: usize,
    pub(super) table: Handle,
    pub(super) codes: Handle,
    pub(super) meta: Handle,
    pub(super) exact: Handle,
    pub(super) faults: Handle,
}

impl Store {
    /// An empty store where every lane has its own pages.
    ///
    /// # Errors
    /// [`GpuError::Shape`] where a size is 0 or a buffer would be beyond 32-bit indices.
    pub fn new<R: Runtime>(
        client: &ComputeClient<R>,
        packing: Packing,
        room: Room,
    ) -> Result<Self, GpuError> {
        let slots = room.lanes.saturating_mul(room.pages);
        let table: Vec<u32> = (0..u32::try_from(slots).unwrap_or(0)).collect();
        Self::paged(client, packing, room, slots, &table)
    }

    /// An empty store over a pool of `slots` pages, of which lane l's page i is `table[l · pages + i]`.
    ///
    /// # Errors
    /// As [`new`](Self::new), and for a table of another length or with a page beyond the pool.
    pub fn paged<R: Runtime>(
        client: &ComputeClient<R>,
        packing: Packing,
        room: Room,
        slots: usize,
        table: &[u32],
    ) -> Result<Self, GpuError> {
        let heads = room.lanes.saturating_mul(room.kv_heads);
        let codes = words("codes", &[slots, room.kv_heads, packing.code_words()])?;
        let meta = words("metadata", &[slots, room.kv_heads, packing.meta_words()])?;
        let exact = words("exact rows", &[heads, room.exact_rows(), packing.tile.head_dim])?;
        if heads == 0 {
            return Err(GpuError::Shape {
                what: "lanes · kv_heads",
                found: 0,
                expected: "at least 1".into(),
            });
        }
        let faults = client.create_from_slice(&vec![0; 4 * heads]);
        let empty = |words: usize| client.empty(4 * words.max(1));
        let (codes, meta, exact) = (empty(codes), empty(meta), empty(exact));
        let table = upload_table(client, &room, slots, table)?;
        Ok(Self { packing, room, slots, table, codes, meta, exact, faults })
    }

    /// Another table over the same pool, after lanes have grown, gone or come.
    ///
    /// # Errors
    /// As [`paged`](Self::paged).
    pub fn set_table<R: Runtime>(
        &mut self,
        client: &ComputeClient<R>,
        table: &[u32],
    ) -> Result<(), GpuError> {
        self.table = upload_table(client, &self.room, self.slots, table)?;
        Ok(())
    }

    /// How the store packs.
    pub fn packing(&self) -> &Packing {
        &self.packing
    }

    /// What the store has room for.
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// Buffer of the codes.
    pub fn codes(&self) -> &Handle {
        &self.codes
    }

    /// Buffer of the metadata.
    pub fn metadata(&self) -> &Handle {
        &self.meta
    }

    /// Buffer of the exact rows.
    pub fn exact(&self) -> &Handle {
        &self.exact
    }

    /// Bytes of codes and metadata of one page over all KV heads.
    pub fn page_bytes(&self) -> usize {
        4 * self.room.kv_heads * (self.packing.code_words() + self.packing.meta_words())
    }

    /// Heads with a group whose codes are meaningless because its numbers did not fit. Waits for the device.
    pub fn faults<R: Runtime>(&self, client: &ComputeClient<R>) -> Vec<Fault> {
        let bytes = client.read_one_unchecked(self.faults.clone());
        let found = u32::from_bytes(&bytes).iter().enumerate();
        let kind = |code: u32| if code == 1 { FaultKind::NotFinite } else { FaultKind::Range };
        let fault = |(i, &code): (usize, &u32)| {
            let (lane, head) = (i / self.room.kv_heads, i % self.room.kv_heads);
            (code != 0).then(|| Fault { lane, head, kind: kind(code) })
        };
        found.filter_map(fault).collect()
    }

    /// Elements of the exact rows.
    pub(super) fn exact_len(&self) -> usize {
        self.room.lanes * self.room.kv_heads * self.room.exact_rows() * self.packing.tile.head_dim
    }

    pub(super) fn code_len(&self) -> usize {
        self.slots * self.room.kv_heads * self.packing.code_words()
    }

    pub(super) fn meta_len(&self) -> usize {
        self.slots * self.room.kv_heads * self.packing.meta_words()
    }

    pub(super) fn table_len(&self) -> usize {
        self.room.lanes * self.room.pages
    }

    /// An argument over one of the store's buffers.
    pub(super) fn arg<R: Runtime>(handle: &Handle, len: usize) -> ArrayArg<R> {
        // SAFETY: every caller passes the length that the buffer was made with; 0 stands for a buffer of one word.
        unsafe { ArrayArg::from_raw_parts(handle.clone(), len.max(1)) }
    }

    /// Whether these are keys.
    pub(super) fn is_keys(&self) -> bool {
        self.packing.tile.order == Order::TokensInLanes
    }
}

/// A launch of as many cubes, if the device takes them.
pub(super) fn cubes<R: Runtime>(client: &ComputeClient<R>, count: [usize; 3]) -> Result<CubeCount, GpuError> {
    let (x, y, z) = client.properties().hardware.max_cube_count;
    for (expected, most) in count.into_iter().zip([x, y, z]) {
        if expected > most as usize {
            return Err(GpuError::Device { what: "cubes in a direction", found: most as usize, expected });
        }
    }
    Ok(CubeCount::Static(count[0] as u32, count[1] as u32, count[2] as u32))
}

/// Words of a buffer of some shape, if 32-bit indices reach them.
fn words(what: &'static str, shape: &[usize]) -> Result<usize, GpuError> {
    let words = shape.iter().fold(1_usize, |product, &size| product.saturating_mul(size));
    if words > u32::MAX as usize {
        return Err(GpuError::Shape { what, found: words, expected: format!("at most {} words", u32::MAX) });
    }
    Ok(words)
}

fn upload_table<R: Runtime>(
    client: &ComputeClient<R>,
    room: &Room,
    slots: usize,
    table: &[u32],
) -> Result<Handle, GpuError> {
    let expected = room.lanes * room.pages;
    if table.len() != expected {
        let expected = format!("{expected} (lanes · pages)");
        return Err(GpuError::Shape { what: "table", found: table.len(), expected });
    }
    if let Some(&slot) = table.iter().find(|&&slot| slot as usize >= slots) {
        let expected = format!("below {slots}, the pages of the pool");
        return Err(GpuError::Shape { what: "page of the table", found: slot as usize, expected });
    }
    Ok(client.create_from_slice(u32::as_bytes(if table.is_empty() { &[0] } else { table })))
}
