//! How far a quantized step is from full precision, and how far a correction of it still is.
//!
//! The paper does not define its drift, so several are measured (**ours**), each over two partitions of the tokens:
//! the K candidates and one bin for all others, which is what a corrector can act on and what it is trained for; and
//! the whole vocabulary. For the latter the candidates of either run stand alone, the other tokens are one bin, and
//! what that bin hides was measured when the sheet was made. It is exact where the probability of the bin is
//! unchanged, as it is for every corrector that keeps the mass of its candidates.

use super::sheet::Position;

/// By how much drift has to grow for a correction to count as harm, bits.
pub const HARM: f64 = 1e-3;

/// New logits of the first K candidates, relative to the largest quantized logit, and what all others gain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Correction {
    /// Logits of the K candidates, in their order.
    pub logits: Vec<f64>,
    /// Added to the logit of every other token.
    pub rest: f64,
}

impl Correction {
    /// Nothing changes.
    pub fn none(position: &Position<'_>, k: usize) -> Self {
        Self { logits: position.logits[..k].iter().map(|&z| f64::from(z)).collect(), rest: 0.0 }
    }

    /// A shift on each of the first candidates.
    pub fn shifted(position: &Position<'_>, shift: &[f32]) -> Self {
        let logits = position.logits.iter().zip(shift).map(|(&z, &shift)| f64::from(z) + f64::from(shift));
        Self { logits: logits.collect(), rest: 0.0 }
    }
}

/// How far two distributions are from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distance {
    /// Jensen–Shannon divergence, bits: 0 to 1.
    pub js: f64,
    /// Total variation: 0 to 1.
    pub tv: f64,
    /// KL(full ‖ corrected), nats.
    pub kl: f64,
}

impl Distance {
    /// Of probabilities `(full, corrected)`.
    fn of(pairs: &[(f64, f64)]) -> Self {
        let sum = |term: fn(f64, f64) -> f64| pairs.iter().map(|&(p, q)| term(p, q)).sum::<f64>();
        Self { js: sum(js_term), tv: sum(|p, q| (p - q).abs() / 2.0), kl: sum(kl_term).max(0.0) }
    }
}

/// The drift of one position.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Drift {
    /// Over the K candidates and one bin for all other tokens.
    pub bins: Distance,
    /// Over the whole vocabulary.
    pub whole: Distance,
    /// Whether the most likely token is another one.
    pub flip: bool,
    /// Share of the pairs of candidates whose order is not that of full precision.
    pub inversion: f64,
    /// −log p of the next token of the trace, nats.
    pub nll: f64,
}

/// The drift that is left after a correction of the first K candidates.
pub fn drift(position: &Position<'_>, correction: &Correction) -> Drift {
    let bins = Bins::new(position, correction);
    let row = &position.row;
    let listed = Distance::of(&bins.pairs);
    let whole = Distance {
        js: listed.js + f64::from(row.js_rest),
        tv: listed.tv + f64::from(row.tv_rest),
        kl: (listed.kl + f64::from(row.kl_rest)).max(0.0),
    };
    Drift {
        bins: Distance::of(&with_rest(bins.pairs[..correction.logits.len()].to_vec())),
        whole,
        flip: bins.most_likely != position.full_ids[0],
        inversion: inversion(&correction.logits, position.full),
        nll: bins.log_sum - bins.next,
    }
}

/// Share of the `k` most likely full-precision tokens that are among the first `of` candidates.
pub fn containment(position: &Position<'_>, k: usize, of: usize) -> f64 {
    let top = &position.full_ids[..k.min(position.full_ids.len())];
    let candidates = &position.ids[..of.min(position.ids.len())];
    top.iter().filter(|id| candidates.contains(id)).count() as f64 / top.len().max(1) as f64
}

/// One token's share of the Jensen–Shannon divergence, bits.
pub(super) fn js_term(p: f64, q: f64) -> f64 {
    let middle = (p + q) / 2.0;
    let half = |share: f64| if share > 0.0 { share / 2.0 * (share / middle).log2() } else { 0.0 };
    half(p) + half(q)
}

/// One token's share of KL(p ‖ q), nats; a probability that underflowed counts as the smallest there is.
pub(super) fn kl_term(p: f64, q: f64) -> f64 {
    if p > 0.0 { p * (p / q.max(f64::MIN_POSITIVE)).ln() } else { 0.0 }
}

/// Share of pairs `i < j` that one list orders strictly and the other does not, or the other way round.
fn inversion(corrected: &[f64], full: &[f32]) -> f64 {
    let (mut inverted, mut ordered) = (0_u32, 0_u32);
    for i in 0..corrected.len() {
        for j in i + 1..corrected.len() {
            let theirs = full[i].total_cmp(&full[j]);
            if theirs.is_ne() {
                ordered += 1;
                inverted += u32::from(corrected[i].total_cmp(&corrected[j]) != theirs);
            }
        }
    }
    f64::from(inverted) / f64::from(ordered.max(1))
}

/// Probabilities of some tokens, and what is missing to 1 behind them.
fn with_rest(mut pairs: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let sums = pairs.iter().fold((0.0, 0.0), |sums, pair| (sums.0 + pair.0, sums.1 + pair.1));
    pairs.push(((1.0 - sums.0).max(0.0), (1.0 - sums.1).max(0.0)));
    pairs
}

/// Probabilities of the tokens that are listed and of all others together.
struct Bins {
    /// `(full, corrected)`, the rest last.
    pairs: Vec<(f64, f64)>,
    most_likely: u32,
    log_sum: f64,
    /// Corrected logit of the next token.
    next: f64,
}

impl Bins {
    fn new(position: &Position<'_>, correction: &Correction) -> Self {
        let row = &position.row;
        let k = correction.logits.len();
        let other = |z: f32| f64::from(z) + correction.rest;
        let logit = |rank: usize| match correction.logits.get(rank) {
            Some(&logit) => logit,
            None => other(position.logits[rank]),
        };
        let log_sum = log_sum(position, correction);
        let full = |z: f32| (f64::from(z) - f64::from(row.full_log_sum)).exp();
        let mut pairs: Vec<(f64, f64)> = Vec::with_capacity(2 * position.ids.len() + 1);
        pairs.extend(
            position.full.iter().enumerate().map(|(rank, &z)| (full(z), (logit(rank) - log_sum).exp())),
        );
        for (at, _) in position.full_ids.iter().enumerate().filter(|(_, id)| !position.ids.contains(id)) {
            let corrected = (other(position.full_quantized[at]) - log_sum).exp();
            pairs.push((full(position.full_logits[at]), corrected));
        }
        let pairs = with_rest(pairs);
        let best = (0..position.ids.len())
            .max_by(|&a, &b| logit(a).total_cmp(&logit(b)).then(position.ids[b].cmp(&position.ids[a])));
        let rank = position.ids[..k].iter().position(|&id| id == row.next);
        Self {
            pairs,
            most_likely: best.map_or(0, |rank| position.ids[rank]),
            log_sum,
            next: rank.map_or(other(row.next_logit), logit),
        }
    }
}

/// log Σ exp over the whole vocabulary after a correction.
fn log_sum(position: &Position<'_>, correction: &Correction) -> f64 {
    let all = f64::from(position.row.log_sum).exp();
    let before: f64 = position.logits[..correction.logits.len()].iter().map(|&z| f64::from(z).exp()).sum();
    let after: f64 = correction.logits.iter().map(|&z| z.exp()).sum();
    (after + correction.rest.exp() * (all - before).max(0.0)).ln()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::sheet::Sheet;
    use super::*;

    /// Logits whose probabilities are the given ones.
    pub(in crate::dgap) fn sheet(quantized: &[f32], full: &[f32], held: usize) -> Sheet {
        let mut sheet = Sheet::new(held);
        let logits = |shares: &[f32]| shares.iter().map(|share| share.ln()).collect::<Vec<_>>();
        sheet.push(&logits(quantized), &logits(full), 5, 0);
        sheet
    }

    const Q: [f32; 6] = [0.4, 0.3, 0.1, 0.1, 0.06, 0.04];
    const P: [f32; 6] = [0.25, 0.5, 0.05, 0.12, 0.03, 0.05];

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
    }

    #[test]
    fn drift_is_that_of_the_whole_vocabulary_however_few_candidates_are_held() {
        let (p, q): (Vec<f64>, Vec<f64>) = (P.map(f64::from).to_vec(), Q.map(f64::from).to_vec());
        let js: f64 = p.iter().zip(&q).map(|(&p, &q)| js_term(p, q)).sum();
        let kl: f64 = p.iter().zip(&q).map(|(&p, &q)| p * (p / q).ln()).sum();
        let tv: f64 = p.iter().zip(&q).map(|(&p, &q)| (p - q).abs() / 2.0).sum();
        for held in [2, 3, 6] {
            let sheet = sheet(&Q, &P, held);
            let found = drift(&sheet.position(0), &Correction::none(&sheet.position(0), 2));
            near(found.whole.js, js);
            near(found.whole.kl, kl);
            near(found.whole.tv, tv);
            near(found.nll, -(0.4_f64.ln()));
            assert!(found.flip);
        }
    }

    #[test]
    fn a_corrector_answers_for_its_candidates_and_the_mass_of_the_others_alone() {
        // The two candidates hold 0.4 and 0.3 of the quantized mass, 0.25 and 0.5 of the other.
        let expected = js_term(0.25, 0.4) + js_term(0.5, 0.3) + js_term(0.25, 0.3);
        for held in [2, 6] {
            let sheet = sheet(&Q, &P, held);
            let found = drift(&sheet.position(0), &Correction::none(&sheet.position(0), 2)).bins;
            near(found.js, expected);
            near(found.tv, (0.15 + 0.2 + 0.05) / 2.0);
        }
    }

    #[test]
    fn one_bit_of_drift_is_the_most_there_is() {
        near(js_term(1.0, 0.0) + js_term(0.0, 1.0), 1.0);
        near(js_term(0.5, 0.5), 0.0);
    }

    #[test]
    fn a_pair_in_the_wrong_order_is_an_inversion() {
        // Candidates 0, 1, 2 by quantized logits; full precision has 1 before 0 before 2.
        let sheet = sheet(&Q, &P, 3);
        let position = sheet.position(0);
        near(drift(&position, &Correction::none(&position, 3)).inversion, 1.0 / 3.0);
        near(drift(&position, &Correction::none(&position, 2)).inversion, 1.0);
    }

    #[test]
    fn containment_counts_the_favorites_of_full_precision() {
        let sheet = sheet(&[0.4, 0.3, 0.2, 0.1], &[0.1, 0.2, 0.3, 0.4], 4);
        let position = sheet.position(0);
        near(containment(&position, 1, 2), 0.0);
        near(containment(&position, 2, 3), 0.5);
        near(containment(&position, 4, 4), 1.0);
    }

    #[test]
    fn a_correction_to_full_precision_leaves_nothing() {
        let sheet = sheet(&Q, &P, 6);
        let position = sheet.position(0);
        let logits = position.full.iter().map(|&z| f64::from(z) + 3.0).collect();
        let found = drift(&position, &Correction { logits, rest: 0.0 });
        near(found.whole.js, 0.0);
        near(found.bins.kl, 0.0);
        near(found.nll, -(0.25_f64.ln()));
        assert!(!found.flip && found.inversion < 1e-12);
    }
}
