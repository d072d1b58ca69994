//! Where a code stands in a tile: index arithmetic of the packed layout, for hosts and for kernels.
//!
//! Sixteen codes, one a lane, make a *strip*; a *plane* of w bits keeps 32/w strips in a *unit* of sixteen words, so
//! that lane i of every strip stands in word i. A width is one or two planes; the low bits come first. A *tile* is
//! the codes of consecutive tokens of one KV head.

/// Codes that stand side by side, one in each word of a unit.
pub const LANES: usize = 16;

/// Tokens of a tile whose groups run along the channels of one token.
pub const TOKENS: usize = 32;

const WORD: usize = 32;

/// Strips of a round at most.
const MAX_ROUND: usize = 64;

/// Which index of a code runs along the lanes of a strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Keys: strip = channel · ⌈tokens/16⌉ + token/16, lane = token mod 16.
    TokensInLanes,
    /// Values: strip = token · ⌈head_dim/16⌉ + channel/16, lane = channel mod 16.
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
    /// Words that it takes.
    pub words: usize,
}

impl Plane {
    /// Strips in a unit.
    pub fn strips(&self) -> usize {
        WORD.checked_div(self.width).unwrap_or(WORD)
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
    /// Strips of one channel (keys) or of one token (values).
    pub fn blocks(&self) -> usize {
        match self.order {
            Order::TokensInLanes => self.tokens.div_ceil(LANES),
            Order::ChannelsInLanes => self.head_dim.div_ceil(LANES),
        }
    }

    /// Strips of the tile.
    pub fn strips(&self) -> usize {
        match self.order {
            Order::TokensInLanes => self.head_dim * self.blocks(),
            Order::ChannelsInLanes => self.tokens * self.blocks(),
        }
    }

    /// Both planes, low bits first; the second is empty where the width is a power of two.
    pub fn planes(&self) -> [Plane; 2] {
        let low = if self.bits.is_power_of_two() { self.bits } else { self.bits.next_power_of_two() / 2 };
        let words = |width: usize| (self.strips() * width).div_ceil(WORD) * LANES;
        let first = Plane { width: low, shift: 0, start: 0, words: words(low) };
        let rest = self.bits - low;
        [first, Plane { width: rest, shift: low, start: first.words, words: words(rest) }]
    }

    /// 32-bit words that the codes take.
    pub fn words(&self) -> usize {
        self.planes().iter().map(|plane| plane.words).sum()
    }

    /// Strips that a kernel unrolls: the fewest after which units end where blocks do, so that a word is read once
    /// and shifts are constants; or, where that would be many, the strips of one channel or token.
    pub fn round(&self) -> usize {
        if self.is_aligned() { self.period() } else { self.blocks() }
    }

    /// Whether a round begins where units do.
    pub fn is_aligned(&self) -> bool {
        self.period() <= MAX_ROUND
    }

    fn period(&self) -> usize {
        let strips = self.planes().iter().filter(|plane| plane.width > 0).map(Plane::strips).max();
        lcm(strips.unwrap_or(1), self.blocks())
    }
}

fn lcm(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x.max(1) * b
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_tile_takes_its_bits_and_no_more() {
        for bits in [1, 2, 3, 4, 5, 6, 8] {
            assert_eq!(values(bits, 64).words() * 32, bits * 32 * 64);
        }
    }

    #[test]
    fn a_ragged_head_fills_its_last_strip_and_a_plane_its_last_unit() {
        let tile = values(1, 20);
        assert_eq!((tile.blocks(), tile.strips(), tile.words()), (2, 64, 32));
        let keys = Tile { bits: 8, tokens: 40, head_dim: 3, order: Order::TokensInLanes };
        assert_eq!((keys.blocks(), keys.strips(), keys.words()), (3, 9, 48));
    }

    #[test]
    fn a_round_ends_where_units_and_blocks_both_end_unless_that_is_far() {
        assert_eq!(values(4, 64).round(), 8);
        assert_eq!(values(4, 100).round(), 56);
        assert_eq!(values(3, 100).round(), 7);
        assert_eq!(Tile { order: Order::TokensInLanes, ..values(8, 64) }.round(), 4);
    }
}
