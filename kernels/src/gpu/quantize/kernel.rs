//! The kernel that codes rows into pages: one cube a page and KV head, in three steps.
//!
//! Groups are fitted one a thread, then each word of metadata and of codes is put together by one thread, so that
//! no two threads write the same word. Tokens before those that are coded keep their bits, tokens after read 0.

use cubecl::prelude::*;

use super::fit::{Grids, Group, code, fit};
use crate::gpu::layout::{LANES, Order, Plane};
use crate::gpu::number::half_bits;
use crate::gpu::packing::Packing;

/// Where rows stand in a buffer, in elements; `ring` rows behind `skip` others, or as many as there are if 0.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct RowMap {
    pub(crate) lane_stride: u32,
    pub(crate) head_stride: u32,
    pub(crate) row_stride: u32,
    pub(crate) skip: u32,
    pub(crate) ring: u32,
}

/// Rows of one lane and KV head, and what part of a page they fill.
#[derive(CubeType)]
pub(super) struct Part {
    /// First element of the lane's head.
    base: u32,
    row_stride: u32,
    skip: u32,
    ring: u32,
    /// Row of the page's token 0, were it there; wraps.
    row: u32,
    /// Tokens of the page that are coded.
    first: u32,
    last: u32,
}

#[cube]
impl Part {
    /// The element of a token of the page in a channel.
    pub(super) fn at(&self, token: u32, channel: u32) -> usize {
        let mut row = self.row + token;
        if self.ring > 0 {
            row = self.skip + row % self.ring;
        }
        (self.base + row * self.row_stride + channel) as usize
    }

    pub(super) fn holds(&self, token: u32) -> bool {
        token >= self.first && token < self.last
    }
}

/// Codes tokens `spans[lane][0]..spans[lane][1]`, the first of them in row `spans[lane][2]`.
#[cube(launch_unchecked)]
pub(super) fn quantize_kernel(
    rows: &Array<f32>,
    spans: &Array<u32>,
    table: &Array<u32>,
    codes: &mut Array<u32>,
    meta: &mut Array<u32>,
    faults: &mut Array<u32>,
    map: RowMap,
    pages: u32,
    #[comptime] packing: Packing,
) {
    let lane = CUBE_POS_Z;
    let tokens = comptime!(packing.page as u32).runtime();
    let span = (lane * 3) as usize;
    let from = spans[span];
    let to = spans[span + 1];
    let page = from / tokens + CUBE_POS_X;
    let start = page * tokens;
    if start < to {
        let part = Part {
            base: lane * map.lane_stride + CUBE_POS_Y * map.head_stride,
            row_stride: map.row_stride,
            skip: map.skip,
            ring: map.ring,
            row: spans[span + 2] + start - from,
            first: max(from, start) - start,
            last: min(to - start, tokens),
        };
        let slot = table[(lane * pages + page) as usize] * CUBE_COUNT_Y + CUBE_POS_Y;
        let mut grids = Grids::new(packing);
        let fault = fit_groups(rows, &part, &mut grids, packing);
        if fault > 0 {
            faults[(lane * CUBE_COUNT_Y + CUBE_POS_Y) as usize] = fault;
        }
        sync_cube();
        write_meta(&part, &grids, meta, slot * comptime!(packing.meta_words() as u32), packing);
        let words = slot * comptime!(packing.code_words() as u32);
        let planes = comptime!(packing.tile.planes());
        write_plane(rows, &part, &grids, codes, words, comptime!(planes[0]), packing);
        if comptime!(planes[1].width > 0) {
            write_plane(rows, &part, &grids, codes, words, comptime!(planes[1]), packing);
        }
    }
}

/// Fits every group that the part fills, and says what was wrong with a bad one.
#[cube]
fn fit_groups(rows: &Array<f32>, part: &Part, grids: &mut Grids, #[comptime] packing: Packing) -> u32 {
    let mut fault = 0u32;
    let mut index = UNIT_POS;
    while index < comptime!(packing.page_groups() as u32) {
        let group = Group::at(index, packing);
        if comptime!(packing.per_channel) || part.holds(group.token) {
            fault = max(fault, fit(rows, part, grids, &group, packing));
        }
        index += CUBE_DIM;
    }
    fault
}

/// Puts the numbers of all groups into words: all first ones, then all second ones.
#[cube]
fn write_meta(part: &Part, grids: &Grids, meta: &mut Array<u32>, base: u32, #[comptime] packing: Packing) {
    let mut word = UNIT_POS;
    while word < comptime!(packing.meta_words() as u32) {
        let place = (base + word) as usize;
        if comptime!(packing.f16) {
            let low = half(part, grids, meta[place] & 0xffff, word * 2, packing);
            let high = half(part, grids, meta[place] >> 16, word * 2 + 1, packing);
            meta[place] = low | (high << 16);
        } else if filled(part, word, packing) {
            meta[place] = number(grids, word, packing).to_bits();
        } else if token_of(word, packing) >= part.last {
            meta[place] = 0;
        }
        word += CUBE_DIM;
    }
}

/// A number as f16: the new one where the part fills its group, the old one before that, 0 behind.
#[cube]
fn half(part: &Part, grids: &Grids, old: u32, index: u32, #[comptime] packing: Packing) -> u32 {
    let token = token_of(index, packing);
    let mut bits = 0u32;
    if filled(part, index, packing) {
        bits = half_bits(number(grids, index, packing));
    } else if token < part.first {
        bits = old;
    }
    bits
}

#[cube]
fn filled(part: &Part, index: u32, #[comptime] packing: Packing) -> bool {
    comptime!(packing.per_channel).runtime() || part.holds(token_of(index, packing))
}

/// Token of the group that a number of the metadata belongs to.
#[cube]
fn token_of(index: u32, #[comptime] packing: Packing) -> u32 {
    index % comptime!(packing.page as u32)
}

#[cube]
fn number(grids: &Grids, index: u32, #[comptime] packing: Packing) -> f32 {
    let groups = comptime!(packing.page_groups() as u32).runtime();
    if index < groups { grids.first[index as usize] } else { grids.second[(index - groups) as usize] }
}

/// Puts one plane's bits of all codes into words.
#[cube]
fn write_plane(
    rows: &Array<f32>,
    part: &Part,
    grids: &Grids,
    codes: &mut Array<u32>,
    base: u32,
    #[comptime] plane: Plane,
    #[comptime] packing: Packing,
) {
    let ones = comptime!((1u32 << plane.width) - 1);
    let slots = comptime!(plane.slots() as u32);
    let words = comptime!(plane.words() as u32);
    let mut word = UNIT_POS;
    while word < words * comptime!((packing.page / packing.tile.tokens) as u32) {
        let tile = word / words;
        let place = base + tile * comptime!(packing.tile.words() as u32);
        let place = (place + comptime!(plane.start as u32) + word % words) as usize;
        let old = codes[place];
        let mut new = 0u32;
        for slot in 0..slots {
            let strip = strip(word % words / comptime!(LANES as u32), slot, plane);
            let lane = word % comptime!(LANES as u32);
            let along = strip.column * comptime!(LANES as u32) + lane;
            let (mut token, mut channel) = (strip.row, along);
            if comptime!(packing.tile.order == Order::TokensInLanes) {
                token = along;
                channel = strip.row;
            }
            let there = strip.column < comptime!(plane.columns as u32)
                && token < comptime!(packing.tile.tokens as u32)
                && channel < comptime!(packing.tile.head_dim as u32);
            let token = token + tile * comptime!(packing.tile.tokens as u32);
            let shift = slot * comptime!(plane.width as u32);
            if there && token < part.first {
                new |= old & (ones << shift);
            } else if there && token < part.last {
                let found = code(rows[part.at(token, channel)], grids, token, channel, packing);
                new |= ((found >> comptime!(plane.shift as u32)) & ones) << shift;
            }
        }
        codes[place] = new;
        word += CUBE_DIM;
    }
}

/// A strip of a tile.
#[derive(CubeType)]
struct Strip {
    row: u32,
    column: u32,
}

/// The strip that stands in a slot of a unit; a column beyond the last where none does.
#[cube]
fn strip(unit: u32, slot: u32, #[comptime] plane: Plane) -> Strip {
    let columns = comptime!(plane.columns as u32).runtime();
    let slots = comptime!(plane.slots() as u32);
    let (mut row, mut column) = (unit / columns * slots + slot, unit % columns);
    if comptime!(plane.full_rows() < plane.rows) {
        let rest = comptime!((plane.rows - plane.full_rows()) as u32).runtime();
        let full = comptime!(plane.full_units() as u32).runtime();
        if unit >= full {
            let index = (unit - full) * slots + slot;
            row = comptime!(plane.full_rows() as u32) + index % rest;
            column = index / rest;
        }
    }
    Strip { row, column }
}
