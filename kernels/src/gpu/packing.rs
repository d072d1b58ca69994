//! How keys or values are packed: tile, codec, groups. Kernels are compiled for one of these.

use super::GpuError;
use super::layout::{LANES, Order, TOKENS, Tile};
use crate::codec::{Codebook, Codec, CodecOptions, Metadata, OneBit, Zero};

/// Channels of a KV head that kernels keep sums of.
const MAX_HEAD_DIM: usize = 256;

/// Tokens of a group of one channel; one thread goes over all of them.
const MAX_GROUP_TOKENS: usize = 128;

/// Tokens of such a group are a multiple of this, so that few of them end where a tile of values does.
const GROUP_STEP: usize = 4;

/// Which elements share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Groups {
    /// `size` channels of one token; the last group may be shorter, 0 is the whole head.
    PerToken {
        /// Channels of a group.
        size: usize,
    },
    /// `tokens` consecutive tokens of one channel; keys only.
    PerChannel {
        /// Tokens of a group, which are those of a tile.
        tokens: usize,
    },
}

/// What the two numbers of a group mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Family {
    /// q · first + second.
    Uniform,
    /// first + q · (second − first).
    TwoLevel,
}

/// How keys or values are packed; checked, so that there is a kernel for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packing {
    pub(super) tile: Tile,
    pub(super) family: Family,
    /// Whether metadata is f16, otherwise f32.
    pub(super) f16: bool,
    /// Whether a group is one channel of a tile's tokens.
    pub(super) per_channel: bool,
    /// Channels of a group.
    pub(super) group: usize,
    /// Tokens of a page: of a group where groups run along tokens, else of a tile.
    pub(super) page: usize,
}

impl Packing {
    /// Keys of `bits` bits.
    ///
    /// # Errors
    /// [`GpuError`] for options without a codec, codecs without a kernel, and shapes without one.
    pub fn keys(bits: u8, options: CodecOptions, groups: Groups, head_dim: usize) -> Result<Self, GpuError> {
        let page = match groups {
            Groups::PerToken { .. } => TOKENS,
            Groups::PerChannel { tokens } => tokens,
        };
        let tokens = if page.is_multiple_of(TOKENS) { TOKENS } else { page };
        if !(1..=MAX_GROUP_TOKENS).contains(&page) || !page.is_multiple_of(GROUP_STEP) {
            let expected = format!("a multiple of {GROUP_STEP} up to {MAX_GROUP_TOKENS}");
            return Err(shape("group_size of keys per channel", page, expected));
        }
        let tile = Tile { bits: usize::from(bits), tokens, head_dim, order: Order::TokensInLanes };
        match groups {
            Groups::PerToken { size } => Self::new(tile, options, size, None),
            Groups::PerChannel { .. } => Self::new(tile, options, 1, Some(page)),
        }
    }

    /// Values of `bits` bits, in groups of `group` channels of one token; 0 is the whole head.
    ///
    /// # Errors
    /// As [`keys`](Self::keys).
    pub fn values(bits: u8, options: CodecOptions, group: usize, head_dim: usize) -> Result<Self, GpuError> {
        let order = Order::ChannelsInLanes;
        Self::new(Tile { bits: usize::from(bits), tokens: TOKENS, head_dim, order }, options, group, None)
    }

    fn new(tile: Tile, options: CodecOptions, group: usize, page: Option<usize>) -> Result<Self, GpuError> {
        let head_dim = tile.head_dim;
        if !(1..=MAX_HEAD_DIM).contains(&head_dim) {
            return Err(shape("head_dim", head_dim, format!("1 to {MAX_HEAD_DIM}")));
        }
        let family = family(tile.bits, options)?;
        let group = if group == 0 { head_dim } else { group.min(head_dim) };
        let (per_channel, page) = (page.is_some(), page.unwrap_or(tile.tokens));
        let packing = Self { tile, family, f16: options.metadata == Metadata::F16, per_channel, group, page };
        let step = packing.group_step();
        if packing.groups() > 1 && !per_channel && !group.is_multiple_of(step) {
            return Err(shape("group_size", group, format!("a multiple of {step}, or the whole head")));
        }
        Ok(packing)
    }

    /// Channels after which a group may end inside a head.
    fn group_step(&self) -> usize {
        match self.tile.order {
            Order::TokensInLanes => self.tile.step(),
            Order::ChannelsInLanes => LANES,
        }
    }

    /// Groups of one token; of one page where they run along tokens.
    pub(super) fn groups(&self) -> usize {
        self.tile.head_dim.div_ceil(self.group)
    }

    /// Groups of a page.
    pub(super) fn page_groups(&self) -> usize {
        if self.per_channel { self.groups() } else { self.groups() * self.page }
    }

    /// Tokens of a page, the least that a lane's room grows by: a tile's, or a group's where groups run along tokens.
    pub fn page_tokens(&self) -> usize {
        self.page
    }

    /// Words of a page's codes, of one KV head: its tiles, one after the other.
    pub fn code_words(&self) -> usize {
        self.page / self.tile.tokens * self.tile.words()
    }

    /// Words of a page's metadata, of one KV head.
    pub fn meta_words(&self) -> usize {
        if self.f16 { self.page_groups() } else { 2 * self.page_groups() }
    }
}

/// Asks what [`Codec::new`] asks, in its order.
fn family(bits: usize, options: CodecOptions) -> Result<Family, GpuError> {
    Codec::new(u8::try_from(bits).unwrap_or(u8::MAX), options)?;
    match (options.codebook, options.zero) {
        (Codebook::LloydMax, _) => Err(GpuError::NoKernel { codec: "codebook: lloyd-max" }),
        _ if bits == 1 && options.one_bit == OneBit::TwoLevel => Ok(Family::TwoLevel),
        (_, Zero::Rounded) => Err(GpuError::NoKernel { codec: "zero: rounded" }),
        _ => Ok(Family::Uniform),
    }
}

fn shape(what: &'static str, found: usize, expected: String) -> GpuError {
    GpuError::Shape { what, found, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Groups = Groups::PerToken { size: 0 };

    #[test]
    fn a_codec_without_a_kernel_is_named() {
        let lloyd = CodecOptions { codebook: Codebook::LloydMax, ..CodecOptions::default() };
        let rounded =
            CodecOptions { zero: Zero::Rounded, metadata: Metadata::F32, ..CodecOptions::default() };
        for (bits, options, codec) in [(4, lloyd, "codebook: lloyd-max"), (4, rounded, "zero: rounded")] {
            assert_eq!(Packing::keys(bits, options, WHOLE, 64), Err(GpuError::NoKernel { codec }));
        }
        assert!(matches!(Packing::keys(7, CodecOptions::default(), WHOLE, 64), Err(GpuError::Codec(_))));
    }

    #[test]
    fn a_group_that_ends_inside_a_strip_has_no_kernel() {
        let values = |group| Packing::values(4, CodecOptions::default(), group, 64);
        assert!(values(32).is_ok() && values(0).is_ok() && values(100).is_ok());
        assert!(matches!(values(20), Err(GpuError::Shape { what: "group_size", .. })));
        let keys = |bits, size| Packing::keys(bits, CodecOptions::default(), Groups::PerToken { size }, 64);
        assert!(keys(8, 12).is_ok());
        assert!(keys(1, 8).is_err());
    }

    #[test]
    fn sizes_out_of_range_have_no_kernel() {
        let keys = |head_dim, tokens| {
            Packing::keys(4, CodecOptions::default(), Groups::PerChannel { tokens }, head_dim)
        };
        assert!(keys(64, 32).is_ok());
        for (head_dim, tokens) in [(0, 32), (257, 32), (64, 0), (64, 30), (64, 132)] {
            assert!(matches!(keys(head_dim, tokens), Err(GpuError::Shape { .. })));
        }
    }

    #[test]
    fn a_page_of_kivi_keys_at_two_bits_stores_three_bits_an_element() {
        let keys =
            Packing::keys(2, CodecOptions::default(), Groups::PerChannel { tokens: 32 }, 64).expect("valid");
        assert_eq!(keys.code_words() + keys.meta_words(), 3 * 32 * 64 / 32);
    }
}
