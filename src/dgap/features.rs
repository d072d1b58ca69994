//! What the heads see of a step: figures of the quantized logits alone (**ours**).
//!
//! All are made from margins to the largest logit, so a constant added to every logit changes none of them.

use std::ops::Range;

/// A gap below these counts as close.
const CLOSE: [f32; 5] = [0.05, 0.1, 0.25, 0.5, 1.0];
/// Largest probability, lead, entropy of the candidates and of all tokens, mass outside, first gap.
const SUMMARY: usize = 6;

/// The features of one step with K candidates, and their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    k: usize,
}

/// The steps before, of one sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct History {
    sums: [f64; SUMMARY],
    steps: u32,
}

/// One step as the features need it.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Logits of the candidates less the largest, largest first: `[K]`.
    pub margins: &'a [f32],
    /// log Σ exp of all logits, less the largest.
    pub log_sum: f32,
    /// Entropy of the whole distribution, nats.
    pub entropy: f32,
    /// Tokens so far.
    pub length: u32,
}

impl Features {
    /// Features of `k` candidates, at least 2.
    pub fn new(k: usize) -> Self {
        Self { k }
    }

    /// How many there are.
    pub fn width(self) -> usize {
        2 * (self.k - 1) + CLOSE.len() + 2 * SUMMARY + 1
    }

    /// Where the margins stand.
    pub fn margins(self) -> Range<usize> {
        0..self.k - 1
    }

    /// One name a feature, in their order.
    pub fn names(self) -> Vec<String> {
        let ranks = |what: &str| (2..=self.k).map(|rank| format!("{what}_{rank}")).collect::<Vec<_>>();
        let close = CLOSE.iter().map(|limit| format!("gaps_below_{limit}"));
        let summary =
            ["p_1", "lead", "entropy_candidates", "entropy_all", "mass_outside", "gap_1"].map(String::from);
        let running = summary.clone().map(|name| format!("mean_{name}"));
        let names = ranks("margin").into_iter().chain(ranks("gap")).chain(close);
        names.chain(summary).chain(running).chain([String::from("log_length")]).collect()
    }

    /// The features of a step, which then is one of the steps before.
    pub fn of(self, step: &Step<'_>, history: &mut History) -> Vec<f32> {
        let gaps: Vec<f32> = step.margins.windows(2).map(|pair| pair[0] - pair[1]).collect();
        let summary = summary(step, &gaps);
        let mut features: Vec<f32> = step.margins[1..].iter().map(|&margin| -margin).collect();
        features.extend(&gaps);
        features.extend(CLOSE.map(|limit| gaps.iter().filter(|&&gap| gap < limit).count() as f32));
        features.extend(summary);
        features.extend(history.means(&summary));
        features.push((step.length as f32).ln_1p());
        history.add(&summary);
        features
    }
}

impl History {
    /// Means over the steps before; at the first step there is none but itself.
    fn means(&self, now: &[f32; SUMMARY]) -> [f32; SUMMARY] {
        match self.steps {
            0 => *now,
            steps => self.sums.map(|sum| (sum / f64::from(steps)) as f32),
        }
    }

    fn add(&mut self, now: &[f32; SUMMARY]) {
        self.sums.iter_mut().zip(now).for_each(|(sum, &value)| *sum += f64::from(value));
        self.steps += 1;
    }
}

fn summary(step: &Step<'_>, gaps: &[f32]) -> [f32; SUMMARY] {
    let log_sum = f64::from(step.log_sum);
    let p: Vec<f64> = step.margins.iter().map(|&margin| (f64::from(margin) - log_sum).exp()).collect();
    let inside: f64 = p.iter().sum();
    let entropy: f64 = p.iter().map(|p| p / inside).map(|p| if p > 0.0 { -p * p.ln() } else { 0.0 }).sum();
    [p[0] as f32, (p[0] - p[1]) as f32, entropy as f32, step.entropy, (1.0 - inside).max(0.0) as f32, gaps[0]]
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "gaps of powers of two are exact")]
mod tests {
    use super::*;

    /// Probabilities 1/2, 1/4, 1/8 and 1/8 outside.
    fn step(margins: &[f32; 3]) -> Step<'_> {
        Step { margins, log_sum: 2_f32.ln(), entropy: 1.2, length: 9 }
    }

    fn by_hand() -> [f32; 3] {
        [0.0, -(2_f32.ln()), -(4_f32.ln())]
    }

    #[test]
    fn features_by_hand() {
        let features = Features::new(3);
        let found = features.of(&step(&by_hand()), &mut History::default());
        assert_eq!(found.len(), features.width());
        assert_eq!(features.names().len(), features.width());
        let ln2 = 2_f32.ln();
        let expected = [
            [ln2, 2.0 * ln2, ln2, ln2].as_slice(),
            &[0.0, 0.0, 0.0, 0.0, 2.0],
            // Shares 4/7, 2/7, 1/7 inside.
            &[0.5, 0.25, 0.955_7, 1.2, 0.125, ln2],
            &[0.5, 0.25, 0.955_7, 1.2, 0.125, ln2],
            &[10_f32.ln()],
        ]
        .concat();
        for ((found, expected), name) in found.iter().zip(expected).zip(features.names()) {
            assert!((found - expected).abs() < 1e-3, "{name}: {found} for {expected}");
        }
    }

    #[test]
    fn running_means_are_over_the_steps_before() {
        let features = Features::new(3);
        let mut history = History::default();
        let flat = [0.0, 0.0, 0.0];
        features.of(&step(&by_hand()), &mut history);
        features.of(&step(&flat), &mut history);
        let third = features.of(&step(&flat), &mut history);
        let gap = features.names().iter().position(|name| name == "mean_gap_1").expect("a feature");
        assert!((third[gap] - 2_f32.ln() / 2.0).abs() < 1e-6);
    }
}
