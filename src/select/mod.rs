//! Which map of a front to take: scores on documents that the search never saw, with their uncertainty.
//!
//! A search takes the best of many noisy scores, so its own figures are too good. The front is scored again on the
//! select split ([`estimate`]); chosen is the map of fewest bits whose loss is within the limit even at its upper
//! bound ([`choose`]), and, per bit budget, the one of least loss ([`best_within`]). What is reported is the chosen
//! map's loss on a third split, read once. All of it is **ours**: KVTuner reports the scores it searched on.

mod accuracy;
mod bootstrap;
mod choose;
mod recovery;

pub use accuracy::{Accuracy, Difference, accuracy, difference, least_detectable, mcnemar};
pub use bootstrap::{Bootstrap, DocumentLoss, Estimate, FEWEST_DOCUMENTS, estimate, paired};
pub use choose::{BIT_BUDGETS, Choice, Scored, best_within, choose};
pub use recovery::{LEAST_FULL, LEAST_LOSS, Recovery, recovery};

/// Why scores per document cannot be compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SelectError {
    /// Nothing to estimate from.
    #[error("map {map} was scored on no document, expected at least one")]
    NoDocuments {
        /// The map's place in the list, from 0.
        map: usize,
    },
    /// Maps scored on different documents.
    #[error("map {map} was scored on {found} documents, but the first map on {expected}")]
    Documents {
        /// The map's place in the list, from 0.
        map: usize,
        /// Its documents.
        found: usize,
        /// Those of the first map (or of full precision).
        expected: usize,
    },
    /// Maps scored on different positions of a document.
    #[error(
        "map {map} was scored on {found} positions of document {document}, but the first map on {expected}"
    )]
    Positions {
        /// The map's place in the list, from 0.
        map: usize,
        /// The document, from 0.
        document: usize,
        /// Its positions.
        found: u64,
        /// Those of the first map (or of full precision).
        expected: u64,
    },
    /// A document that says nothing.
    #[error("document {document} has no position to score")]
    Empty {
        /// The document, from 0.
        document: usize,
    },
    /// A loss that is no number.
    #[error("the loss of map {map} on document {document} is {found}, expected a finite number")]
    Loss {
        /// The map's place in the list, from 0.
        map: usize,
        /// The document, from 0.
        document: usize,
        /// What was found.
        found: f64,
    },
    /// No resamples to take quantiles of.
    #[error("`resamples` is {found}, expected at least 40 for a 95 % interval")]
    Resamples {
        /// What was found.
        found: usize,
    },
}
