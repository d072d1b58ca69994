//! From which risk on a step is corrected (**ours**): by a target rate of corrections, or of missed drift.

use serde::{Deserialize, Serialize};

/// What a threshold is chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Share of all steps that are corrected.
    TriggerRate(f64),
    /// Share of the drifted steps that may go uncorrected, by split conformal prediction: it holds on average over
    /// calibration sets for steps that are exchangeable with those of the calibration set.
    MissedDrift(f64),
}

/// A threshold, and what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// A step of this risk or more is corrected.
    pub risk: f64,
    /// What it was chosen for.
    #[serde(with = "serde_yaml::with::singleton_map")]
    pub policy: Policy,
    /// Calibration positions.
    pub positions: usize,
    /// Drifted ones among them.
    pub positives: usize,
}

impl Threshold {
    /// Chooses on calibration positions, given each one's risk and whether it has drifted.
    ///
    /// Where there are too few drifted steps for the rate asked for, every step is corrected, which keeps the
    /// promise; [`warning`](Self::warning) says so.
    pub fn choose(policy: Policy, risks: &[f64], drifted: &[bool]) -> Self {
        let positive = |(risk, &drifted): (&f64, &bool)| drifted.then_some(*risk);
        let mut positives: Vec<f64> = risks.iter().zip(drifted).filter_map(positive).collect();
        positives.sort_by(f64::total_cmp);
        let risk = match policy {
            Policy::TriggerRate(rate) => quantile(risks, rate),
            Policy::MissedDrift(alpha) => match missed(positives.len(), alpha) {
                0 => 0.0,
                rank => positives[rank - 1],
            },
        };
        Self { risk, policy, positions: risks.len(), positives: positives.len() }
    }

    /// The risk that the given share of steps reaches.
    pub fn reaching(risks: &[f64], share: f64) -> f64 {
        quantile(risks, share)
    }

    /// Why the rate that was asked for does not decide.
    pub fn warning(&self) -> Option<String> {
        let Policy::MissedDrift(alpha) = self.policy else { return None };
        if missed(self.positives, alpha) > 0 {
            return None;
        }
        Some(format!(
            "{} drifted steps among {} calibration positions are too few to miss at most {alpha} of them, expected at \
             least {}: every step will be corrected",
            self.positives,
            self.positions,
            needed(alpha)
        ))
    }
}

/// Rank, from 1, of the drifted step whose risk is the threshold: ⌊α (n + 1)⌋; 0 where n is too small.
///
/// A new drifted step then has less risk with probability of at most α.
fn missed(positives: usize, alpha: f64) -> usize {
    let rank = alpha * (positives as f64 + 1.0);
    // 0.1 · 10 is 1, whatever binary fractions make of it.
    ((rank + 1e-9).floor().max(0.0) as usize).min(positives)
}

/// The fewest drifted steps at which a rate can be promised: 1/α − 1.
fn needed(alpha: f64) -> usize {
    (1.0 / alpha.max(1e-9) - 1.0 - 1e-9).ceil().max(1.0) as usize
}

/// The risk that the given share of steps reaches.
fn quantile(risks: &[f64], share: f64) -> f64 {
    let mut sorted = risks.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let count = (share * sorted.len() as f64).round() as usize;
    match count {
        0 => f64::MAX,
        count if count >= sorted.len() => 0.0,
        count => sorted[count - 1],
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "thresholds are risks as they were given")]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_rate_is_met_on_the_calibration_positions() {
        let risks = [0.9, 0.1, 0.5, 0.7];
        let found = Threshold::choose(Policy::TriggerRate(0.5), &risks, &[true; 4]);
        assert_eq!(found.risk, 0.7);
        assert_eq!(Threshold::choose(Policy::TriggerRate(1.0), &risks, &[true; 4]).risk, 0.0);
        assert!(Threshold::choose(Policy::TriggerRate(0.0), &risks, &[true; 4]).risk > 1.0);
    }

    #[test]
    fn nine_drifted_steps_are_the_fewest_for_a_tenth() {
        let risks: Vec<f64> = (1..=12).map(|i| f64::from(i) / 20.0).collect();
        let drifted: Vec<bool> = (0..12).map(|i| i < 9).collect();
        let found = Threshold::choose(Policy::MissedDrift(0.1), &risks, &drifted);
        assert_eq!((found.risk, found.positives, found.warning()), (0.05, 9, None));
        let few = Threshold::choose(Policy::MissedDrift(0.1), &risks[..8], &drifted[..8]);
        assert_eq!(few.risk, 0.0);
        let warning = few.warning().expect("too few");
        assert!(warning.contains("8 drifted steps") && warning.contains("at least 9"), "{warning}");
    }

    #[test]
    fn a_conformal_threshold_misses_as_rarely_as_it_promises() {
        use rand::{Rng, SeedableRng};
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        let mut missed = 0;
        const TRIALS: usize = 4000;
        for _ in 0..TRIALS {
            let risks: Vec<f64> = (0..30).map(|_| random.random::<f64>()).collect();
            let threshold = Threshold::choose(Policy::MissedDrift(0.2), &risks, &[true; 30]);
            missed += usize::from(random.random::<f64>() < threshold.risk);
        }
        let rate = missed as f64 / TRIALS as f64;
        // 6/31 expected; three deviations of the mean of 4,000 draws are 0.019.
        assert!((rate - 6.0 / 31.0).abs() < 0.019, "{rate}");
    }
}
