//! The packed cache on a GPU: rows into pages of codes, and attention over them.
//!
//! Generic over cubecl's runtimes: CUDA by feature `cuda`, Vulkan by feature `vulkan`; feature `gpu` alone has the
//! kernels without a runtime.
//!
//! | item | what it is |
//! |---|---|
//! | [`Packing`] | bits, codec and groups of keys or values: what a kernel is compiled for |
//! | [`Store`] | keys or values of one layer on the device; takes rows, as codes or as they are |
//! | [`Attention`] | one query token a lane over such stores |
//! | [`layout`] | where a code stands |
//!
//! Nothing is launched before shapes, lengths and codec are known to be good; see [`GpuError`]. What only the
//! numbers show, a group beyond f16 or not finite, is kept on the device and found by [`Store::faults`].

mod attend;
mod error;
mod known;
pub mod layout;
mod number;
mod packing;
mod quantize;
mod store;

pub use attend::{Attention, Lane, Lanes};
pub use cubecl;
pub use error::{Fault, FaultKind, GpuError};
pub use packing::{Groups, Packing};
pub use quantize::{RowOrder, Rows, Span};
pub use store::{Room, Store};
