use burn::prelude::*;
use kvtune_kernels::statistics::{arg_max, divergence, log_sum_exp};

use super::Tally;
use crate::model::{Decoder, DecoderBackend, from_host, to_host};
use crate::trace::Document;

/// Positions whose logits are in memory at once, beside the reference's own.
const CHUNK: usize = 32;

/// What full precision says at each position of one document.
pub(super) struct Reference<'a> {
    document: &'a Document,
    /// `[positions, vocab_size]`
    logits: Vec<f32>,
    log_sum: Vec<f64>,
    chosen: Vec<usize>,
}

impl<'a> Reference<'a> {
    pub(super) fn new<B: DecoderBackend>(decoder: &Decoder<B>, document: &'a Document) -> Self {
        let hidden = from_host(document.hidden.clone(), document.positions(), decoder.device());
        let logits = to_host(decoder.logits(hidden));
        let rows = || logits.chunks_exact(decoder.config().vocab_size);
        let log_sum = rows().map(log_sum_exp).collect();
        let chosen = rows().map(|row| arg_max(row).unwrap_or(0)).collect();
        Self { document, logits, log_sum, chosen }
    }

    /// Compares the hidden states of a quantized run, after the final norm, with full precision.
    pub(super) fn tally<B: DecoderBackend>(&self, decoder: &Decoder<B>, hidden: Tensor<B, 2>) -> Tally {
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
