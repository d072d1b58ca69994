use std::fmt;

use serde::{Deserialize, Serialize};

/// What a search minimizes next to bits: f_a of KVTuner's problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Share of positions whose most likely token differs from full precision.
    #[default]
    Flips,
    /// Mean KL(full ‖ quantized), nats a token, over the whole vocabulary.
    Kl,
    /// Mean negative log-likelihood of the continuation less that of full precision, nats a token.
    Nll,
    /// Score on questions, less than that of full precision: the paper's. Teacher forcing marks no answers; a
    /// [`Tally`] stands in for it with the likelihood, which tells apart maps that answer alike.
    Accuracy,
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Flips => "flips",
            Self::Kl => "kl",
            Self::Nll => "nll",
            Self::Accuracy => "accuracy",
        })
    }
}

/// One map on one document, as sums over its positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Scored positions.
    pub positions: u64,
    /// Positions whose most likely token differs from full precision.
    pub flips: u64,
    /// Σ KL(full ‖ quantized), nats.
    pub kl: f64,
    /// Σ −log p of the continuation's tokens, quantized, nats.
    pub nll: f64,
    /// The same at full precision.
    pub nll_full: f64,
}

impl Tally {
    /// The objective summed over positions; divide by `positions` for its mean.
    pub fn sum(&self, objective: Objective) -> f64 {
        match objective {
            Objective::Flips => self.flips as f64,
            Objective::Kl => self.kl,
            Objective::Nll | Objective::Accuracy => self.nll - self.nll_full,
        }
    }

    /// The objective, mean over positions.
    pub fn mean(&self, objective: Objective) -> f64 {
        self.sum(objective) / self.positions.max(1) as f64
    }

    /// Several documents as one: sums add up.
    pub fn pooled<'a>(tallies: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut pooled = Self::default();
        for tally in tallies {
            pooled.positions += tally.positions;
            pooled.flips += tally.flips;
            pooled.kl += tally.kl;
            pooled.nll += tally.nll;
            pooled.nll_full += tally.nll_full;
        }
        pooled
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "sums of quarters are exact")]
mod tests {
    use super::*;

    #[test]
    fn documents_pool_by_position() {
        let short = Tally { positions: 1, flips: 1, kl: 2.0, nll: 3.0, nll_full: 1.0 };
        let long = Tally { positions: 3, flips: 0, kl: 2.0, nll: 5.0, nll_full: 3.0 };
        let pooled = Tally::pooled([&short, &long]);
        assert_eq!(pooled.mean(Objective::Flips), 0.25);
        assert_eq!(pooled.mean(Objective::Kl), 1.0);
        assert_eq!(pooled.mean(Objective::Nll), 1.0);
    }
}
