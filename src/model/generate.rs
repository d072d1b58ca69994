//! Greedy continuation, one token at a time: of one prompt, or of many side by side.

use std::ops::ControlFlow;

use kvtune_kernels::statistics::arg_max;

use super::decoder::{Decoder, Prefilled};
use super::ops::{DecoderBackend, to_host};
use super::{ModelError, Tensor2};
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
        let chosen = most_likely(decoder, hidden.narrow(0, last, 1))[0];
        tokens.push(chosen);
        if decoder.config().eos_token_ids.contains(&chosen) || each(chosen).is_break() {
            break;
        }
        input = vec![chosen];
    }
    Ok(tokens)
}

/// Sequences that go side by side: more of them read the weights fewer times, and hold more caches.
const LANES: usize = 32;

/// Continues many prompts as [`greedy`] continues each; `caches` makes the caches of one. `each` hears of every
/// token, with its prompt's number, and may break all off, which leaves the continuations as they are.
///
/// # Errors
/// What a cache says, with the layer's number.
pub fn greedy_many<B: DecoderBackend, C: LayerCache>(
    decoder: &Decoder<B>,
    caches: impl Fn() -> Vec<C> + Sync,
    prompts: &[&[u32]],
    max_new: usize,
    threads: usize,
    each: &dyn Fn(usize, u32) -> ControlFlow<()>,
) -> Result<Vec<Vec<u32>>, ModelError> {
    let mut continuations = vec![Vec::new(); prompts.len()];
    for first in (0..prompts.len()).step_by(LANES) {
        let mut waiting: Vec<Lane<C>> = Vec::new();
        let group = &prompts[first..prompts.len().min(first + LANES)];
        if max_new == 0 {
            break;
        }
        let prefilled = decoder.prefill_many(group, |_| caches(), threads)?;
        for (prompt, Prefilled { caches, last }) in (first..).zip(prefilled) {
            waiting.push(Lane { prompt, token: most_likely(decoder, last)[0], caches });
        }
        while !waiting.is_empty() {
            let mut going = Vec::new();
            for lane in waiting {
                let tokens = &mut continuations[lane.prompt];
                tokens.push(lane.token);
                if each(lane.prompt, lane.token).is_break() {
                    return Ok(continuations);
                }
                let ended = decoder.config().eos_token_ids.contains(&lane.token);
                if !ended && tokens.len() < max_new {
                    going.push(lane);
                }
            }
            waiting = if going.is_empty() { going } else { advance(decoder, going)? };
        }
    }
    Ok(continuations)
}

/// A sequence under way: the token chosen last, not yet in the caches.
struct Lane<C> {
    prompt: usize,
    token: u32,
    caches: Vec<C>,
}

/// Every lane by one token.
fn advance<B: DecoderBackend, C: LayerCache>(
    decoder: &Decoder<B>,
    lanes: Vec<Lane<C>>,
) -> Result<Vec<Lane<C>>, ModelError> {
    let tokens: Vec<u32> = lanes.iter().map(|lane| lane.token).collect();
    let prompts: Vec<usize> = lanes.iter().map(|lane| lane.prompt).collect();
    let mut caches: Vec<Vec<C>> = lanes.into_iter().map(|lane| lane.caches).collect();
    let chosen = most_likely(decoder, decoder.step(&tokens, &mut caches)?);
    let lane = |((prompt, token), caches)| Lane { prompt, token, caches };
    Ok(prompts.into_iter().zip(chosen).zip(caches).map(lane).collect())
}

/// The most likely token after each row of normed hidden states.
fn most_likely<B: DecoderBackend>(decoder: &Decoder<B>, hidden: Tensor2<B>) -> Vec<u32> {
    let logits = to_host(decoder.logits(hidden));
    let rows = logits.chunks_exact(decoder.config().vocab_size);
    rows.map(|row| arg_max(row).expect("a vocabulary is not empty") as u32).collect()
}
