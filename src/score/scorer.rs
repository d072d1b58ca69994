use super::Tally;
use super::reference::{Reference, scored_tokens};
use super::side::Side;
use crate::cache::{CacheKind, Simulation, Units};
use crate::model::{Decoder, DecoderBackend, LayerWork, ModelError, OpenLayer};
use crate::precision::PrecisionMap;
use crate::progress::Observer;
use crate::trace::Document;

/// Why scoring stopped.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// The model's or a cache's complaint.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The observer asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Scores precision maps of one model and scheme on some documents of a trace.
pub struct Scorer<'a, B: DecoderBackend> {
    decoder: &'a Decoder<B>,
    simulation: &'a Simulation,
    documents: Vec<&'a Document>,
    threads: usize,
}

impl<'a, B: DecoderBackend> Scorer<'a, B> {
    /// A scorer that runs up to `threads` (map, document) pairs at a time.
    pub fn new(
        decoder: &'a Decoder<B>,
        simulation: &'a Simulation,
        documents: Vec<&'a Document>,
        threads: usize,
    ) -> Self {
        Self { decoder, simulation, documents, threads }
    }

    /// The documents, in the order of a row of [`evaluate`](Self::evaluate)'s result.
    pub fn documents(&self) -> &[&'a Document] {
        &self.documents
    }

    /// One row a map, one tally a document. The observer hears one step for each.
    ///
    /// # Errors
    /// [`ScoreError`]; nothing of the batch is kept then.
    pub fn evaluate(
        &self,
        maps: &[PrecisionMap],
        observer: &dyn Observer,
    ) -> Result<Vec<Vec<Tally>>, ScoreError> {
        let parts = parts(self.documents.len(), maps.len(), self.threads);
        let work = Scoring { scorer: self, maps, parts, observer };
        let tallies = self.decoder.walk(&work, self.documents.len() * parts, self.threads)?.concat();
        let of_map = |map| tallies.iter().skip(map).step_by(maps.len()).copied().collect();
        Ok((0..maps.len()).map(of_map).collect())
    }
}

/// Into how many units the maps of one document are cut: each runs full precision once more where its maps need it,
/// so few, but enough that no thread waits long for the others at the end.
fn parts(documents: usize, maps: usize, threads: usize) -> usize {
    const UNITS_A_THREAD: usize = 4;
    (UNITS_A_THREAD * threads).div_ceil(documents.max(1)).clamp(1, maps.max(1))
}

/// A unit is one document and a part of the maps.
struct Scoring<'a, B: DecoderBackend> {
    scorer: &'a Scorer<'a, B>,
    maps: &'a [PrecisionMap],
    /// Units of one document.
    parts: usize,
    observer: &'a dyn Observer,
}

impl<B: DecoderBackend> Scoring<'_, B> {
    fn document(&self, unit: usize) -> &Document {
        self.scorer.documents[unit / self.parts]
    }

    fn maps(&self, unit: usize) -> &[PrecisionMap] {
        let (part, all) = (unit % self.parts, self.maps.len());
        &self.maps[part * all / self.parts..(part + 1) * all / self.parts]
    }
}

impl<B: DecoderBackend> LayerWork<B> for Scoring<'_, B> {
    type State = Side<B>;
    type Output = Vec<Tally>;
    type Error = ScoreError;

    fn size(&self, unit: usize) -> usize {
        let tokens = scored_tokens(self.document(unit)).len();
        (1 + self.maps(unit).len()) * tokens * self.scorer.decoder.config().hidden_size
    }

    fn begin(&self, unit: usize) -> Result<Side<B>, ScoreError> {
        let Scorer { decoder, simulation, .. } = *self.scorer;
        let document = self.document(unit);
        let units = Units::prompt(document.prompt_len, simulation.scheme().prefill);
        Ok(Side::new(decoder, scored_tokens(document), units, self.maps(unit), CacheKind::Simulated))
    }

    fn layer(&self, layer: &OpenLayer<'_, B>, state: &mut Side<B>) -> Result<(), ScoreError> {
        let done = state.layer(layer, self.scorer.simulation, self.observer)?;
        self.observer.advance(done);
        Ok(())
    }

    fn end(&self, unit: usize, state: Side<B>) -> Result<Vec<Tally>, ScoreError> {
        let decoder = self.scorer.decoder;
        let reference = Reference::new(decoder, self.document(unit));
        let runs = state.finals(decoder).runs;
        Ok(runs.into_iter().map(|hidden| reference.tally(decoder, hidden)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_documents_are_cut_and_many_are_not() {
        assert_eq!(parts(4, 8, 2), 2);
        assert_eq!(parts(20, 8, 2), 1);
        assert_eq!(parts(1, 8, 16), 8, "no more parts than maps");
        assert_eq!(parts(0, 0, 2), 1);
    }
}
