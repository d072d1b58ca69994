use std::ops::ControlFlow;

use super::record::Continue;
use crate::model::{Decoder, DecoderBackend, ModelError, from_host, generate, to_host};

/// The full-precision model continues and records its own traces.
impl<B: DecoderBackend> Continue for Decoder<B> {
    type Error = ModelError;

    fn continue_greedily(&self, prompt: &[u32], max_new: usize) -> Result<Vec<u32>, ModelError> {
        generate::greedy(self, &mut self.full_caches(), prompt, max_new, |_| ControlFlow::Continue(()))
    }

    fn hidden_states(&self, tokens: &[u32], from: usize) -> Result<Vec<f32>, ModelError> {
        let hidden = self.forward(tokens, &mut self.full_caches())?;
        Ok(to_host(hidden.narrow(0, from, tokens.len() - from)))
    }

    fn logits(&self, hidden: &[f32]) -> Result<Vec<f32>, ModelError> {
        let rows = hidden.len() / self.config().hidden_size;
        let hidden = from_host(hidden.to_vec(), rows, self.device());
        Ok(to_host(Decoder::logits(self, hidden)))
    }
}
