//! Groups that are columns of a row-major block: keys by channel, over the block's tokens.
//!
//! Uniform codes, the default, go through the block row by row, sixteen columns at once. Everything else turns
//! sixteen columns into contiguous groups first. Either way an element meets the arithmetic of its group alone.

use std::ops::Range;

use pulp::Arch;

use super::statistics::Ranges;
use super::uniform::Uniform;
use super::{Codec, Family, GroupError};

/// Columns that are coded together.
const TILE: usize = 16;

impl Codec {
    /// Each column of a row-major block as one group, in place.
    ///
    /// # Shapes
    /// - `block`: `[tokens, columns]`; a last row that is incomplete is left alone
    ///
    /// # Errors
    /// The first column that cannot be coded; others may have changed.
    pub fn fake_quant_columns(&self, block: &mut [f32], columns: usize) -> Result<(), GroupError> {
        let rows = block.len().checked_div(columns).unwrap_or(0);
        if rows == 0 {
            return Ok(());
        }
        let block = &mut block[..rows * columns];
        let mut groups = Vec::new();
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for start in (0..columns).step_by(TILE) {
                    if self.family == Family::Uniform && self.uniform_tile(block, columns, start)? {
                        continue;
                    }
                    let tile = start..columns.min(start + TILE);
                    groups.resize(rows * TILE, 0.0);
                    self.any_tile(block, columns, tile, &mut groups)?;
                }
                Ok(())
            },
        )
    }

    /// Codes sixteen columns at once; `false`, with the block untouched, where there are fewer, or one needs f64.
    #[inline(always)]
    fn uniform_tile(&self, block: &mut [f32], columns: usize, start: usize) -> Result<bool, GroupError> {
        let Some(first) = block[start..columns].first_chunk::<TILE>() else { return Ok(false) };
        let mut ranges = Ranges::of_first(first);
        for row in block.chunks_exact(columns) {
            if let Some(elements) = row[start..].first_chunk() {
                ranges.include(elements);
            }
        }
        let mut grids = Grids::default();
        for i in 0..TILE {
            let range = ranges.at(i);
            let grid = range.and_then(|range| Uniform::fit(range, self.bits, self.metadata));
            let grid = grid.map_err(|error| GroupError { group: start + i, error })?;
            if grid.is_wide() {
                return Ok(false);
            }
            grids.set(i, grid);
        }
        for row in block.chunks_exact_mut(columns) {
            if let Some(elements) = row[start..].first_chunk_mut::<TILE>() {
                grids.apply(elements);
            }
        }
        Ok(true)
    }

    #[inline(always)]
    fn any_tile(
        &self,
        block: &mut [f32],
        columns: usize,
        tile: Range<usize>,
        groups: &mut [f32],
    ) -> Result<(), GroupError> {
        let rows = block.len() / columns;
        for (r, row) in block.chunks_exact(columns).enumerate() {
            for (c, &x) in row[tile.clone()].iter().enumerate() {
                groups[c * rows + r] = x;
            }
        }
        for (group, elements) in tile.clone().zip(groups.chunks_exact_mut(rows)) {
            self.fake_quant_inline(elements).map_err(|error| GroupError { group, error })?;
        }
        for (r, row) in block.chunks_exact_mut(columns).enumerate() {
            for (c, x) in row[tile.clone()].iter_mut().enumerate() {
                *x = groups[c * rows + r];
            }
        }
        Ok(())
    }
}

/// The grids of sixteen columns, number by number, so that a row of them is one vector each.
#[derive(Default)]
struct Grids {
    scale: [f32; TILE],
    zero: [f32; TILE],
    divisor: [f32; TILE],
    top: [f32; TILE],
}

impl Grids {
    #[inline(always)]
    fn set(&mut self, column: usize, grid: Uniform) {
        self.scale[column] = grid.scale;
        self.zero[column] = grid.zero;
        self.divisor[column] = grid.divisor;
        self.top[column] = grid.top;
    }

    #[inline(always)]
    fn apply(&self, elements: &mut [f32; TILE]) {
        for (i, x) in elements.iter_mut().enumerate() {
            let (scale, zero, divisor, top) = (self.scale[i], self.zero[i], self.divisor[i], self.top[i]);
            let grid = Uniform { scale, zero, divisor, top };
            *x = grid.value(grid.code(*x));
        }
    }
}
