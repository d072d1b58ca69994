//! Rows into a store: as codes, or as they are.

mod fit;
mod keep;
mod kernel;

use std::ops::Range;

use cubecl::prelude::*;
use cubecl::server::Handle;

use self::kernel::{RowMapLaunch, quantize_kernel};
use super::packing::Family;
use super::store::cubes;
use super::{GpuError, Store};

/// Units of a cube; groups and words of a tile go round among them.
const UNITS: u32 = 128;

/// Rows as a forward pass leaves them, f32.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The buffer.
    pub handle: Handle,
    /// Rows of one lane and KV head.
    pub rows: usize,
    /// Which of two orders the buffer has.
    pub order: RowOrder,
}

/// How rows of several heads lie in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// `[lanes, rows, kv_heads, head_dim]`, as a projection gives them.
    RowsThenHeads,
    /// `[lanes, kv_heads, rows, head_dim]`, as attention wants them.
    HeadsThenRows,
}

/// Tokens of one lane, and where they are taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The tokens; what they are counted from depends on the call.
    pub tokens: Range<usize>,
    /// Row of the first of them.
    pub row: usize,
}

impl Store {
    /// Codes rows into pages. Tokens are counted after the sinks and follow those coded before; where groups run
    /// along tokens a lane's range holds whole groups.
    ///
    /// # Errors
    /// [`GpuError`], with nothing launched, where spans do not fit the store, rows are missing, or the device lacks
    /// something. Groups that do not fit their metadata are found later, by [`faults`](Self::faults).
    pub fn quantize<R: Runtime>(
        &self,
        client: &ComputeClient<R>,
        rows: &Rows,
        spans: &[Span],
    ) -> Result<(), GpuError> {
        self.check_rows(rows, spans)?;
        let map = self.row_map(rows, 0);
        self.launch(client, &rows.handle, self.rows_len(rows), map, spans)
    }

    /// Codes exact rows of the ring into pages: what [`quantize`](Self::quantize) does, with tokens where the ring
    /// has them. A row stays until the ring comes round.
    ///
    /// # Errors
    /// As [`quantize`](Self::quantize).
    pub fn quantize_ring<R: Runtime>(
        &self,
        client: &ComputeClient<R>,
        tokens: &[Range<usize>],
    ) -> Result<(), GpuError> {
        let ring = self.room.ring;
        for (lane, tokens) in tokens.iter().enumerate() {
            if tokens.len() > ring {
                return Err(lane_error(lane, "tokens of the ring", tokens.len(), format!("at most {ring}")));
            }
        }
        let span = |tokens: &Range<usize>| Span { tokens: tokens.clone(), row: tokens.start };
        let spans: Vec<Span> = tokens.iter().map(span).collect();
        let rows = self.exact_rows();
        let map = self.row_map(&rows, ring);
        self.launch(client, &rows.handle, self.exact_len(), map, &spans)
    }

    fn launch<R: Runtime>(
        &self,
        client: &ComputeClient<R>,
        rows: &Handle,
        rows_len: usize,
        map: RowMapLaunch<R>,
        spans: &[Span],
    ) -> Result<(), GpuError> {
        self.check_spans(spans)?;
        self.check_device(client)?;
        let tokens = self.packing.page;
        let touched = |span: &Span| span.tokens.end.div_ceil(tokens) - span.tokens.start / tokens;
        let filled = spans.iter().filter(|span| !span.tokens.is_empty());
        let Some(pages) = filled.map(touched).max() else { return Ok(()) };
        let count = cubes(client, [pages, self.room.kv_heads, self.room.lanes])?;
        // SAFETY: spans lie in the pages and rows of the store, the table in its pool, and every buffer is as long
        // as the store's shape says: all checked above and where the store was made.
        unsafe {
            quantize_kernel::launch_unchecked::<R>(
                client,
                count,
                CubeDim::new_1d(UNITS),
                Self::arg(rows, rows_len),
                spans_arg(client, spans),
                Self::arg(&self.table, self.table_len()),
                Self::arg(&self.codes, self.code_len()),
                Self::arg(&self.meta, self.meta_len()),
                Self::arg(&self.faults, self.room.lanes * self.room.kv_heads),
                map,
                self.room.pages as u32,
                self.packing,
            );
        }
        Ok(())
    }

    fn check_spans(&self, spans: &[Span]) -> Result<(), GpuError> {
        self.check_lanes(spans.len())?;
        let capacity = self.room.pages * self.packing.page;
        for (lane, Span { tokens, .. }) in spans.iter().enumerate() {
            if tokens.start > tokens.end || tokens.end > capacity {
                return Err(lane_error(lane, "end of its tokens", tokens.end, format!("at most {capacity}")));
            }
            let group = self.packing.page;
            let whole = tokens.start.is_multiple_of(group) && tokens.end.is_multiple_of(group);
            if self.packing.per_channel && !whole {
                return Err(lane_error(
                    lane,
                    "tokens coded",
                    tokens.len(),
                    format!("whole groups of {group}"),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn check_lanes(&self, found: usize) -> Result<(), GpuError> {
        let expected = self.room.lanes;
        if found != expected {
            return Err(GpuError::Shape { what: "lanes", found, expected: expected.to_string() });
        }
        Ok(())
    }

    fn check_device<R: Runtime>(&self, client: &ComputeClient<R>) -> Result<(), GpuError> {
        if self.packing.family == Family::TwoLevel && !client.properties().supports_type(f64_type()) {
            return Err(GpuError::NoF64);
        }
        Ok(())
    }
}

fn f64_type() -> cubecl::ir::ElemType {
    cubecl::ir::ElemType::Float(cubecl::ir::FloatKind::F64)
}

fn spans_arg<R: Runtime>(client: &ComputeClient<R>, spans: &[Span]) -> ArrayArg<R> {
    let of = |span: &Span| [span.tokens.start as u32, span.tokens.end as u32, span.row as u32];
    let numbers: Vec<u32> = spans.iter().flat_map(of).collect();
    Store::arg(&client.create_from_slice(u32::as_bytes(&numbers)), numbers.len())
}

fn lane_error(lane: usize, what: &'static str, found: usize, expected: String) -> GpuError {
    GpuError::Lane { lane, what, found, expected }
}
