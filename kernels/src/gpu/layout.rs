//! Where a code stands in a tile, for hosts and for kernels: the layout of [`packed`](crate::packed).
//!
//! A tile is rows × columns of strips of sixteen codes. Keys: a row is a channel, a column sixteen tokens; values: a
//! row is a token, a column sixteen channels. A plane of w bits keeps 32/w rows of one column in a unit of sixteen
//! words; rows at the end that fill no unit go one after another.

/// Codes that stand side by side, one in each word of a unit.
pub const LANES: usize = 16;

/// Tokens of a tile, unless a group says otherwise.
pub const TOKENS: usize = 32;

const WORD: usize = 32;

/// Which index of a code runs along the lanes of a strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Keys.
    TokensInLanes,
    /// Values.
    ChannelsInLanes,
}

/// One of the bit planes of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plane {
    /// Bits of a code that it holds; 0 where a width has no second plane.
    pub width: usize,
    /// Place of its lowest bit in a code.
    pub shift: usize,
    /// Words of the tile before it.
    pub start: usize,
    /// Rows of strips.
    pub rows: usize,
    /// Strips of a row.
    pub columns: usize,
}

/// A strip's place within its plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Which sixteen words.
    pub unit: usize,
    /// Bits below the code in each word.
    pub shift: usize,
}

impl Plane {
    /// Strips in a unit.
    pub fn slots(&self) -> usize {
        WORD.checked_div(self.width).unwrap_or(WORD)
    }

    /// Leading rows that fill units of their column.
    pub fn full_rows(&self) -> usize {
        self.rows / self.slots() * self.slots()
    }

    /// Units of those rows.
    pub fn full_units(&self) -> usize {
        self.rows / self.slots() * self.columns
    }

    /// Words that it takes.
    pub fn words(&self) -> usize {
        if self.width == 0 {
            return 0;
        }
        let rest = self.columns * (self.rows - self.full_rows());
        LANES * (self.full_units() + rest.div_ceil(self.slots()))
    }

    /// Where a strip stands.
    pub fn place(&self, row: usize, column: usize) -> Place {
        let (slots, full) = (self.slots(), self.full_rows());
        if row < full {
            return Place { unit: row / slots * self.columns + column, shift: self.width * (row % slots) };
        }
        let index = column * (self.rows - full) + row - full;
        Place { unit: self.full_units() + index / slots, shift: self.width * (index % slots) }
    }
}

/// The shape of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Bits of a code: 1 to 6, or 8.
    pub bits: usize,
    /// Tokens.
    pub tokens: usize,
    /// Channels of a KV head.
    pub head_dim: usize,
    /// What runs along the lanes.
    pub order: Order,
}

impl Tile {
    /// Rows of strips.
    pub fn rows(&self) -> usize {
        match self.order {
            Order::TokensInLanes => self.head_dim,
            Order::ChannelsInLanes => self.tokens,
        }
    }

    /// Strips of a row.
    pub fn columns(&self) -> usize {
        match self.order {
            Order::TokensInLanes => self.tokens.div_ceil(LANES),
            Order::ChannelsInLanes => self.head_dim.div_ceil(LANES),
        }
    }

    /// Both planes, low bits first; the second is empty where the width is a power of two.
    pub fn planes(&self) -> [Plane; 2] {
        let low = if self.bits.is_power_of_two() { self.bits } else { self.bits.next_power_of_two() / 2 };
        let (rows, columns) = (self.rows(), self.columns());
        let first = Plane { width: low, shift: 0, start: 0, rows, columns };
        [first, Plane { width: self.bits - low, shift: low, start: first.words(), rows, columns }]
    }

    /// 32-bit words that the codes take.
    pub fn words(&self) -> usize {
        self.planes().iter().map(Plane::words).sum()
    }

    /// Rows that kernels read at a time: those of a unit of the low plane.
    pub fn step(&self) -> usize {
        self.planes()[0].slots()
    }

    /// Leading rows that fill units in both planes.
    pub fn full_rows(&self) -> usize {
        let used = self.planes().into_iter().filter(|plane| plane.width > 0);
        used.map(|plane| plane.full_rows()).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Codec, CodecOptions};
    use crate::packed::{Groups, Layout};

    fn keys(bits: usize, tokens: usize, head_dim: usize) -> Tile {
        Tile { bits, tokens, head_dim, order: Order::TokensInLanes }
    }

    fn values(bits: usize, head_dim: usize) -> Tile {
        Tile { bits, tokens: TOKENS, head_dim, order: Order::ChannelsInLanes }
    }

    #[test]
    fn widths_split_into_planes_low_bits_first() {
        let widths = |bits| values(bits, 64).planes().map(|plane| plane.width);
        assert_eq!([1, 2, 4, 8].map(widths), [[1, 0], [2, 0], [4, 0], [8, 0]]);
        assert_eq!([3, 5, 6].map(widths), [[2, 1], [4, 1], [4, 2]]);
    }

    #[test]
    fn tiles_are_as_large_as_on_the_cpu() {
        for bits in [1_u8, 2, 3, 4, 5, 6, 8] {
            let codec = Codec::new(bits, CodecOptions::default()).expect("a codec");
            for head_dim in [8, 33, 64, 80, 96, 100, 128] {
                for tokens in [4, 20, 32, 48] {
                    let layout = Layout::keys(codec, head_dim, Groups::Tokens(tokens));
                    let words = keys(usize::from(bits), tokens, head_dim).words();
                    assert_eq!(words, LANES * layout.tile_units(), "{bits} bits, {head_dim}, {tokens}");
                }
                let layout = Layout::values(codec, head_dim, 16);
                assert_eq!(values(usize::from(bits), head_dim).words(), LANES * layout.tile_units());
            }
        }
    }

    #[test]
    fn codes_stand_where_they_do_on_the_cpu() {
        for (bits, head_dim) in [(1_u8, 80), (2, 100), (3, 33), (4, 64), (5, 96), (6, 20), (8, 128)] {
            let codec = Codec::new(bits, CodecOptions::default()).expect("a codec");
            let tiles = [
                (keys(usize::from(bits), 20, head_dim), Layout::keys(codec, head_dim, Groups::Tokens(20))),
                (values(usize::from(bits), head_dim), Layout::values(codec, head_dim, 16)),
            ];
            for (tile, layout) in tiles {
                let mut cpu = vec![[0; LANES]; layout.tile_units()];
                let mut gpu = vec![0_u32; tile.words()];
                for (token, channel) in (0..tile.tokens).flat_map(|t| (0..head_dim).map(move |c| (t, c))) {
                    let code = (token * 31 + channel * 7) % (1 << bits);
                    layout.set(&mut cpu, token, channel, code as u8);
                    let (row, across) = match tile.order {
                        Order::TokensInLanes => (channel, token),
                        Order::ChannelsInLanes => (token, channel),
                    };
                    for plane in tile.planes().into_iter().filter(|plane| plane.width > 0) {
                        let place = plane.place(row, across / LANES);
                        let bits = code >> plane.shift & ((1 << plane.width) - 1);
                        gpu[plane.start + place.unit * LANES + across % LANES] |=
                            (bits as u32) << place.shift;
                    }
                }
                assert_eq!(gpu, cpu.as_flattened(), "{bits} bits, {head_dim} channels, {:?}", tile.order);
            }
        }
    }

    #[test]
    fn rows_of_a_unit_are_consecutive_and_the_rest_is_packed() {
        let plane = keys(1, 32, 80).planes()[0];
        let place = |row, column| (plane.place(row, column).unit, plane.place(row, column).shift);
        assert_eq!(
            [place(0, 0), place(31, 0), place(31, 1), place(32, 0)],
            [(0, 0), (0, 31), (1, 31), (2, 0)]
        );
        assert_eq!(
            [place(64, 0), place(79, 0), place(64, 1), place(79, 1)],
            [(4, 0), (4, 15), (4, 16), (4, 31)]
        );
        assert_eq!(plane.words(), 5 * LANES);
    }

    #[test]
    fn rows_are_full_where_both_planes_are() {
        assert_eq!([2, 3, 4, 5, 8].map(|bits| keys(bits, 32, 80).full_rows()), [80, 64, 80, 64, 80]);
        assert_eq!([2, 3, 4, 5, 8].map(|bits| keys(bits, 32, 80).step()), [16, 16, 8, 8, 4]);
    }
}
