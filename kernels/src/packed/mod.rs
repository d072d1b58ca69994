//! Keys and values as packed codes, and attention that reads them where they lie.
//!
//! # A tile
//! The codes of 32 tokens of one head (of a group, where groups run along tokens and 32 does not divide one).
//! Sixteen codes that lie side by side, one in each of sixteen words, are a *strip*. Keys put sixteen tokens of
//! one channel into a strip, values sixteen channels of one token, so that a product with a query, or with
//! attention weights, multiplies a strip by one number and never sums over lanes.
//!
//! A tile is rows × columns of strips:
//!
//! ```text
//! keys                 tokens 0…15   tokens 16…31      values          channels 0…15   16…31   …
//!          channel 0 [    strip    |    strip    ]       token 0     [     strip     | strip | … ]
//!          channel 1 [    strip    |    strip    ]       token 1     [     strip     | strip | … ]
//!                  ⋮                                              ⋮
//! ```
//!
//! Sixteen words hold 32/w strips of w bits: a *unit*. The strips of a unit are consecutive rows of one column,
//! so a row always stands at the same bits; at 4 bits a word of a key tile is
//!
//! ```text
//!  bit 31                                                0
//!     [ c7 | c6 | c5 | c4 | c3 | c2 | c1 | c0 ]     channels 8u … 8u + 7 of one token
//! ```
//!
//! Units stand row by row, columns side by side. Rows at the end that fill no unit (80 channels at one bit) go
//! one after another. Widths of 3, 5 and 6 bits are two such planes: 2 + 1, 4 + 1 and 4 + 2 bits, low bits first.
//! Channels beyond the last full strip of a value leave lanes empty; nothing else is padded.
//!
//! # Metadata
//! Two numbers a group, in the codec's type, beside each tile: scales of all its tokens, then offsets (of all its
//! channels, where groups run along tokens).
//!
//! # Attention
//! With x̂ = s·q + z, a query's product with a key is s·Σ query·q + z·Σ query where a group is one token's, and
//! Σ (query·s)·q + Σ query·z where it is one channel's; values likewise with attention weights. Codecs that are
//! not of this form (`codebook: lloyd-max`), and groups of values that cut strips, go tile by tile through a
//! buffer of one tile.
//!
//! | file | what |
//! |---|---|
//! | `layout` | which word and bit a code stands in |
//! | `head` | [`PackedHead`]: appending and reading back |
//! | `product` | strips times numbers: the inner loop |
//! | `keys`, `values` | scores and weighted sums of one chunk of tokens |
//! | `dense` | the same for tokens that are exact |
//! | `stored`, `online`, `decode` | [`attend`]: one query over all of it, with an online softmax |

#![allow(clippy::needless_range_loop, reason = "loops over heads and lanes that the compiler unrolls")]

mod decode;
mod dense;
mod head;
mod keys;
mod layout;
mod numbers;
mod online;
mod product;
mod stored;
mod values;

pub use decode::{Bias, Partial, Query, attend};
pub use head::PackedHead;
pub use layout::{Groups, Lanes, Layout};
pub use stored::Stored;

/// Query heads that go through the loops together; more take turns.
const MAX_HEADS: usize = 4;

/// Codes of a strip.
pub(crate) use crate::isa::LANES;

/// Sixteen words, which hold 32/w strips of w bits.
pub type Unit = [u32; LANES];

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the same arithmetic gives the same bits")]
mod tests;
