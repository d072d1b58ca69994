//! Runs precision maps over a trace: what each costs in flipped tokens, divergence and likelihood.
//!
//! Teacher-forced: prompt and continuation go through the model in one pass, each query reading the cache as it
//! would stand when that token is decoded (`cache::Units`), which equals decoding token by token. A score
//! depends on the map, the document and the build; not on what else is scored with it, nor on the threads.
//! Knows no searcher. Read on in [`Scorer`].

mod answers;
mod pass;
mod prefixes;
mod reference;
mod restored;
mod scorer;
mod side;
mod tally;
#[cfg(test)]
mod tests;
mod window;
mod windows;

use crate::cache::{NoKeyBias, Simulation};
use crate::model::{Decoder, DecoderBackend};
use crate::quant::Scheme;

pub use answers::{Configured, Question, Reply, TokenAsk, answer, cut};
pub use restored::{Entry, score_entries};
pub use scorer::{ScoreError, Scorer};
pub use tally::{Objective, Tally};
pub use window::Window;
pub use windows::{WindowScores, score_windows};

/// What simulated caches of a model need under a scheme, for sequences of up to `len` tokens.
///
/// # Errors
/// [`NoKeyBias`] if the scheme subtracts a bias that a layer does not have.
pub fn simulation<B: DecoderBackend>(
    decoder: &Decoder<B>,
    scheme: &Scheme,
    len: usize,
) -> Result<Simulation, NoKeyBias> {
    let bias = |layer| decoder.rotated_key_bias(layer, len);
    Simulation::new(scheme, decoder.shape(), &decoder.config().sliding_window, bias)
}
