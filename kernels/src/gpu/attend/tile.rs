//! Codes and metadata of a tile as kernels read them.

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
    /// Tiles of a lane in the table.
    pub(super) tiles: u32,
    /// Exact rows behind the sinks.
    pub(super) ring: u32,
}

#[cube]
impl Buffers {
    /// Which tile of one head in the pool a lane's tile is.
    pub(super) fn slot(&self, tile: u32) -> u32 {
        self.table[(CUBE_POS_Z * self.tiles + tile) as usize] * CUBE_COUNT_Y + CUBE_POS_Y
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

/// Reads the grid of group `index` of a tile.
#[cube]
pub(super) fn grid(meta: &Array<u32>, slot: u32, index: u32, #[comptime] packing: Packing) -> Grid {
    let base = slot * comptime!(packing.meta_words() as u32);
    let first = number(meta, base, index, packing);
    let second = number(meta, base, index + comptime!(packing.tile_groups() as u32), packing);
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

/// The words of one lane that a round of strips stands in, one plane after the other.
#[derive(CubeType)]
pub(super) struct Words {
    low: Array<u32>,
    high: Array<u32>,
}

#[cube]
impl Words {
    /// Loads round `round` of a tile; of a last, shorter one only units that hold some of its `strips`.
    pub(super) fn load(
        codes: &Array<u32>,
        slot: u32,
        lane: u32,
        round: u32,
        #[comptime] strips: usize,
        #[comptime] packing: Packing,
    ) -> Words {
        let base = slot * comptime!(packing.code_words() as u32) + lane;
        let planes = comptime!(packing.tile.planes());
        let low = plane(codes, base, round, strips, comptime!(planes[0]), packing);
        if comptime!(planes[1].width > 0) {
            let high = plane(codes, base, round, strips, comptime!(planes[1]), packing);
            Words { low, high }
        } else {
            Words { low, high: Array::new(1usize) }
        }
    }

    /// The code in a strip of the round, as a number.
    pub(super) fn code(&self, #[comptime] strip: usize, #[comptime] packing: Packing) -> f32 {
        let planes = comptime!(packing.tile.planes());
        let mut code = bits(&self.low, strip, comptime!(planes[0]), packing);
        if comptime!(planes[1].width > 0) {
            code |=
                bits(&self.high, strip, comptime!(planes[1]), packing) << comptime!(planes[1].shift as u32);
        }
        whole(code)
    }
}

/// Words of one plane: those of the round's units, or one for each strip, shifted.
#[cube]
fn plane(
    codes: &Array<u32>,
    base: u32,
    round: u32,
    #[comptime] strips: usize,
    #[comptime] plane: Plane,
    #[comptime] packing: Packing,
) -> Array<u32> {
    let base = base + comptime!(plane.start as u32);
    let per_round = comptime!(packing.tile.round());
    if comptime!(packing.tile.is_aligned()) {
        let units = comptime!(per_round / plane.strips());
        let mut words = Array::<u32>::new(units);
        let first = base + round * comptime!((units * LANES) as u32);
        #[unroll]
        for unit in 0..comptime!(strips.div_ceil(plane.strips())) {
            words[unit] = codes[(first + comptime!((unit.known() * LANES) as u32)) as usize];
        }
        words
    } else {
        let mut words = Array::<u32>::new(per_round);
        let per_unit = comptime!(plane.strips() as u32);
        #[unroll]
        for i in 0..strips {
            let strip = round * comptime!(per_round as u32) + comptime!(i.known() as u32);
            let word = codes[(base + strip / per_unit * comptime!(LANES as u32)) as usize];
            words[i] = word >> (strip % per_unit * comptime!(plane.width as u32));
        }
        words
    }
}

#[cube]
fn bits(
    words: &Array<u32>,
    #[comptime] strip: usize,
    #[comptime] plane: Plane,
    #[comptime] packing: Packing,
) -> u32 {
    let ones = comptime!((1u32 << plane.width) - 1);
    if comptime!(packing.tile.is_aligned()) {
        (words[comptime!(strip / plane.strips())] >> comptime!((strip % plane.strips() * plane.width) as u32))
            & ones
    } else {
        words[strip] & ones
    }
}
