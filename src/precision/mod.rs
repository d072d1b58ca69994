//! Bit widths, pairs of them, maps over layers, and what a map costs.
//!
//! Depends on nothing else of ours. Two costs, never one name for both: [`EquivalentBits`] is the paper's axis
//! (codes only), [`StorageBits`] is what memory really holds at a stated context (codes, scales, residual).

mod bits;
mod cost;
mod map;
mod pair;

pub use bits::Bits;
pub use cost::{EquivalentBits, StorageBits, equivalent_bits, storage_bits};
pub use map::{LayerId, PrecisionMap};
pub use pair::PrecisionPair;

/// A bit width, pair or map that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrecisionError {
    /// Not one of [`Bits::ALL`].
    #[error("`{found}` is not a bit width, expected one of 1, 2, 3, 4, 5, 6, 8, 16")]
    Bits {
        /// What was given, as written.
        found: String,
    },
    /// Neither `K8V4` nor `KV4`.
    #[error(
        "`{found}` is not a precision pair, expected `K<bits>V<bits>` or `KV<bits>` with bits in 1, 2, 3, 4, 5, 6, 8, 16"
    )]
    Pair {
        /// What was given, as written.
        found: String,
    },
    /// A map for another model.
    #[error("the precision map has {found} layers, but the model has {expected}")]
    Layers {
        /// Layers of the map.
        found: usize,
        /// Layers of the model.
        expected: usize,
    },
}
