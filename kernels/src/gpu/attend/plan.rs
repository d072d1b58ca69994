//! What an attention kernel is compiled for, and how much shared memory that takes.

use crate::gpu::layout::LANES;
use crate::gpu::packing::Packing;

/// Threads that share a partial maximum.
pub(super) const PARTS: usize = 16;

/// A kernel's constants. A cube has sixteen units for each key tile of a chunk, and goes over chunks of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Plan {
    pub(super) keys: Packing,
    pub(super) values: Packing,
    /// Query heads of one KV head.
    pub(super) heads: usize,
    /// Key tiles of a chunk.
    pub(super) tiles: usize,
}

impl Plan {
    /// The plan of most tiles whose shared memory is at most `bytes`.
    pub(super) fn fitting(keys: Packing, values: Packing, heads: usize, bytes: usize) -> Result<Self, usize> {
        let plans = [8, 4, 2, 1].map(|tiles| Self { keys, values, heads, tiles });
        let whole = |plan: &&Self| plan.chunk().is_multiple_of(values.tile.tokens);
        let least = plans.iter().filter(whole).map(Self::shared_bytes).min().unwrap_or(usize::MAX);
        plans.iter().filter(whole).find(|plan| plan.shared_bytes() <= bytes).copied().ok_or(least)
    }

    pub(super) fn head_dim(&self) -> usize {
        self.keys.tile.head_dim
    }

    /// Units of a cube.
    pub(super) fn units(&self) -> usize {
        LANES * self.tiles
    }

    /// Tokens of a chunk.
    pub(super) fn chunk(&self) -> usize {
        self.tiles * self.keys.tile.tokens
    }

    /// Value tiles of a chunk.
    pub(super) fn value_tiles(&self) -> usize {
        self.chunk() / self.values.tile.tokens
    }

    /// Numbers of one row of tokens, padded so that tiles begin in different banks.
    pub(super) fn row(&self) -> usize {
        self.chunk() + self.chunk().div_ceil(32)
    }

    /// Queries of all heads, or what is left of them once scales are folded in for one tile; padded likewise.
    pub(super) fn queries(&self) -> usize {
        self.heads * self.head_dim() + 1
    }

    /// Scores, then weights, of a chunk; at last the heads' sums of every unit.
    pub(super) fn scores_len(&self) -> usize {
        self.heads * self.row().max(self.units())
    }

    /// Queries with a tile's scales folded in, then weights with a token's; at last the sums of every row of units,
    /// or of zeros.
    pub(super) fn scratch_len(&self) -> usize {
        let weights = self.heads * self.values.groups() * self.row().max(self.units());
        weights.max(self.tiles * self.queries())
    }

    /// Sums of queries by group; the offset that keys per channel add to a tile's scores, before and after summing.
    pub(super) fn sums_len(&self) -> usize {
        if self.keys.per_channel { self.heads * self.units() } else { self.heads * self.keys.groups() }
    }

    fn shared_bytes(&self) -> usize {
        let totals = self.heads * (1 + self.values.groups());
        4 * (self.queries()
            + self.scores_len()
            + self.scratch_len()
            + self.sums_len()
            + self.heads * PARTS
            + totals)
    }
}
