//! What a repair gives back of the score that a cache cost.

use super::SelectError;
use super::bootstrap::{Bootstrap, draws, quantile};

/// The score of full precision below which there is no telling what a repair gives back (**ours**): what a model
/// hardly knows, it loses and finds by chance.
pub const LEAST_FULL: f64 = 0.6;
/// The loss below which there is no telling either (**ours**): a share of next to nothing is noise.
pub const LEAST_LOSS: f64 = 0.15;

/// What sums of scores may be off by.
const ROUNDING: f64 = 1e-9;

/// The share of a loss that is given back: 1 is all of it, 0 none, below 0 more is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recovery {
    /// (repaired − unrepaired) / (full − unrepaired), of the mean scores.
    pub share: f64,
    /// Lower end of its two-sided 95 % interval, bootstrapped over items; none where it has no end.
    pub low: Option<f64>,
    /// Upper end of it.
    pub high: Option<f64>,
}

/// What a repair gives back on the same items.
///
/// None where full precision scores under [`LEAST_FULL`] or the unrepaired run loses less than [`LEAST_LOSS`] of it.
/// The interval draws items anew and takes both differences on the same draw; a draw on which nothing is lost counts
/// as any share, so an end that more than 2.5 % of such draws hide is absent.
///
/// # Errors
/// Other items, no items, scores that are not finite, too few resamples.
pub fn recovery(
    repaired: &[f64],
    unrepaired: &[f64],
    full: &[f64],
    bootstrap: Bootstrap,
) -> Result<Option<Recovery>, SelectError> {
    bootstrap.check()?;
    check(&[full, unrepaired, repaired])?;
    let loss = mean(full) - mean(unrepaired);
    if mean(full) < LEAST_FULL - ROUNDING || loss < LEAST_LOSS - ROUNDING {
        return Ok(None);
    }
    let share = |items: &mut dyn Iterator<Item = usize>| {
        let (mut gained, mut lost) = (0.0, 0.0);
        for item in items {
            gained += repaired[item] - unrepaired[item];
            lost += full[item] - unrepaired[item];
        }
        Some(gained / lost).filter(|_| lost > 0.0)
    };
    let drawn = draws(full.len(), bootstrap, share);
    let end = |hidden: f64, of: f64| {
        let mut shares: Vec<f64> = drawn.iter().map(|share| share.unwrap_or(hidden)).collect();
        shares.sort_by(f64::total_cmp);
        Some(quantile(&shares, of)).filter(|end| end.is_finite())
    };
    let share = (mean(repaired) - mean(unrepaired)) / loss;
    Ok(Some(Recovery { share, low: end(f64::NEG_INFINITY, 0.025), high: end(f64::INFINITY, 0.975) }))
}

fn mean(scores: &[f64]) -> f64 {
    scores.iter().sum::<f64>() / scores.len() as f64
}

/// Runs are told apart as maps are: full precision is the first.
fn check(runs: &[&[f64]]) -> Result<(), SelectError> {
    for (map, scores) in runs.iter().enumerate() {
        let (found, expected) = (scores.len(), runs[0].len());
        if found == 0 {
            return Err(SelectError::NoDocuments { map });
        }
        if found != expected {
            return Err(SelectError::Documents { map, found, expected });
        }
        if let Some(document) = scores.iter().position(|score| !score.is_finite()) {
            return Err(SelectError::Loss { map, document, found: scores[document] });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Full precision answers all of 40, the cache half of them, the repair so many of the lost ones.
    fn of(back: usize) -> Recovery {
        let ones = |count: usize| [vec![1.0; count], vec![0.0; 40 - count]].concat();
        recovery(&ones(20 + back), &ones(20), &ones(40), Bootstrap::default())
            .expect("the same items")
            .expect("enough is lost")
    }

    #[test]
    fn the_share_is_of_what_was_lost() {
        assert!((of(5).share - 0.25).abs() < 1e-12);
        let all = of(20);
        assert!([Some(all.share), all.low, all.high].iter().all(|&end| end == Some(1.0)), "{all:?}");
        let none = of(0);
        assert!([Some(none.share), none.low, none.high].iter().all(|&end| end == Some(0.0)), "{none:?}");
    }

    #[test]
    fn the_interval_is_that_of_a_share_of_the_lost_items() {
        // 10 of 20 lost items came back: deviation √(0.25 / 20) = 0.112, and a little more since the lost ones vary.
        let half = of(10);
        let (low, high) = (half.low.expect("an end"), half.high.expect("an end"));
        assert!((low - 0.28).abs() < 0.04 && (high - 0.72).abs() < 0.04, "{half:?}");
    }

    #[test]
    fn a_repair_that_breaks_more_gives_back_less_than_nothing() {
        let (full, cache) = ([1.0; 4], [1.0, 1.0, 0.0, 0.0]);
        let found =
            recovery(&[1.0, 0.0, 0.0, 0.0], &cache, &full, Bootstrap::default()).expect("the same items");
        assert!((found.expect("half is lost").share + 0.5).abs() < 1e-12);
    }

    #[test]
    fn little_known_or_little_lost_is_not_judged() {
        let judged = |full: usize, cache: usize| {
            let ones = |count: usize| [vec![1.0; count], vec![0.0; 100 - count]].concat();
            recovery(&ones(full), &ones(cache), &ones(full), Bootstrap::default()).expect("items").is_some()
        };
        assert!(judged(60, 40) && !judged(59, 0));
        assert!(judged(60, 45) && !judged(60, 46));
    }

    #[test]
    fn an_end_that_draws_without_a_loss_hide_is_absent() {
        // One of three items is lost, so 8 of 27 draws lose nothing.
        let found = recovery(&[1.0; 3], &[1.0, 1.0, 0.0], &[1.0; 3], Bootstrap::default());
        let found = found.expect("items").expect("a third is lost");
        assert_eq!((found.low, found.high), (None, None));
        assert!((found.share - 1.0).abs() < 1e-12);
    }

    #[test]
    fn other_items_are_refused() {
        let of = |repaired: &[f64], full: &[f64]| recovery(repaired, &[0.0, 0.0], full, Bootstrap::default());
        assert!(of(&[1.0], &[1.0, 1.0]).is_err());
        assert!(of(&[1.0, 1.0], &[1.0]).is_err());
        assert!(of(&[1.0, f64::NAN], &[1.0, 1.0]).is_err());
        assert!(recovery(&[], &[], &[], Bootstrap::default()).is_err());
        let few = Bootstrap { resamples: 3, seed: 0 };
        assert!(recovery(&[1.0], &[0.0], &[1.0], few).is_err());
    }
}
