//! Rows into a store as they are.

use cubecl::prelude::*;

use super::kernel::{RowMap, RowMapLaunch};
use super::{RowOrder, Rows, Span, UNITS, lane_error, spans_arg};
use crate::gpu::store::cubes;
use crate::gpu::{GpuError, Store};

/// Copies the rows of tokens `spans[lane]` to where exact rows of those tokens stand.
#[cube(launch_unchecked)]
fn keep_kernel(
    rows: &Array<f32>,
    spans: &Array<u32>,
    exact: &mut Array<f32>,
    from: RowMap,
    to: RowMap,
    #[comptime] head_dim: usize,
) {
    let lane = CUBE_POS_Z;
    let span = (lane * 3) as usize;
    let token = spans[span] + CUBE_POS_X;
    if token < spans[span + 1] {
        let source = (spans[span + 2] + CUBE_POS_X) * from.row_stride;
        let source = source + lane * from.lane_stride + CUBE_POS_Y * from.head_stride;
        let mut row = token;
        if token >= to.skip {
            row = to.skip + (token - to.skip) % max(to.ring, 1);
        }
        let target = row * to.row_stride + lane * to.lane_stride + CUBE_POS_Y * to.head_stride;
        let mut channel = UNIT_POS;
        while channel < comptime!(head_dim as u32) {
            exact[(target + channel) as usize] = rows[(source + channel) as usize];
            channel += CUBE_DIM;
        }
    }
}

impl Store {
    /// Keeps rows exact: sinks in their places, other tokens in the ring, where they replace the oldest. Tokens are
    /// counted from the first of the lane, sinks included.
    ///
    /// # Errors
    /// [`GpuError`], with nothing launched, where rows are missing or the ring is too short for the tokens of a span.
    pub fn keep<R: Runtime>(
        &self,
        client: &ComputeClient<R>,
        rows: &Rows,
        spans: &[Span],
    ) -> Result<(), GpuError> {
        self.check_rows(rows, spans)?;
        for (lane, Span { tokens, .. }) in spans.iter().enumerate() {
            let behind = tokens.end.saturating_sub(tokens.start.max(self.room.sinks));
            if behind > self.room.ring {
                let expected = format!("at most {}", self.room.ring);
                return Err(lane_error(lane, "tokens kept behind the sinks", behind, expected));
            }
        }
        let Some(longest) = spans.iter().map(|span| span.tokens.len()).max().filter(|&n| n > 0) else {
            return Ok(());
        };
        let exact = self.exact_rows();
        let count = cubes(client, [longest, self.room.kv_heads, self.room.lanes])?;
        // SAFETY: spans lie in the rows and, taken round the ring, in the exact rows; buffers are as long as their
        // shapes say.
        unsafe {
            keep_kernel::launch_unchecked::<R>(
                client,
                count,
                CubeDim::new_1d(UNITS),
                Self::arg(&rows.handle, self.rows_len(rows)),
                spans_arg(client, spans),
                Self::arg(&self.exact, self.exact_len()),
                self.row_map(rows, 0),
                self.row_map(&exact, self.room.ring),
                self.packing.tile.head_dim,
            );
        }
        Ok(())
    }

    /// Sinks and ring, as rows.
    pub(super) fn exact_rows(&self) -> Rows {
        Rows { handle: self.exact.clone(), rows: self.room.exact_rows(), order: RowOrder::HeadsThenRows }
    }

    pub(super) fn check_rows(&self, rows: &Rows, spans: &[Span]) -> Result<(), GpuError> {
        self.check_lanes(spans.len())?;
        let expected = 4 * self.rows_len(rows) as u64;
        let found = rows.handle.size_in_used();
        if found < expected {
            return Err(GpuError::Buffer { what: "rows", found, expected });
        }
        for (lane, Span { tokens, row }) in spans.iter().enumerate() {
            let end = row.saturating_add(tokens.len());
            if tokens.start > tokens.end || end > rows.rows {
                return Err(lane_error(lane, "end of its rows", end, format!("at most {}", rows.rows)));
            }
        }
        Ok(())
    }

    pub(super) fn rows_len(&self, rows: &Rows) -> usize {
        self.room.lanes * self.room.kv_heads * rows.rows * self.packing.tile.head_dim
    }

    /// Where rows stand in their buffer, the last `ring` of them in a ring.
    pub(super) fn row_map<R: Runtime>(&self, rows: &Rows, ring: usize) -> RowMapLaunch<R> {
        let (heads, head_dim) = (self.room.kv_heads, self.packing.tile.head_dim);
        let (head_stride, row_stride) = match rows.order {
            RowOrder::RowsThenHeads => (head_dim, heads * head_dim),
            RowOrder::HeadsThenRows => (rows.rows * head_dim, head_dim),
        };
        let lane_stride = rows.rows * heads * head_dim;
        let number = |x: usize| x as u32;
        RowMapLaunch::new(
            number(lane_stride),
            number(head_stride),
            number(row_stride),
            number(self.room.sinks),
            number(ring),
        )
    }
}
