//! Codes and metadata of tiles as kernels read them.

use cubecl::prelude::*;

use crate::gpu::known::Known;
use crate::gpu::layout::{LANES, Plane};
use crate::gpu::number::{half_value, whole};
use crate::gpu::packing::{Family, Packing};

/// Buffers of keys or values.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Buffers {
    pub(super) table: Array<u32>,
    pub(super) codes: Array<u32>,
    pub(super) meta: Array<u32>,
    pub(super) exact: Array<f32>,
    /// Pages of a lane in the table.
    pub(super) pages: u32,
    /// Exact rows behind the sinks.
    pub(super) ring: u32,
}

#[cube]
impl Buffers {
    /// Which page of one head in the pool a lane's page is.
    pub(super) fn slot(&self, page: u32) -> u32 {
        self.table[(CUBE_POS_Z * self.pages + page) as usize] * CUBE_COUNT_Y + CUBE_POS_Y
    }

    /// First element of an exact row.
    pub(super) fn row(&self, sinks: u32, row: u32, #[comptime] head_dim: usize) -> u32 {
        let head = CUBE_POS_Z * CUBE_COUNT_Y + CUBE_POS_Y;
        (head * (sinks + self.ring) + row) * comptime!(head_dim as u32)
    }
}

/// Factor and offset of a group: an element is `code · scale + zero`.
#[derive(CubeType)]
pub(super) struct Grid {
    pub(super) scale: f32,
    pub(super) zero: f32,
}

/// Reads the grid of group `index` of a page.
#[cube]
pub(super) fn grid(meta: &Array<u32>, slot: u32, index: u32, #[comptime] packing: Packing) -> Grid {
    let base = slot * comptime!(packing.meta_words() as u32);
    let first = number(meta, base, index, packing);
    let second = number(meta, base, index + comptime!(packing.page_groups() as u32), packing);
    if comptime!(packing.family == Family::TwoLevel) {
        Grid { scale: second - first, zero: first }
    } else {
        Grid { scale: first, zero: second }
    }
}

#[cube]
fn number(meta: &Array<u32>, base: u32, index: u32, #[comptime] packing: Packing) -> f32 {
    if comptime!(packing.f16) {
        half_value(meta[(base + index / 2) as usize] >> (index % 2 * 16))
    } else {
        f32::from_bits(meta[(base + index) as usize])
    }
}

/// The words of one lane that a step of rows stands in, one a column, with their first row in the lowest bits.
#[derive(CubeType)]
pub(super) struct Words {
    low: Array<u32>,
    high: Array<u32>,
}

#[cube]
impl Words {
    /// Loads the step of rows that begins at `row`, of rows that fill units in both planes.
    pub(super) fn load(codes: &Array<u32>, base: u32, row: u32, #[comptime] packing: Packing) -> Words {
        let planes = comptime!(packing.tile.planes());
        let low = column_words(codes, base, row, comptime!(planes[0]));
        if comptime!(planes[1].width > 0) {
            Words { low, high: column_words(codes, base, row, comptime!(planes[1])) }
        } else {
            Words { low, high: Array::new(1usize) }
        }
    }

    /// The code in row `i` of the step, as a number.
    pub(super) fn code(&self, i: u32, #[comptime] column: usize, #[comptime] packing: Packing) -> f32 {
        let planes = comptime!(packing.tile.planes());
        let mut code = bits(self.low[column], i * comptime!(planes[0].width as u32), comptime!(planes[0]));
        if comptime!(planes[1].width > 0) {
            let high = bits(self.high[column], i * comptime!(planes[1].width as u32), comptime!(planes[1]));
            code |= high << comptime!(planes[1].shift as u32);
        }
        whole(code)
    }
}

/// A code among the rows that fill no unit, as a number.
#[cube]
pub(super) fn code_of_rest(
    codes: &Array<u32>,
    base: u32,
    #[comptime] row: usize,
    #[comptime] column: usize,
    #[comptime] packing: Packing,
) -> f32 {
    let planes = comptime!(packing.tile.planes());
    let mut code = placed_bits(codes, base, row, column, comptime!(planes[0]));
    if comptime!(planes[1].width > 0) {
        let high = placed_bits(codes, base, row, column, comptime!(planes[1]));
        code |= high << comptime!(planes[1].shift as u32);
    }
    whole(code)
}

/// One word of each column of a plane.
#[cube]
fn column_words(codes: &Array<u32>, base: u32, row: u32, #[comptime] plane: Plane) -> Array<u32> {
    let slots = comptime!(plane.slots() as u32);
    let mut words = Array::<u32>::new(plane.columns);
    let first =
        base + comptime!(plane.start as u32) + row / slots * comptime!((plane.columns * LANES) as u32);
    #[unroll]
    for column in 0..comptime!(plane.columns) {
        let word = codes[(first + comptime!((column.known() * LANES) as u32)) as usize];
        words[column] = word >> (row % slots * comptime!(plane.width as u32));
    }
    words
}

#[cube]
fn placed_bits(
    codes: &Array<u32>,
    base: u32,
    #[comptime] row: usize,
    #[comptime] column: usize,
    #[comptime] plane: Plane,
) -> u32 {
    let place = comptime!(plane.place(row, column));
    let word = codes[(base + comptime!((plane.start + place.unit * LANES) as u32)) as usize];
    bits(word, comptime!(place.shift as u32).runtime(), plane)
}

#[cube]
fn bits(word: u32, shift: u32, #[comptime] plane: Plane) -> u32 {
    (word >> shift) & comptime!((1u32 << plane.width) - 1)
}
