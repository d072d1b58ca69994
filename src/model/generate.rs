//! Continuation of prompts, one token at a time: of one, or of many side by side.

use std::ops::ControlFlow;

use super::decoder::{Decoder, Prefilled};
use super::ops::{DecoderBackend, to_host};
use super::restore::{AsIs, Restore, Step};
use super::sampling::{Sampler, Sampling};
use super::{ModelError, Tensor2};
use crate::cache::LayerCache;

/// Continues `prompt` with the most likely token each time, until `max_new` tokens or an end-of-sequence token,
/// which is kept as the last one. `each` sees every token as it is chosen and may break off.
///
/// # Errors
/// What a cache says, with the layer's number.
pub fn greedy<B: DecoderBackend, C: LayerCache>(
    decoder: &Decoder<B>,
    caches: &mut Vec<C>,
    prompt: &[u32],
    max_new: usize,
    mut each: impl FnMut(u32) -> ControlFlow<()>,
) -> Result<Vec<u32>, ModelError> {
    let mut sampler = Sampler::new(Sampling::GREEDY, 0);
    let mut tokens = Vec::new();
    if max_new == 0 {
        return Ok(tokens);
    }
    let mut hidden = decoder.forward(prompt, caches)?;
    loop {
        let chosen = choose_last(decoder, hidden, &mut sampler);
        tokens.push(chosen);
        if is_end(decoder, chosen) || each(chosen).is_break() || tokens.len() == max_new {
            return Ok(tokens);
        }
        hidden = decoder.step(&[chosen], std::slice::from_mut(caches))?;
    }
}

/// Sequences that go side by side: more of them read the weights fewer times, and hold more caches.
pub const LANES: usize = 32;

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
    let batch = Batch { max_new, lanes: LANES, threads, sampling: Sampling::GREEDY };
    continue_many(decoder, |_| Ok(caches()), prompts, &batch, |chosen| each(chosen.prompt, chosen.token))
}

/// How many prompts are continued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// Tokens of a continuation, at most.
    pub max_new: usize,
    /// Sequences that go side by side, at most.
    pub lanes: usize,
    /// Prompts that are read at a time, at most.
    pub threads: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
}

/// A token of one of many continuations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Number of the prompt.
    pub prompt: usize,
    /// The token.
    pub token: u32,
    /// Whether the continuation ends with it.
    pub is_last: bool,
}

/// What becomes of a continuation, and of all, once a token is heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It goes on, unless this token ends it.
    GoOn,
    /// It ends here, and a prompt that waits takes its lane.
    Leave,
    /// All end here.
    Stop,
}

impl From<ControlFlow<()>> for Next {
    fn from(flow: ControlFlow<()>) -> Self {
        match flow {
            ControlFlow::Continue(()) => Self::GoOn,
            ControlFlow::Break(()) => Self::Stop,
        }
    }
}

/// Continues many prompts, none of them empty, until `max_new` tokens or an end-of-sequence token each, which is
/// kept as the last one; a prompt that waits enters as soon as another has left its lane.
///
/// A prompt's continuation does not depend on the prompts beside it. `caches` makes the caches of a prompt, whose
/// number it is given: empty ones, or such as hold a prefix that the prompt follows. `each` hears of every token as
/// it is chosen and may break all off, which leaves the continuations as they are.
///
/// # Errors
/// What `caches` or a cache says, the latter with the layer's number.
pub fn continue_many<B: DecoderBackend, C: LayerCache>(
    decoder: &Decoder<B>,
    caches: impl Fn(usize) -> Result<Vec<C>, ModelError> + Sync,
    prompts: &[&[u32]],
    batch: &Batch,
    mut each: impl FnMut(Chosen) -> ControlFlow<()>,
) -> Result<Vec<Vec<u32>>, ModelError> {
    continue_each(decoder, caches, prompts, batch, &AsIs, |chosen| each(chosen).into())
}

/// As [`continue_many`], with logits that are changed before tokens are chosen from them; and `each` may end a single
/// continuation too.
///
/// # Errors
/// As [`continue_many`].
pub fn continue_each<B: DecoderBackend, C: LayerCache, R: Restore>(
    decoder: &Decoder<B>,
    caches: impl Fn(usize) -> Result<Vec<C>, ModelError> + Sync,
    prompts: &[&[u32]],
    batch: &Batch,
    restore: &R,
    mut each: impl FnMut(Chosen) -> Next,
) -> Result<Vec<Vec<u32>>, ModelError> {
    let mut continuations = vec![Vec::new(); prompts.len()];
    let mut waiting = 0..if batch.max_new == 0 { 0 } else { prompts.len() };
    let mut going: Vec<Lane<C, R::State>> = Vec::new();
    while !(waiting.is_empty() && going.is_empty()) {
        let free = batch.lanes.max(1) - going.len();
        let entering: Vec<usize> = waiting.by_ref().take(free).collect();
        let mut lanes = advance(decoder, going, restore)?;
        let tokens: Vec<&[u32]> = entering.iter().map(|&prompt| prompts[prompt]).collect();
        let make = |index: usize| caches(entering[index]);
        let prefilled = decoder.prefill_many(&tokens, make, restore.layers(), batch.threads)?;
        for (prompt, prefilled) in entering.into_iter().zip(prefilled) {
            let sampler = Sampler::new(batch.sampling, prompt);
            lanes.push(Lane::start(decoder, prompt, prefilled, sampler, restore));
        }
        going = Vec::new();
        for lane in lanes {
            let (prompt, token) = (lane.prompt, lane.token);
            let tokens = &mut continuations[prompt];
            tokens.push(token);
            let is_last = tokens.len() == batch.max_new || is_end(decoder, token);
            match each(Chosen { prompt, token, is_last }) {
                Next::Stop => return Ok(continuations),
                Next::GoOn if !is_last => going.push(lane),
                Next::GoOn | Next::Leave => {}
            }
        }
    }
    Ok(continuations)
}

/// A sequence under way: the token chosen last is not yet in the caches.
struct Lane<C, S> {
    prompt: usize,
    token: u32,
    /// Tokens in the caches.
    length: usize,
    caches: Vec<C>,
    sampler: Sampler,
    state: S,
}

impl<C: LayerCache, S> Lane<C, S> {
    /// A sequence whose prompt is in its caches, with its first token chosen.
    fn start<B: DecoderBackend, R: Restore<State = S>>(
        decoder: &Decoder<B>,
        prompt: usize,
        Prefilled { caches, last, earlier }: Prefilled<B, C>,
        sampler: Sampler,
        restore: &R,
    ) -> Self {
        let length = caches.first().map_or(0, LayerCache::len);
        let mut lane = Self { prompt, token: 0, length, caches, sampler, state: restore.begin(prompt) };
        let mut logits = to_host(decoder.logits(last.clone()));
        let earlier: Vec<Vec<f32>> = earlier.into_iter().map(to_host).collect();
        let earlier: Vec<&[f32]> = earlier.iter().map(|states| &states[..]).collect();
        lane.choose(restore, &to_host(last), &earlier, &mut logits);
        lane
    }

    /// Chooses the token that follows, given the rows of its step.
    fn choose<R: Restore<State = S>>(
        &mut self,
        restore: &R,
        last: &[f32],
        earlier: &[&[f32]],
        logits: &mut [f32],
    ) {
        restore.restore(&mut self.state, Step { length: self.length, last, earlier, logits });
        self.token = self.sampler.choose(logits);
    }
}

/// Every lane by one token.
fn advance<B: DecoderBackend, C: LayerCache, R: Restore>(
    decoder: &Decoder<B>,
    mut lanes: Vec<Lane<C, R::State>>,
    restore: &R,
) -> Result<Vec<Lane<C, R::State>>, ModelError> {
    if lanes.is_empty() {
        return Ok(lanes);
    }
    let tokens: Vec<u32> = lanes.iter().map(|lane| lane.token).collect();
    let mut caches: Vec<Vec<C>> = lanes.iter_mut().map(|lane| std::mem::take(&mut lane.caches)).collect();
    let (hidden, tapped) = decoder.step_tapped(&tokens, &mut caches, restore.layers())?;
    let width = decoder.config().hidden_size;
    let mut logits = to_host(decoder.logits(hidden.clone()));
    let hidden = to_host(hidden);
    let tapped: Vec<Vec<f32>> = tapped.into_iter().map(to_host).collect();
    let rows = logits.chunks_exact_mut(decoder.config().vocab_size).zip(hidden.chunks_exact(width));
    for (index, ((lane, caches), (row, last))) in lanes.iter_mut().zip(caches).zip(rows).enumerate() {
        lane.caches = caches;
        lane.length += 1;
        let earlier: Vec<&[f32]> = tapped.iter().map(|states| &states[index * width..][..width]).collect();
        lane.choose(restore, last, &earlier, row);
    }
    Ok(lanes)
}

/// The token that follows the last row of normed hidden states.
fn choose_last<B: DecoderBackend>(decoder: &Decoder<B>, hidden: Tensor2<B>, sampler: &mut Sampler) -> u32 {
    let last = hidden.dims()[0] - 1;
    sampler.choose(&to_host(decoder.logits(hidden.narrow(0, last, 1))))
}

fn is_end<B: DecoderBackend>(decoder: &Decoder<B>, token: u32) -> bool {
    decoder.config().eos_token_ids.contains(&token)
}
