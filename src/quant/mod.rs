//! Schemes: how keys and values are cut into groups, which tokens are held as codes, and what that costs.
//!
//! The arithmetic on one group (round-to-nearest, two-level, metadata types) and `frozen_tokens` live in
//! `kvtune-kernels`, which works on slices; this module says *which* groups and *when*.
//! Knows no model and no file. Read on in `cache`, which applies a scheme to a layer as tokens arrive.

mod check;
mod memory;
mod policy;
mod scheme;

pub use check::SchemeError;
pub use kvtune_kernels::codec::{
    Codebook, Codec, CodecError, CodecOptions, CodecOptionsError, GroupError, Metadata, OneBit, Zero,
};
pub use kvtune_kernels::freeze::{Freeze, frozen_tokens};
pub use memory::LayerShape;
pub use policy::Tensor;
pub use scheme::{Axis, Group, KeyBias, Prefill, Scheme, SchemeName, TensorSpec};
