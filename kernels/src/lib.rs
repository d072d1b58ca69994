//! Codecs and fused kernels of a low-bit key/value cache: slices in, slices out.
//!
//! | module | what lives there |
//! |---|---|
//! | [`attention`] | blocks of queries over keys and values that are partly codes, partly exact |
//! | [`matrix`] | matrix products |
//! | [`mmap`] | a file's bytes, mapped |
//! | [`pointwise`] | RMS norm, rotary embedding, SiLU·up, softmax |
//! | [`statistics`] | sums of errors, log-sum-exp, divergence |
//!
//! Knows neither `kvtune` nor any model. `unsafe` stands only here, each use with its reason.

pub mod attention;
pub mod matrix;
pub mod mmap;
pub mod pointwise;
pub mod statistics;
