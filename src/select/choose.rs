use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::Estimate;

/// Budgets of equivalent bits for each of which a map is written.
pub const BIT_BUDGETS: [f64; 4] = [3.0, 4.0, 5.0, 6.0];

/// A map as choosing sees it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// Equivalent bits.
    pub bits: f64,
    /// Its loss on the select split.
    pub loss: Estimate,
}

/// Which map was chosen, by its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// The map of fewest bits whose upper bound is within the limit.
    Within(usize),
    /// No map is; this one's upper bound is the least.
    Nearest(usize),
}

impl Choice {
    /// The map's place in the list.
    pub fn index(self) -> usize {
        let (Self::Within(index) | Self::Nearest(index)) = self;
        index
    }
}

/// The map of fewest bits whose upper bound is at most `max_loss`, else the one that comes nearest to it.
///
/// Among maps of equal bits the lower upper bound wins, then the lower mean, then the earlier place; of maps equally
/// near, the one of fewer bits, then the earlier. `None` only for an empty list.
pub fn choose(maps: &[Scored], max_loss: f64) -> Option<Choice> {
    let within = (0..maps.len()).filter(|&index| maps[index].loss.upper <= max_loss);
    let smallest = within.min_by(|&a, &b| {
        let (a, b) = (&maps[a], &maps[b]);
        a.bits.total_cmp(&b.bits).then(by_upper(a, b)).then(a.loss.mean.total_cmp(&b.loss.mean))
    });
    let nearest =
        || (0..maps.len()).min_by(|&a, &b| by_upper(&maps[a], &maps[b]).then(by_bits(&maps[a], &maps[b])));
    smallest.map(Choice::Within).or_else(|| nearest().map(Choice::Nearest))
}

/// The map of least mean loss among those of at most `max_bits`; on a tie fewer bits, then the earlier place.
pub fn best_within(maps: &[Scored], max_bits: f64) -> Option<usize> {
    let within = (0..maps.len()).filter(|&index| maps[index].bits <= max_bits);
    within.min_by(|&a, &b| maps[a].loss.mean.total_cmp(&maps[b].loss.mean).then(by_bits(&maps[a], &maps[b])))
}

fn by_upper(a: &Scored, b: &Scored) -> Ordering {
    a.loss.upper.total_cmp(&b.loss.upper)
}

fn by_bits(a: &Scored, b: &Scored) -> Ordering {
    a.bits.total_cmp(&b.bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps(scores: &[(f64, f64, f64)]) -> Vec<Scored> {
        let map = |&(bits, mean, upper)| Scored {
            bits,
            loss: Estimate { mean, low: mean, high: upper, upper, documents: 20, exploratory: false },
        };
        scores.iter().map(map).collect()
    }

    #[test]
    fn the_smallest_map_whose_upper_bound_fits_is_chosen() {
        // The map of 3 bits has a mean within 0.05, but not its upper bound.
        let maps = maps(&[(6.0, 0.01, 0.02), (4.0, 0.03, 0.05), (3.0, 0.04, 0.06)]);
        assert_eq!(choose(&maps, 0.05), Some(Choice::Within(1)));
    }

    #[test]
    fn when_none_fits_the_nearest_is_named() {
        let maps = maps(&[(6.0, 0.10, 0.12), (4.0, 0.09, 0.12), (3.0, 0.3, 0.4)]);
        assert_eq!(choose(&maps, 0.05), Some(Choice::Nearest(1)));
        assert_eq!(choose(&[], 0.05), None);
    }

    #[test]
    fn ties_go_to_the_lower_bound_the_lower_mean_and_the_earlier_place() {
        let choice = |scores: &[(f64, f64, f64)]| choose(&maps(scores), 1.0).map(Choice::index);
        assert_eq!(choice(&[(3.0, 0.1, 0.3), (3.0, 0.2, 0.2)]), Some(1));
        assert_eq!(choice(&[(3.0, 0.2, 0.3), (3.0, 0.1, 0.3)]), Some(1));
        assert_eq!(choice(&[(3.0, 0.1, 0.3), (3.0, 0.1, 0.3)]), Some(0));
    }

    #[test]
    fn a_bit_budget_takes_the_least_loss_within_it() {
        let maps = maps(&[(2.0, 0.9, 1.0), (3.0, 0.2, 0.3), (2.5, 0.2, 0.3), (5.0, 0.01, 0.02)]);
        assert_eq!(best_within(&maps, 3.0), Some(2));
        assert_eq!(best_within(&maps, 6.0), Some(3));
        assert_eq!(best_within(&maps, 1.0), None);
    }
}
