use super::ScoreError;
use crate::cache::{CacheKind, FullCache, LayerCache, Memory, Simulation, Units};
use crate::model::{Angles, Decoder, DecoderBackend, ModelError, OpenLayer, Tensor2};
use crate::precision::PrecisionMap;
use crate::progress::Observer;

/// One sequence under several maps, side by side between two layers.
///
/// Maps share the full-precision run up to their first quantized layer.
pub(super) struct Side<B: DecoderBackend> {
    angles: Angles,
    units: Units,
    kind: CacheKind,
    full: Option<Tensor2<B>>,
    /// Whether all runs begin at the first layer, and full precision is wanted to the last.
    to_the_end: bool,
    runs: Vec<MapRun<B>>,
    n_layers: usize,
}

struct MapRun<B: DecoderBackend> {
    map: PrecisionMap,
    /// The first layer that is quantized; 0 where none is.
    first: usize,
    /// `None` before it.
    hidden: Option<Tensor2<B>>,
    /// What the caches of its layers had allocated.
    held: Memory,
}

impl<B: DecoderBackend> Side<B> {
    pub(super) fn new(
        decoder: &Decoder<B>,
        tokens: &[u32],
        units: Units,
        maps: &[PrecisionMap],
        kind: CacheKind,
    ) -> Self {
        let run = |map: &PrecisionMap| {
            let first = map.first_quantized().map_or(0, |layer| layer.0);
            MapRun { map: map.clone(), first, hidden: None, held: Memory::default() }
        };
        Self {
            angles: decoder.angles(0, tokens.len()),
            units,
            kind,
            full: Some(decoder.embed(tokens)),
            to_the_end: false,
            runs: maps.iter().map(run).collect(),
            n_layers: decoder.config().num_hidden_layers,
        }
    }

    /// Runs full precision to the last layer, and every map from the first.
    pub(super) fn with_full(mut self) -> Self {
        self.to_the_end = true;
        self.runs.iter_mut().for_each(|run| run.first = 0);
        self
    }

    /// All runs through one layer; gives the number of maps that this completes, spread evenly over the layers.
    pub(super) fn layer(
        &mut self,
        layer: &OpenLayer<'_, B>,
        simulation: &Simulation,
        observer: &dyn Observer,
    ) -> Result<u64, ScoreError> {
        let index = layer.index();
        for run in &mut self.runs {
            if observer.interrupted() {
                return Err(ScoreError::Interrupted);
            }
            if run.first == index {
                run.hidden.clone_from(&self.full);
            }
            let Some(hidden) = run.hidden.take() else { continue };
            let cache = simulation.any_layer(self.kind, index, run.map.pairs()[index], &self.units);
            let mut cache = cache.map_err(ModelError::from)?;
            run.hidden = Some(layer.forward(hidden, &self.angles, &mut cache)?);
            run.held = run.held + cache.memory();
        }
        let wanted = self.to_the_end || self.runs.iter().any(|run| run.hidden.is_none());
        self.full = match self.full.take().filter(|_| wanted) {
            Some(hidden) => {
                let mut cache = FullCache::new(simulation.shape(), simulation.window(index));
                Some(layer.forward(hidden, &self.angles, &mut cache)?)
            }
            None => None,
        };
        let done = |layers: usize| layers * self.runs.len() / self.n_layers;
        Ok((done(index + 1) - done(index)) as u64)
    }

    /// Where all runs ended.
    pub(super) fn finals(self, decoder: &Decoder<B>) -> Finals<B> {
        let norm = |hidden| decoder.final_norm(hidden);
        let (hidden, held) =
            self.runs.into_iter().filter_map(|run| Some((norm(run.hidden?), run.held))).unzip();
        Finals { full: self.full.map(norm), runs: hidden, held }
    }
}

/// Hidden states behind the final norm.
pub(super) struct Finals<B: DecoderBackend> {
    /// Of full precision, where it was run to the end.
    pub(super) full: Option<Tensor2<B>>,
    /// One a map.
    pub(super) runs: Vec<Tensor2<B>>,
    /// What each map's caches had allocated.
    pub(super) held: Vec<Memory>,
}
