//! Which word and bit a code stands in.

use std::ops::Range;

use super::{LANES, Unit};
use crate::codec::Codec;

/// Tokens of a tile, unless a group says otherwise.
const TILE_TOKENS: usize = 32;
/// Tokens that are allocated at once, or as many more as tiles and groups need to stay whole.
const SLAB_TOKENS: usize = 128;

/// Which elements of a head share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// Consecutive channels of one token; the last group of a token may be shorter.
    Channels(usize),
    /// Consecutive tokens of one channel.
    Tokens(usize),
}

/// Which index of an element its lane comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// Keys: sixteen tokens of one channel lie side by side, so that a product with a query needs no sum over
    /// lanes.
    Tokens,
    /// Values: sixteen channels of one token lie side by side, for the same reason.
    Channels,
}

/// How the codes of one head are laid out; the [module](super) draws it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    codec: Codec,
    head_dim: usize,
    groups: Groups,
    lanes: Lanes,
    tile_tokens: usize,
    planes: [Plane; 2],
    n_planes: usize,
    tile_units: usize,
}

/// Some bits of all codes of a tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Plane {
    /// Bits of a code that stand here: 1, 2, 4 or 8.
    pub(super) width: u32,
    /// Bits of a code below those.
    pub(super) low: u32,
    /// The plane's first unit within the tile.
    pub(super) first: usize,
    rows: usize,
    pub(super) columns: usize,
}

/// A strip's place within its plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) unit: usize,
    /// Bits below the code in each word.
    pub(super) shift: u32,
}

impl Plane {
    fn new(width: u32, low: u32, first: usize, rows: usize, columns: usize) -> Self {
        Self { width, low, first, rows, columns }
    }

    /// The same plane of `n` tiles behind one another, where its rows fill units.
    pub(super) fn of_tiles(self, n: usize) -> Self {
        debug_assert_eq!(self.full_rows(), self.rows, "no rows are left over");
        Self { rows: n * self.rows, ..self }
    }

    /// Strips of one unit.
    pub(super) fn slots(self) -> usize {
        (u32::BITS >> self.width.trailing_zeros()) as usize
    }

    /// Leading rows whose slot depends on the row alone.
    pub(super) fn full_rows(self) -> usize {
        self.rows & !(self.slots() - 1)
    }

    /// Where a strip stands, counted from [`first`](Self::first).
    pub(super) fn place(self, row: usize, column: usize) -> Place {
        // A unit has a power of two of slots; this is called for every code that is written.
        let (log2, full) = (self.slots().trailing_zeros(), self.full_rows());
        let (unit, index) = if row < full {
            ((row >> log2) * self.columns + column, row)
        } else {
            let index = column * (self.rows - full) + row - full;
            ((full >> log2) * self.columns + (index >> log2), index)
        };
        let slot = index & (self.slots() - 1);
        Place { unit, shift: self.width * slot as u32 }
    }

    fn units(self) -> usize {
        let full = self.full_rows();
        full / self.slots() * self.columns + (self.columns * (self.rows - full)).div_ceil(self.slots())
    }
}

impl Layout {
    /// Keys of heads of `head_dim` channels.
    ///
    /// # Panics
    /// If `head_dim` or the size of a group is 0.
    pub fn keys(codec: Codec, head_dim: usize, groups: Groups) -> Self {
        let tile_tokens = match groups {
            Groups::Tokens(size) if !size.is_multiple_of(TILE_TOKENS) => size,
            _ => TILE_TOKENS,
        };
        Self::new(codec, head_dim, groups, Lanes::Tokens, tile_tokens)
    }

    /// Values of heads of `head_dim` channels, in groups of `group` channels of one token.
    ///
    /// # Panics
    /// If `head_dim` or `group` is 0.
    pub fn values(codec: Codec, head_dim: usize, group: usize) -> Self {
        Self::new(codec, head_dim, Groups::Channels(group), Lanes::Channels, TILE_TOKENS)
    }

    fn new(codec: Codec, head_dim: usize, groups: Groups, lanes: Lanes, tile_tokens: usize) -> Self {
        let (Groups::Channels(size) | Groups::Tokens(size)) = groups;
        assert!(head_dim > 0 && size > 0, "a head and a group have elements");
        let groups = match groups {
            Groups::Channels(size) => Groups::Channels(size.min(head_dim)),
            Groups::Tokens(_) => groups,
        };
        let (rows, columns) = match lanes {
            Lanes::Tokens => (head_dim, tile_tokens.div_ceil(LANES)),
            Lanes::Channels => (tile_tokens, head_dim.div_ceil(LANES)),
        };
        let (low, high): (u32, u32) = match codec.bits() {
            3 => (2, 1),
            5 => (4, 1),
            6 => (4, 2),
            bits => (u32::from(bits), 0),
        };
        let first = Plane::new(low, 0, 0, rows, columns);
        let (second, n_planes) = match high {
            0 => (Plane::default(), 1),
            _ => (Plane::new(high, low, first.units(), rows, columns), 2),
        };
        let planes = [first, second];
        let tile_units = planes[..n_planes].iter().map(|plane| plane.units()).sum();
        Self { codec, head_dim, groups, lanes, tile_tokens, planes, n_planes, tile_units }
    }

    /// What codes stand for.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Channels of a head.
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// What shares a scale.
    pub fn groups(&self) -> Groups {
        self.groups
    }

    /// What lies side by side.
    pub fn lanes(&self) -> Lanes {
        self.lanes
    }

    /// Tokens of a tile.
    pub fn tile_tokens(&self) -> usize {
        self.tile_tokens
    }

    /// Tokens that must be appended together: a group's on the token axis, else 1.
    pub fn block_tokens(&self) -> usize {
        match self.groups {
            Groups::Tokens(size) => size,
            Groups::Channels(_) => 1,
        }
    }

    /// Strips side by side in a row of a tile.
    pub(super) fn columns(&self) -> usize {
        self.planes[0].columns
    }

    pub(super) fn planes(&self) -> &[Plane] {
        &self.planes[..self.n_planes]
    }

    /// Units of 16 words of a tile.
    pub fn tile_units(&self) -> usize {
        self.tile_units
    }

    /// Numbers of metadata that belong to one [`meta_tokens`](Self::meta_tokens).
    pub(super) fn meta_len(&self) -> usize {
        match self.groups {
            Groups::Channels(_) => 2 * self.channel_groups() * self.tile_tokens,
            Groups::Tokens(_) => 2 * self.head_dim,
        }
    }

    /// Tokens that one stretch of metadata speaks of: a tile, or a group of several tiles.
    pub(super) fn meta_tokens(&self) -> usize {
        match self.groups {
            Groups::Channels(_) => self.tile_tokens,
            Groups::Tokens(size) => size,
        }
    }

    /// Groups of one token, 1 where groups run along tokens.
    pub(super) fn channel_groups(&self) -> usize {
        match self.groups {
            Groups::Channels(size) => self.head_dim.div_ceil(size),
            Groups::Tokens(_) => 1,
        }
    }

    /// The channels of one of a token's groups.
    pub(super) fn channels(&self, group: usize) -> Range<usize> {
        match self.groups {
            Groups::Channels(size) => group * size..self.head_dim.min((group + 1) * size),
            Groups::Tokens(_) => 0..self.head_dim,
        }
    }

    /// Tokens that are allocated together.
    pub fn slab_tokens(&self) -> usize {
        SLAB_TOKENS.next_multiple_of(self.meta_tokens())
    }

    /// An element's strip (row and column) and lane, within its tile.
    fn strip(&self, token: usize, channel: usize) -> (usize, usize, usize) {
        match self.lanes {
            Lanes::Tokens => (channel, token / LANES, token % LANES),
            Lanes::Channels => (token, channel / LANES, channel % LANES),
        }
    }

    /// Writes a code into a tile whose bits are still 0 there.
    pub(crate) fn set(&self, tile: &mut [Unit], token: usize, channel: usize, code: u8) {
        let (row, column, lane) = self.strip(token, channel);
        for plane in self.planes() {
            let place = plane.place(row, column);
            let bits = u32::from(code) >> plane.low & mask(plane.width);
            tile[plane.first + place.unit][lane] |= bits << place.shift;
        }
    }

    /// A strip's codes.
    #[inline(always)]
    pub(super) fn strip_codes(&self, tile: &[Unit], row: usize, column: usize) -> [u32; LANES] {
        let mut codes = [0; LANES];
        for plane in self.planes() {
            let place = plane.place(row, column);
            let words = &tile[plane.first + place.unit];
            for (code, word) in codes.iter_mut().zip(words) {
                *code |= (word >> place.shift & mask(plane.width)) << plane.low;
            }
        }
        codes
    }
}

/// The lowest `width` bits.
pub(super) fn mask(width: u32) -> u32 {
    (1 << width) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::CodecOptions;

    fn codec(bits: u8) -> Codec {
        Codec::new(bits, CodecOptions::default()).expect("a codec")
    }

    #[test]
    fn heads_of_whole_units_waste_no_bit() {
        for bits in [1, 2, 3, 4, 5, 6, 8] {
            for head_dim in [32, 64, 96, 128] {
                let keys = Layout::keys(codec(bits), head_dim, Groups::Tokens(32));
                let values = Layout::values(codec(bits), head_dim, 32);
                let bytes = 32 * head_dim * usize::from(bits) / 8;
                assert_eq!(
                    [keys.tile_units() * 64, values.tile_units() * 64],
                    [bytes; 2],
                    "{bits} {head_dim}"
                );
            }
        }
    }

    #[test]
    fn rows_that_fill_no_unit_stand_close_together() {
        // 80 channels of one bit: 64 fill two rows of two units, the other 16 · 2 strips one more.
        let keys = Layout::keys(codec(1), 80, Groups::Channels(80));
        assert_eq!(keys.tile_units(), 5);
        assert_eq!(keys.planes()[0].place(63, 1), Place { unit: 3, shift: 31 });
        assert_eq!(keys.planes()[0].place(64, 0), Place { unit: 4, shift: 0 });
        assert_eq!(keys.planes()[0].place(79, 1), Place { unit: 4, shift: 31 });
    }

    #[test]
    fn no_two_codes_share_a_bit() {
        for (layout, tokens) in [
            (Layout::keys(codec(3), 20, Groups::Channels(7)), 32),
            (Layout::keys(codec(5), 36, Groups::Tokens(24)), 24),
            (Layout::values(codec(6), 20, 20), 32),
            (Layout::values(codec(1), 100, 32), 32),
        ] {
            let mut seen = vec![[0_u32; LANES]; layout.tile_units()];
            for (token, channel) in (0..tokens).flat_map(|t| (0..layout.head_dim).map(move |c| (t, c))) {
                let mut alone = vec![[0_u32; LANES]; layout.tile_units()];
                layout.set(&mut alone, token, channel, u8::MAX);
                for (seen, alone) in seen.as_flattened_mut().iter_mut().zip(alone.as_flattened()) {
                    assert_eq!(*seen & alone, 0, "token {token}, channel {channel}");
                    *seen |= alone;
                }
            }
        }
    }

    #[test]
    fn a_code_comes_back_from_its_strip() {
        let layout = Layout::keys(codec(6), 20, Groups::Channels(20));
        let mut tile = vec![[0; LANES]; layout.tile_units()];
        let code = |token: usize, channel: usize| ((token * 7 + channel * 13) % 64) as u8;
        for (token, channel) in (0..32).flat_map(|t| (0..20).map(move |c| (t, c))) {
            layout.set(&mut tile, token, channel, code(token, channel));
        }
        for (token, channel) in [(0, 0), (31, 19), (17, 5)] {
            let codes = layout.strip_codes(&tile, channel, token / LANES);
            assert_eq!(codes[token % LANES], u32::from(code(token, channel)));
        }
    }
}
