//! Figures of a corrector over many positions.

use super::drift::{Correction, Distance, Drift, HARM, containment, drift};
use super::examples::Examples;
use super::oracle::{Oracle, oracle};
use super::sheet::Position;

/// Means over positions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Over the candidates and one bin for all other tokens.
    pub bins: Distance,
    /// Over the whole vocabulary.
    pub whole: Distance,
    /// Share of flips.
    pub flips: f64,
    /// Share of inverted pairs.
    pub inversion: f64,
    /// exp of the mean negative log-likelihood.
    pub perplexity: f64,
    /// Share of positions whose drift over candidates and rest grew.
    pub harm: f64,
}

impl Figures {
    /// Of the drift `after` corrections, against that `before`.
    pub fn of(before: &[Drift], after: &[Drift]) -> Self {
        let n = after.len().max(1) as f64;
        let mean = |value: fn(&Drift) -> f64| after.iter().map(value).sum::<f64>() / n;
        let distance = |of: fn(&Drift) -> Distance| {
            let sum = after.iter().map(of).fold(Distance::default(), |sum, one| Distance {
                js: sum.js + one.js,
                tv: sum.tv + one.tv,
                kl: sum.kl + one.kl,
            });
            Distance { js: sum.js / n, tv: sum.tv / n, kl: sum.kl / n }
        };
        let harmed = before.iter().zip(after).filter(|(before, after)| after.bins.js - before.bins.js > HARM);
        Self {
            bins: distance(|drift| drift.bins),
            whole: distance(|drift| drift.whole),
            flips: mean(|drift| f64::from(u8::from(drift.flip))),
            inversion: mean(|drift| drift.inversion),
            perplexity: mean(|drift| drift.nll).exp(),
            harm: harmed.count() as f64 / n,
        }
    }
}

/// The drift of each example as it is.
pub fn uncorrected(examples: &Examples<'_>) -> Vec<Drift> {
    each(examples, |_, position| drift(position, &Correction::none(position, examples.top_k())))
}

/// The drift that an oracle leaves of each example.
pub fn with_oracle(examples: &Examples<'_>, form: Oracle) -> Vec<Drift> {
    each(examples, |_, position| drift(position, &oracle(position, examples.top_k(), form)))
}

/// The drift that is left of each example when its candidates gain `shifts`, `[n, K]`.
pub fn corrected(examples: &Examples<'_>, shifts: &[f32]) -> Vec<Drift> {
    let k = examples.top_k();
    each(examples, |index, position| {
        drift(position, &Correction::shifted(position, &shifts[index * k..(index + 1) * k]))
    })
}

/// The drift where only steps of at least a risk are corrected.
pub fn gated(before: &[Drift], after: &[Drift], risks: &[f64], threshold: f64) -> Vec<Drift> {
    let pick =
        |((before, after), &risk): ((&Drift, &Drift), &f64)| if risk >= threshold { *after } else { *before };
    before.iter().zip(after).zip(risks).map(pick).collect()
}

/// Mean share of full precision's 1, 5 and 10 most likely tokens that are among the candidates.
pub fn contained(examples: &Examples<'_>) -> [f64; 3] {
    [1, 5, 10].map(|top| {
        let shares = each(examples, |_, position| containment(position, top, examples.top_k()));
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    })
}

fn each<T>(examples: &Examples<'_>, of: impl Fn(usize, &Position<'_>) -> T) -> Vec<T> {
    let places = examples.places.iter().enumerate();
    places
        .map(|(index, &(document, position))| {
            of(index, &examples.traced().sheet(document).position(position))
        })
        .collect()
}
