//! Greedy continuation, one token at a time.

use std::ops::ControlFlow;

use kvtune_kernels::statistics::arg_max;

use super::ModelError;
use super::decoder::Decoder;
use super::ops::{DecoderBackend, to_host};
use crate::cache::LayerCache;

/// Continues `prompt` with the most likely token each time, until `max_new` tokens or an end-of-sequence token,
/// which is kept as the last one. `each` sees every token as it is chosen and may break off.
///
/// # Errors
/// What a cache says, with the layer's number.
pub fn greedy<B: DecoderBackend, C: LayerCache>(
    decoder: &Decoder<B>,
    caches: &mut [C],
    prompt: &[u32],
    max_new: usize,
    mut each: impl FnMut(u32) -> ControlFlow<()>,
) -> Result<Vec<u32>, ModelError> {
    let mut tokens = Vec::new();
    let mut input = prompt.to_vec();
    while tokens.len() < max_new {
        let hidden = decoder.forward(&input, caches)?;
        let last = hidden.dims()[0] - 1;
        let logits = to_host(decoder.logits(hidden.narrow(0, last, 1)));
        let chosen = arg_max(&logits).expect("a vocabulary is not empty") as u32;
        tokens.push(chosen);
        if decoder.config().eos_token_ids.contains(&chosen) || each(chosen).is_break() {
            break;
        }
        input = vec![chosen];
    }
    Ok(tokens)
}
