use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Tally;
use super::reference::Reference;
use crate::cache::{Simulation, Units};
use crate::model::{Decoder, DecoderBackend, ModelError};
use crate::parallel::in_order;
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
        let shelves: Vec<Shelf<'_, B>> =
            self.documents.iter().map(|document| Shelf::new(document, maps.len())).collect();
        // Document by document, so that few references are alive at once.
        let tallies = in_order(self.threads, maps.len() * shelves.len(), |unit| {
            let (shelf, map) = (&shelves[unit / maps.len()], &maps[unit % maps.len()]);
            if observer.interrupted() {
                return Err(ScoreError::Interrupted);
            }
            let tally = self.tally(&shelf.take(self.decoder), map)?;
            shelf.give_back();
            observer.advance(1);
            Ok(tally)
        })?;
        let of_map = |map| tallies.iter().skip(map).step_by(maps.len()).copied().collect();
        Ok((0..maps.len()).map(of_map).collect())
    }

    fn tally(&self, reference: &Reference<'_, B>, map: &PrecisionMap) -> Result<Tally, ScoreError> {
        let first = map.first_quantized().map_or(0, |layer| layer.0);
        let hidden = reference.state(self.decoder, first)?;
        let units = Units::prompt(reference.prompt_len(), self.simulation.scheme().prefill);
        let mut caches = self.simulation.caches(map, first, &units).map_err(ModelError::from)?;
        let hidden = self.decoder.forward_from(first, hidden, &mut caches)?;
        Ok(reference.tally(self.decoder, hidden))
    }
}

/// Holds a document's reference from its first use to its last.
struct Shelf<'a, B: DecoderBackend> {
    document: &'a Document,
    left: AtomicUsize,
    reference: Mutex<Option<Arc<Reference<'a, B>>>>,
}

impl<'a, B: DecoderBackend> Shelf<'a, B> {
    fn new(document: &'a Document, uses: usize) -> Self {
        Self { document, left: AtomicUsize::new(uses), reference: Mutex::new(None) }
    }

    /// The reference, computed by whoever comes first while the others wait.
    fn take(&self, decoder: &Decoder<B>) -> Arc<Reference<'a, B>> {
        let mut reference = self.reference.lock().expect("computing a reference does not panic");
        Arc::clone(reference.get_or_insert_with(|| Arc::new(Reference::new(decoder, self.document))))
    }

    fn give_back(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.reference.lock().expect("computing a reference does not panic").take();
        }
    }
}
