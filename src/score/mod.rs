//! Runs precision maps over a trace: what each costs in flipped tokens, divergence and likelihood.
//!
//! Teacher-forced: prompt and continuation go through the model in one pass, each query reading the cache as it
//! would stand when that token is decoded (`cache::Units`), which equals decoding token by token. A score
//! depends on the map, the document and the build; not on what else is scored with it, nor on the threads.
//! Knows no searcher. Read on in [`Scorer`].

mod reference;
mod scorer;
mod tally;
mod windows;

pub use scorer::{ScoreError, Scorer};
pub use tally::{Objective, Tally};
pub use windows::{full_caches, score_windows};
