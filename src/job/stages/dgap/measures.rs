use super::more::source;
use crate::dgap::{Examples, Loaded, Traced};
use crate::model::DecoderBackend;
use crate::trace::Split;

/// Which documents heads are trained, held to and judged on (**ours**): `search` trains; of `select`, every other
/// document says when to stop and the others calibrate the threshold, what was made of a prompt going where its
/// document goes; `test` is only read for the figures.
pub(super) struct Splits {
    pub(super) train: Vec<usize>,
    pub(super) held_out: Vec<usize>,
    pub(super) calibration: Vec<usize>,
    pub(super) test: Vec<usize>,
}

impl Splits {
    pub(super) fn of(traced: &Traced) -> Self {
        let of = |split: Split| traced.documents(|entry| entry.split == split);
        let id = |document: usize| &traced.meta.documents[document].id[..];
        let select = of(Split::Select);
        let sources: Vec<&str> =
            select.iter().map(|&document| id(document)).filter(|id| source(id) == *id).collect();
        let place = |document: usize| sources.iter().position(|own| *own == source(id(document)));
        let is_even = |&document: &usize| place(document).is_some_and(|at| at.is_multiple_of(2));
        let (held_out, calibration) = select.into_iter().partition(is_even);
        Self { train: of(Split::Search), held_out, calibration, test: of(Split::Test) }
    }
}

/// Positions that heads are applied to at a time.
const CHUNK: usize = 256;

/// The risk of each example.
pub(super) fn risks<B: DecoderBackend>(heads: &Loaded<'_, B>, examples: &Examples<'_>) -> Vec<f64> {
    chunked(examples.len(), |indices| heads.risks(&examples.rows(indices, false)))
}

/// What each candidate of each example gains: `[n, K]`.
pub(super) fn shifts<B: DecoderBackend>(heads: &Loaded<'_, B>, examples: &Examples<'_>) -> Vec<f32> {
    chunked(examples.len(), |indices| heads.shifts(&examples.rows(indices, heads.reads_hidden())))
}

fn chunked<T>(count: usize, of: impl Fn(&[usize]) -> Vec<T>) -> Vec<T> {
    let all: Vec<usize> = (0..count).collect();
    all.chunks(CHUNK).flat_map(of).collect()
}
