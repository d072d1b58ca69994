//! Shares of right answers: how far to trust them, and whether two differ.

use super::bootstrap::{Bootstrap, DocumentLoss, estimate};
use super::{SelectError, paired};

/// Standard normal quantiles of a two-sided test at 5 % and of a power of 80 %, added.
const DETECTED: f64 = 1.959_964 + 0.841_621;
/// Answers that must change, all the same way, before the exact test at 5 % sees a difference: 2 / 2⁶ < 0.05.
const FEWEST_CHANGES: usize = 6;

/// A mean of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// Mean score, from 0 to 1.
    pub mean: f64,
    /// Its standard error: deviation of the scores (with n − 1) over √n; 0 for a single score.
    pub standard_error: f64,
}

/// The mean of some scores; of none, 0.
pub fn accuracy(scores: &[f64]) -> Accuracy {
    let n = scores.len() as f64;
    let mean = scores.iter().sum::<f64>() / n.max(1.0);
    Accuracy { mean, standard_error: deviation(scores) / n.max(1.0).sqrt() }
}

/// Standard deviation, with n − 1.
fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    if values.len() < 2 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
}

/// How the scores of two runs on the same items differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Mean difference: below 0 where the map is worse than full precision.
    pub mean: f64,
    /// Lower end of its two-sided 95 % interval, bootstrapped over items.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// Items on which the map scores higher.
    pub gained: usize,
    /// Items on which it scores lower.
    pub lost: usize,
    /// What [`mcnemar`] says of the two counts.
    pub p: f64,
    /// The smallest true difference that so many items as unlike each other as these would show at 5 % (two-sided) four
    /// times in five: 2.80 standard errors of the paired difference, and never less than [`least_detectable`].
    pub detectable: f64,
}

/// The scores of a map less those of full precision on the same items.
///
/// # Errors
/// Other items, no items, scores that are not finite, too few resamples.
pub fn difference(map: &[f64], full: &[f64], bootstrap: Bootstrap) -> Result<Difference, SelectError> {
    let losses = |scores: &[f64]| -> Vec<DocumentLoss> {
        scores.iter().map(|&sum| DocumentLoss { sum, positions: 1 }).collect()
    };
    let changes = paired(&losses(map), &losses(full))?;
    let found = estimate(std::slice::from_ref(&changes), bootstrap)?[0];
    let changes: Vec<f64> = changes.iter().map(|change| change.sum).collect();
    let count = |is_change: fn(f64) -> bool| changes.iter().filter(|&&change| is_change(change)).count();
    let (gained, lost) = (count(|change| change > 0.0), count(|change| change < 0.0));
    let shown = DETECTED * deviation(&changes) / (changes.len() as f64).sqrt();
    Ok(Difference {
        mean: found.mean,
        low: found.low,
        high: found.high,
        gained,
        lost,
        p: mcnemar(gained, lost),
        detectable: shown.max(least_detectable(changes.len())),
    })
}

/// The smallest difference that so many items can ever show at 5 %: six answers of all, where nothing else changed.
pub fn least_detectable(items: usize) -> f64 {
    FEWEST_CHANGES as f64 / items.max(1) as f64
}

/// McNemar's exact test: how likely counts at least as uneven are, were each change as likely to be a gain as a loss.
///
/// Two-sided, binomial with one half; 1 where nothing changed. Where scores are graded this is the sign test.
pub fn mcnemar(gained: usize, lost: usize) -> f64 {
    let (n, fewer) = (gained + lost, gained.min(lost));
    // ln C(n, k) − n ln 2, from one k to the next.
    let mut log = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = log.exp();
    for k in 0..fewer {
        log += ((n - k) as f64 / (k + 1) as f64).ln();
        tail += log.exp();
    }
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
    }

    /// So many ones, then so many zeros.
    fn scores(ones: usize, zeros: usize) -> Vec<f64> {
        [vec![1.0; ones], vec![0.0; zeros]].concat()
    }

    #[test]
    fn the_standard_error_is_that_of_a_share() {
        // Variance 0.25 · 100/99 over 100.
        let found = accuracy(&scores(50, 50));
        assert_near(found.mean, 0.5);
        assert_near(found.standard_error, (0.25_f64 / 99.0).sqrt());
        assert_near(accuracy(&[1.0]).standard_error, 0.0);
        assert_near(accuracy(&[]).mean, 0.0);
    }

    #[test]
    fn mcnemar_is_the_binomial_tail_on_both_sides() {
        assert_near(mcnemar(0, 0), 1.0);
        assert_near(mcnemar(0, 5), 2.0 / 32.0);
        assert_near(mcnemar(6, 0), 2.0 / 64.0);
        // 1 + 10 + 45 of 1024, twice.
        assert_near(mcnemar(2, 8), 112.0 / 1024.0);
        assert_near(mcnemar(5, 5), 1.0);
        assert!(mcnemar(40_000, 41_000) > 0.0 && mcnemar(0, 5000) < 1e-300);
    }

    #[test]
    fn a_difference_counts_changes_on_the_same_items() {
        // Ten items: one gained, three lost, six as before.
        let full = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0];
        let map = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0];
        let found = difference(&map, &full, Bootstrap::default()).expect("the same items");
        assert_near(found.mean, -0.2);
        assert_eq!((found.gained, found.lost), (1, 3));
        // 1 + 4 of 16, twice.
        assert_near(found.p, 0.625);
        assert!(found.low < -0.2 && found.high > -0.2);
        // Σ(change − mean)² = 4 − 10 · 0.04 = 3.6, so the deviation is √0.4; six changes of ten are not reached.
        assert_near(found.detectable, (2.801_585 * (0.4_f64 / 10.0).sqrt()).max(0.6));
    }

    #[test]
    fn equal_answers_leave_what_the_number_of_items_allows() {
        let found =
            difference(&scores(60, 40), &scores(60, 40), Bootstrap::default()).expect("the same items");
        assert_near(found.mean, 0.0);
        assert_near(found.p, 1.0);
        assert_near(found.detectable, 0.06);
    }

    #[test]
    fn many_changes_need_a_large_difference_to_show() {
        let full = scores(50, 50);
        let map: Vec<f64> = full.iter().rev().copied().collect();
        let found = difference(&map, &full, Bootstrap::default()).expect("the same items");
        // All hundred changed, by 1 or −1: deviation √(100/99).
        assert_near(found.detectable, 2.801_585 * (100.0_f64 / 99.0).sqrt() / 10.0);
    }

    #[test]
    fn other_items_are_refused() {
        assert!(difference(&[1.0], &[1.0, 0.0], Bootstrap::default()).is_err());
        assert!(difference(&[], &[], Bootstrap::default()).is_err());
    }
}
