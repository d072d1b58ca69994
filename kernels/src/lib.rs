//! Codecs and fused kernels of a low-bit key/value cache: slices in, slices out.
//!
//! | module | what lives there |
//! |---|---|
//! | [`attention`] | blocks of queries over keys and values that are partly codes, partly exact |
//! | [`codec`] | one group of numbers as codes, and back |
//! | [`freeze`] | when a token stops being exact |
//! | `gpu` | the packed cache on a GPU; by feature |
//! | [`hadamard`] | the rotation that spreads outliers over channels |
//! | [`matrix`] | matrix products |
//! | [`mmap`] | a file's bytes, mapped |
//! | [`packed`] | keys and values as packed codes, and attention that reads them where they lie |
//! | [`pointwise`] | RMS norm, rotary embedding, SiLU·up, softmax |
//! | [`statistics`] | sums of errors, log-sum-exp, divergence |
//!
//! Knows neither `kvtune` nor any model. `unsafe` stands only here, each use with its reason.

pub mod attention;
pub mod codec;
pub mod freeze;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod hadamard;
mod isa;
pub mod matrix;
pub mod mmap;
pub mod packed;
pub mod pointwise;
pub mod statistics;
#[cfg(test)]
mod test_data;
