use std::sync::OnceLock;

use burn::prelude::*;
use kvtune_kernels::statistics::{arg_max, divergence, log_sum_exp};

use super::Tally;
use crate::cache::FullCache;
use crate::model::{Decoder, DecoderBackend, ModelError, from_host, to_host};
use crate::trace::Document;

/// Positions whose logits are in memory at once, beside the reference's own.
const CHUNK: usize = 32;

/// What full precision says at each position of one document.
pub(super) struct Reference<'a, B: DecoderBackend> {
    document: &'a Document,
    /// `[positions, vocab_size]`
    logits: Vec<f32>,
    log_sum: Vec<f64>,
    chosen: Vec<usize>,
    /// The hidden states that enter each layer, for maps whose first layers are not quantized.
    states: OnceLock<Vec<Tensor<B, 2>>>,
}

impl<'a, B: DecoderBackend> Reference<'a, B> {
    pub(super) fn new(decoder: &Decoder<B>, document: &'a Document) -> Self {
        let hidden = from_host(document.hidden.clone(), document.positions(), decoder.device());
        let logits = to_host(decoder.logits(hidden));
        let rows = || logits.chunks_exact(decoder.config().vocab_size);
        let log_sum = rows().map(log_sum_exp).collect();
        let chosen = rows().map(|row| arg_max(row).unwrap_or(0)).collect();
        Self { document, logits, log_sum, chosen, states: OnceLock::new() }
    }

    pub(super) fn prompt_len(&self) -> usize {
        self.document.prompt_len
    }

    /// The full-precision hidden states `[tokens, hidden_size]` that enter `layer`.
    pub(super) fn state(&self, decoder: &Decoder<B>, layer: usize) -> Result<Tensor<B, 2>, ModelError> {
        if layer == 0 {
            return Ok(decoder.embed(scored_tokens(self.document)));
        }
        if self.states.get().is_none() {
            // Another thread may be first; both compute the same.
            let _ = self.states.set(full_states(decoder, self.document)?);
        }
        Ok(self.states.get().expect("set above")[layer].clone())
    }

    /// Compares the hidden states of a quantized run, after the final norm, with full precision.
    pub(super) fn tally(&self, decoder: &Decoder<B>, hidden: Tensor<B, 2>) -> Tally {
        let (first, positions) = (self.document.prompt_len - 1, self.document.positions());
        let mut tally = Tally { positions: positions as u64, ..Tally::default() };
        for start in (0..positions).step_by(CHUNK) {
            let rows = CHUNK.min(positions - start);
            let logits = to_host(decoder.logits(hidden.clone().narrow(0, first + start, rows)));
            for (row, position) in logits.chunks_exact(decoder.config().vocab_size).zip(start..) {
                self.position(row, position, &mut tally);
            }
        }
        tally
    }

    fn position(&self, logits: &[f32], position: usize, tally: &mut Tally) {
        let full = &self.logits[position * logits.len()..][..logits.len()];
        let (full_sum, sum) = (self.log_sum[position], log_sum_exp(logits));
        let token = self.document.tokens[self.document.prompt_len + position] as usize;
        tally.flips += u64::from(arg_max(logits) != Some(self.chosen[position]));
        tally.kl += divergence(full, full_sum, logits, sum);
        tally.nll += sum - f64::from(logits[token]);
        tally.nll_full += full_sum - f64::from(full[token]);
    }
}

/// Every token but the last, whose successor nobody asks for.
pub(super) fn scored_tokens(document: &Document) -> &[u32] {
    &document.tokens[..document.tokens.len() - 1]
}

fn full_states<B: DecoderBackend>(
    decoder: &Decoder<B>,
    document: &Document,
) -> Result<Vec<Tensor<B, 2>>, ModelError> {
    let tokens = scored_tokens(document);
    let angles = decoder.angles(0, tokens.len());
    let mut hidden = decoder.embed(tokens);
    let mut states = Vec::new();
    for layer in 0..decoder.config().num_hidden_layers {
        states.push(hidden.clone());
        let mut cache = FullCache::new(decoder.shape(), decoder.config().sliding_window[layer]);
        hidden = decoder.layer(layer, hidden, &angles, &mut cache)?;
    }
    Ok(states)
}
