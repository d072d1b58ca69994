use super::ScoreError;
use crate::cache::{FullCache, Simulation, Units};
use crate::model::{Angles, Decoder, DecoderBackend, ModelError, OpenLayer, Tensor2};
use crate::precision::PrecisionMap;
use crate::progress::Observer;

/// One sequence under several maps, side by side between two layers.
///
/// Maps share the full-precision run up to their first quantized layer.
pub(super) struct Side<B: DecoderBackend> {
    angles: Angles,
    units: Units,
    /// For as long as a map has not left it, or to the end.
    full: Option<Tensor2<B>>,
    keep_full: bool,
    runs: Vec<MapRun<B>>,
    n_layers: usize,
}

struct MapRun<B: DecoderBackend> {
    map: PrecisionMap,
    /// The first layer that is quantized; 0 where none is.
    first: usize,
    /// `None` before it.
    hidden: Option<Tensor2<B>>,
}

impl<B: DecoderBackend> Side<B> {
    /// `keep_full` says whether the full-precision run is wanted to its end.
    pub(super) fn new(
        decoder: &Decoder<B>,
        tokens: &[u32],
        units: Units,
        maps: &[PrecisionMap],
        keep_full: bool,
    ) -> Self {
        let run = |map: &PrecisionMap| {
            let first = map.first_quantized().map_or(0, |layer| layer.0);
            MapRun { map: map.clone(), first, hidden: None }
        };
        Self {
            angles: decoder.angles(0, tokens.len()),
            units,
            full: Some(decoder.embed(tokens)),
            keep_full,
            runs: maps.iter().map(run).collect(),
            n_layers: decoder.config().num_hidden_layers,
        }
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
            let cache = simulation.cache(index, run.map.pairs()[index], &self.units);
            let mut cache = cache.map_err(ModelError::from)?;
            run.hidden = Some(layer.forward(hidden, &self.angles, &mut cache)?);
        }
        let wanted = self.keep_full || self.runs.iter().any(|run| run.hidden.is_none());
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

    /// Hidden states behind the final norm: of full precision where it was kept, and of each map.
    pub(super) fn finals(self, decoder: &Decoder<B>) -> (Option<Tensor2<B>>, Vec<Tensor2<B>>) {
        let runs = self.runs.into_iter().filter_map(|run| run.hidden);
        let runs = runs.map(|hidden| decoder.final_norm(hidden)).collect();
        (self.full.map(|hidden| decoder.final_norm(hidden)), runs)
    }
}
