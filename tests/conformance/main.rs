//! Reference values made with independent software: every model folder that is found runs through every test.
//!
//! The folder is `KVTUNE_CONFORMANCE`, or where the maintainers keep it; without one the tests say so and pass.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may")]

mod cache;
mod fixture;
mod model;
mod sensitivity;
mod weights;
