//! Searchers over a space, on one ask/tell interface.
//!
//! A [`Problem`] says what there is to choose and what it costs; a [`Search`] proposes [`Genome`]s
//! ([`Searcher::ask`]) and learns their losses ([`Searcher::tell`]). It knows no model: whoever drives it evaluates,
//! in parallel and in any order, shows progress and saves. All algorithms share the budget (distinct genomes), the
//! memo (nothing is evaluated twice) and the [`Archive`], so that they can be compared in one run.
//!
//! Same seed, same front: a generation is asked as one batch, and the state moves on only when all of it has been
//! told, in the order asked. So the number of workers cannot change a result, nor can a kill: ask again from the
//! start and answer from the rows already written ([`replay`]), or go on from the serialized state.

mod additive;
mod algorithm;
mod archive;
mod engine;
mod error;
mod feasible;
mod moead;
mod nsga2;
mod problem;
mod refine;
mod rules;
mod saved;
mod surrogate;
mod variation;
mod weights;

use serde::{Deserialize, Serialize};

pub use additive::{LossTable, additive_front};
pub use algorithm::{Algorithm, SearchOptions};
pub use archive::Archive;
pub use engine::{Search, replay};
pub use error::SearchError;
pub use moead::{MoeadParams, MoeadParamsError, MoeadValidParams};
pub use problem::{Additive, Limit, Problem};

pub use crate::space::Genome;

/// What a search minimizes: one point of the front.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objectives {
    /// Equivalent bits; known before a genome is evaluated.
    pub bits: f64,
    /// Loss against the same model with a full-precision cache, in the objective's unit.
    pub loss: f64,
}

impl Objectives {
    /// As `space::dominates` takes it.
    pub fn point(self) -> (f64, f64) {
        (self.bits, self.loss)
    }

    fn is_finite(self) -> bool {
        self.bits.is_finite() && self.loss.is_finite()
    }

    /// Whether any figure differs.
    fn differs_from(self, other: Self) -> bool {
        self.point() != other.point()
    }
}

/// Proposes genomes and learns from what they turn out to be.
pub trait Searcher {
    /// The next batch to evaluate.
    ///
    /// Empty while an earlier batch is not fully told (a pending genome is never asked again), and for good once the
    /// search [is done](Searcher::is_done).
    fn ask(&mut self) -> Vec<Genome>;

    /// Takes results in any order and number; those of genomes that are not pending are passed over.
    ///
    /// A loss that is no number counts as infinite; bits are the problem's own, whatever is told.
    fn tell(&mut self, evaluated: &[(Genome, Objectives)]);

    /// Whether nothing more will be asked: the budget is spent, or the algorithm has nothing left to try.
    fn is_done(&self) -> bool;

    /// The non-dominated points told so far (whole batches only).
    fn archive(&self) -> &Archive;

    /// Distinct genomes evaluated so far (whole batches only).
    fn evaluated(&self) -> usize;
}

#[cfg(test)]
mod contract;
#[cfg(test)]
mod golden;
