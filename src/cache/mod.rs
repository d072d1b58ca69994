//! What attention reads: one trait, small types behind it.
//!
//! A [`LayerCache`] takes the keys and values of new tokens and answers queries. The decoder knows only the
//! trait, so full precision, simulation and packed codes are one code path; `sensitivity` uses the parts behind
//! it, [`CodedTensor`] and [`attend()`].
//! Depends on `quant` (schemes) and `kvtune-kernels` (codecs, attention); knows no task and no search.

mod any;
mod attend;
mod coded;
mod full;
mod fused;
mod memory;
mod packed;
mod shape;
mod simulated;
mod simulation;
mod units;

pub use any::{AnyCache, CacheKind};
pub use attend::{Side, attend, block_len, gather_queries, scatter_heads};
pub use coded::CodedTensor;
pub use full::FullCache;
pub use memory::Memory;
pub use packed::PackedCache;
pub use shape::{HeadShape, Rows};
pub use simulated::{KeyBiasTable, SimulatedCache};
pub use simulation::{NoKeyBias, Simulation};
pub use units::Units;

use crate::quant::{CodecError, GroupError, Tensor};

/// One layer's key/value cache.
///
/// # Shapes
/// Heads lie side by side in a row: `k`, `v` are `[tokens, n_kv_heads * head_dim]`, `q` and `out` are
/// `[tokens, n_heads * head_dim]`; queries and keys carry their rotary position already.
pub trait LayerCache: Send {
    /// Tokens held.
    fn len(&self) -> usize;

    /// Whether nothing is held yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the keys and values of the next tokens.
    ///
    /// # Errors
    /// [`CacheError`] where a group cannot be coded.
    fn append(&mut self, k: Rows<'_>, v: Rows<'_>) -> Result<(), CacheError>;

    /// Attention outputs of the queries of the newest `q.rows` tokens, before the output projection.
    ///
    /// # Errors
    /// [`CacheError`], should a kind of cache have one; those here answer whatever they hold.
    fn attend(&mut self, q: Rows<'_>, out: &mut [f32]) -> Result<(), CacheError>;

    /// What the cache has allocated.
    fn memory(&self) -> Memory;
}

impl CacheError {
    /// A codec's refusal of a group of one head.
    fn refused(tensor: Tensor, head: usize, refused: GroupError) -> Self {
        let tensor = tensor.name();
        match refused.error {
            CodecError::NotFinite => Self::NotFinite { tensor, head },
            error => Self::Group { tensor, head, group: refused.group, message: error.to_string() },
        }
    }
}

/// What can go wrong in one layer's cache; the decoder adds the layer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CacheError {
    /// A group that its codec cannot hold.
    #[error("{tensor} of KV head {head}, group {group}: {message}")]
    Group {
        /// `keys` or `values`.
        tensor: &'static str,
        /// The KV head.
        head: usize,
        /// Number of the group in that head.
        group: usize,
        /// What the codec says, with the way out.
        message: String,
    },
    /// NaN or infinity where a number should be.
    #[error("{tensor} of head {head} hold a value that is not finite")]
    NotFinite {
        /// Which tensor.
        tensor: &'static str,
        /// The head.
        head: usize,
    },
    /// More tokens than the table of rotated key biases speaks of.
    #[error("the rotated key bias is known for {positions} positions, but the cache holds {tokens} tokens")]
    KeyBias {
        /// Positions of the table.
        positions: usize,
        /// Tokens held.
        tokens: usize,
    },
}
