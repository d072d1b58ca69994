//! Many sequences through the layers, each layer read once for all of them.

use std::ops::Range;
use std::sync::Mutex;

use super::{Decoder, OpenLayer};
use crate::cache::LayerCache;
use crate::model::ops::DecoderBackend;
use crate::model::{Angles, ModelError, Tensor2};
use crate::parallel::in_order;

/// Hidden states, in elements, that wait between layers where the weights are streamed: 512 MiB. More of them would
/// have the weights read less often, but reading is short beside computing: a layer is read in the time of a few
/// hundred tokens, and so many elements are tens of thousands.
const WAITING: usize = 1 << 27;

/// What is done at every layer to some units: sequences, or several that belong together.
pub trait LayerWork<B: DecoderBackend>: Sync {
    /// A unit between two layers.
    type State: Send;
    /// What comes of a unit.
    type Output: Send;
    /// What can go wrong.
    type Error: From<ModelError> + Send;

    /// Elements of the hidden states that a unit has between layers.
    fn size(&self, unit: usize) -> usize;

    /// A unit before the first layer.
    ///
    /// # Errors
    /// The work's own.
    fn begin(&self, unit: usize) -> Result<Self::State, Self::Error>;

    /// A unit at one layer.
    ///
    /// # Errors
    /// The work's own.
    fn layer(&self, layer: &OpenLayer<'_, B>, state: &mut Self::State) -> Result<(), Self::Error>;

    /// A unit behind the last layer.
    ///
    /// # Errors
    /// The work's own.
    fn end(&self, unit: usize, state: Self::State) -> Result<Self::Output, Self::Error>;
}

impl<B: DecoderBackend> Decoder<B> {
    /// Takes units `0..units` through all layers, up to `threads` at a time; outputs in order.
    ///
    /// Where the weights are in memory each unit goes by itself from begin to end. Where they are streamed as many
    /// as wait in 512 MiB go side by side, so that a layer is read once for all of these.
    ///
    /// # Errors
    /// The error of the first unit that fails, or of a layer that cannot be read.
    pub fn walk<W: LayerWork<B>>(
        &self,
        work: &W,
        units: usize,
        threads: usize,
    ) -> Result<Vec<W::Output>, W::Error> {
        if !self.is_streamed() {
            return in_order(threads, units, |unit| {
                let mut state = work.begin(unit)?;
                self.each_layer(|layer| work.layer(layer, &mut state))?;
                work.end(unit, state)
            });
        }
        let mut outputs = Vec::with_capacity(units);
        for batch in batches(units, |unit| work.size(unit)) {
            outputs.extend(self.side_by_side(work, batch, threads)?);
        }
        Ok(outputs)
    }

    /// Opens one layer after the other.
    pub(crate) fn each_layer<E: From<ModelError>>(
        &self,
        mut visit: impl FnMut(&OpenLayer<'_, B>) -> Result<(), E>,
    ) -> Result<(), E> {
        (0..self.config.num_hidden_layers).try_for_each(|layer| visit(&self.open(layer)?))
    }

    fn side_by_side<W: LayerWork<B>>(
        &self,
        work: &W,
        units: Range<usize>,
        threads: usize,
    ) -> Result<Vec<W::Output>, W::Error> {
        const ALONE: &str = "a unit is one thread's at a time";
        let begun = in_order(threads, units.len(), |i| work.begin(units.start + i))?;
        let states: Vec<Mutex<Option<W::State>>> = begun.into_iter().map(|s| Mutex::new(Some(s))).collect();
        self.each_layer(|layer| {
            let step = |i: usize| match states[i].lock().expect(ALONE).as_mut() {
                Some(state) => work.layer(layer, state),
                None => Ok(()),
            };
            in_order(threads, states.len(), step).map(|_| ())
        })?;
        let end = |i: usize| {
            let state = states[i].lock().expect(ALONE).take();
            state.map(|state| work.end(units.start + i, state)).transpose()
        };
        Ok(in_order(threads, states.len(), end)?.into_iter().flatten().collect())
    }

    /// Prompts into caches, side by side; `caches` makes those of a prompt, one a layer: empty ones, or such as
    /// hold what precedes it. The hidden states that leave the layers of `taps` are kept of each last token.
    ///
    /// # Errors
    /// What `caches` or a cache says, the latter with the layer's number.
    pub fn prefill_many<C: LayerCache>(
        &self,
        prompts: &[&[u32]],
        caches: impl Fn(usize) -> Result<Vec<C>, ModelError> + Sync,
        taps: &[usize],
        threads: usize,
    ) -> Result<Vec<Prefilled<B, C>>, ModelError> {
        self.walk(&Prefill { decoder: self, prompts, caches, taps }, prompts.len(), threads)
    }
}

/// A prompt that is in its caches.
pub struct Prefilled<B: DecoderBackend, C> {
    /// One a layer.
    pub caches: Vec<C>,
    /// The hidden state of the prompt's last token behind the final norm, `[1, hidden_size]`.
    pub last: Tensor2<B>,
    /// The last token's hidden states that leave the tapped layers, in their order, each `[1, hidden_size]`.
    pub earlier: Vec<Tensor2<B>>,
}

/// Units that wait at the same time: consecutive ones, as many as [`WAITING`] holds, at least one.
pub(crate) fn batches(units: usize, size: impl Fn(usize) -> usize) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let (mut start, mut waiting) = (0, 0);
    for unit in 0..units {
        waiting += size(unit);
        if waiting > WAITING && unit > start {
            batches.push(start..unit);
            (start, waiting) = (unit, size(unit));
        }
    }
    if start < units {
        batches.push(start..units);
    }
    batches
}

struct Prefill<'a, B: DecoderBackend, F> {
    decoder: &'a Decoder<B>,
    prompts: &'a [&'a [u32]],
    caches: F,
    taps: &'a [usize],
}

/// One prompt between two layers.
struct Prompt<B: DecoderBackend, C> {
    hidden: Tensor2<B>,
    angles: Angles,
    caches: Vec<C>,
    earlier: Vec<Tensor2<B>>,
}

impl<B: DecoderBackend, C: LayerCache, F> LayerWork<B> for Prefill<'_, B, F>
where
    F: Fn(usize) -> Result<Vec<C>, ModelError> + Sync,
{
    type State = Prompt<B, C>;
    type Output = Prefilled<B, C>;
    type Error = ModelError;

    fn size(&self, unit: usize) -> usize {
        self.prompts[unit].len() * self.decoder.config.hidden_size
    }

    fn begin(&self, unit: usize) -> Result<Prompt<B, C>, ModelError> {
        let tokens = self.prompts[unit];
        let caches = (self.caches)(unit)?;
        let start = caches.first().map_or(0, LayerCache::len);
        let angles = self.decoder.angles(start, tokens.len());
        Ok(Prompt { hidden: self.decoder.embed(tokens), angles, caches, earlier: Vec::new() })
    }

    fn layer(&self, layer: &OpenLayer<'_, B>, state: &mut Prompt<B, C>) -> Result<(), ModelError> {
        let cache = &mut state.caches[layer.index()];
        state.hidden = layer.forward(state.hidden.clone(), &state.angles, cache)?;
        if self.taps.contains(&layer.index()) {
            let last = state.hidden.dims()[0] - 1;
            state.earlier.push(state.hidden.clone().narrow(0, last, 1));
        }
        Ok(())
    }

    fn end(&self, unit: usize, state: Prompt<B, C>) -> Result<Self::Output, ModelError> {
        let last = self.prompts[unit].len() - 1;
        let last = self.decoder.final_norm(state.hidden).narrow(0, last, 1);
        Ok(Prefilled { caches: state.caches, last, earlier: state.earlier })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_holds_what_may_wait_and_at_least_one() {
        let sizes = [WAITING / 2, WAITING / 2, 1, 2 * WAITING, WAITING, 5];
        let found = batches(sizes.len(), |unit| sizes[unit]);
        assert_eq!(found, [0..2, 2..3, 3..4, 4..5, 5..6]);
        assert!(batches(0, |_| 1).is_empty());
    }
}
