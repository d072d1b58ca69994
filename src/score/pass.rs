//! One sequence in one pass, whose logits are asked for some positions at a time.

use std::ops::Range;

use crate::cache::LayerCache;
use crate::model::restore::{Restore, Step};
use crate::model::{Decoder, DecoderBackend, ModelError, Tensor2, to_host};

/// What a pass left at each of its positions, and who changes its logits, if anybody.
pub(super) struct Pass<'a, B: DecoderBackend, R: Restore> {
    decoder: &'a Decoder<B>,
    /// Tokens that were in the caches before.
    before: usize,
    /// `[tokens, hidden_size]`, behind the final norm.
    hidden: Tensor2<B>,
    /// The same of each layer asked for.
    tapped: Vec<Tensor2<B>>,
    restore: Option<(&'a R, R::State)>,
}

impl<'a, B: DecoderBackend, R: Restore> Pass<'a, B, R> {
    /// Runs tokens that follow what the caches hold.
    pub(super) fn run<C: LayerCache>(
        decoder: &'a Decoder<B>,
        tokens: &[u32],
        caches: &mut [C],
        restore: Option<&'a R>,
    ) -> Result<Self, ModelError> {
        let before = caches.first().map_or(0, LayerCache::len);
        let layers = restore.map_or(&[][..], Restore::layers);
        let (hidden, tapped) = decoder.forward_tapped(tokens, caches, layers)?;
        let restore = restore.map(|restore| (restore, restore.begin(0)));
        Ok(Self { decoder, before, hidden, tapped, restore })
    }

    pub(super) fn is_restored(&self) -> bool {
        self.restore.is_some()
    }

    /// The logits of some positions as the model gives them, `[positions, vocab_size]`.
    pub(super) fn logits(&self, positions: Range<usize>) -> Vec<f32> {
        let hidden = self.hidden.clone().narrow(0, positions.start, positions.len());
        to_host(self.decoder.logits(hidden))
    }

    /// Changes the logits of some positions, which follow those that were changed last.
    pub(super) fn restore(&mut self, positions: Range<usize>, logits: &mut [f32]) {
        let Some((restore, state)) = &mut self.restore else { return };
        let host = |states: &Tensor2<B>| to_host(states.clone().narrow(0, positions.start, positions.len()));
        let (last, tapped) = (host(&self.hidden), self.tapped.iter().map(host).collect::<Vec<_>>());
        let config = self.decoder.config();
        for (row, logits) in logits.chunks_exact_mut(config.vocab_size).enumerate() {
            let of_row = row * config.hidden_size..(row + 1) * config.hidden_size;
            let earlier: Vec<&[f32]> = tapped.iter().map(|states| &states[of_row.clone()]).collect();
            let length = self.before + positions.start + row + 1;
            restore.restore(state, Step { length, last: &last[of_row], earlier: &earlier, logits });
        }
    }

    /// The logits of some positions, changed where somebody changes them; they follow those asked for last.
    pub(super) fn restored_logits(&mut self, positions: Range<usize>) -> Vec<f32> {
        let mut logits = self.logits(positions.clone());
        self.restore(positions, &mut logits);
        logits
    }
}
