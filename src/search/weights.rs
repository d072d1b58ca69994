use super::Objectives;

/// Least weight of an objective: at 0 a subproblem would not see it at all.
const LEAST_WEIGHT: f64 = 1e-6;

/// `n` weight vectors (bits, loss), evenly on the simplex, all on bits last.
pub(super) fn weights(n: usize) -> Vec<[f64; 2]> {
    let steps = n.saturating_sub(1).max(1) as f64;
    let share = |index: usize| index as f64 / steps;
    let floored = |share: f64| [share.max(LEAST_WEIGHT), (1.0 - share).max(LEAST_WEIGHT)];
    (0..n).map(|index| floored(share(index))).collect()
}

/// For each of `n` evenly spaced weight vectors the indices of its `size` nearest, itself first.
pub(super) fn neighborhoods(n: usize, size: usize) -> Vec<Vec<usize>> {
    let nearest = |index: usize| {
        let mut others: Vec<usize> = (0..n).collect();
        others.sort_by_key(|&other| (other.abs_diff(index), other));
        others.truncate(size);
        others
    };
    (0..n).map(nearest).collect()
}

/// Objectives on one scale: 0 at the ideal point, 1 at the nadir point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) ideal: Objectives,
    pub(super) nadir: Objectives,
}

impl Scale {
    /// Tchebycheff: the greatest weighted distance from the ideal point. Infinite losses stay infinite.
    pub(super) fn tchebycheff(&self, weight: [f64; 2], at: Objectives) -> f64 {
        let bits = weight[0] * normalized(at.bits, self.ideal.bits, self.nadir.bits);
        let loss = weight[1] * normalized(at.loss, self.ideal.loss, self.nadir.loss);
        bits.max(loss)
    }
}

fn normalized(value: f64, ideal: f64, nadir: f64) -> f64 {
    let range = nadir - ideal;
    (value - ideal).abs() / if range > 0.0 { range } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_cover_the_simplex_and_never_reach_zero() {
        let all = weights(3);
        assert_eq!(all, [[1e-6, 1.0], [0.5, 0.5], [1.0, 1e-6]]);
    }

    #[test]
    fn a_neighborhood_holds_the_nearest_weights_itself_first() {
        assert_eq!(neighborhoods(5, 3)[0], [0, 1, 2]);
        assert_eq!(neighborhoods(5, 3)[2], [2, 1, 3]);
    }

    #[test]
    fn tchebycheff_is_the_worse_of_both_weighted_distances() {
        let ideal = Objectives { bits: 2.0, loss: 0.0 };
        let scale = Scale { ideal, nadir: Objectives { bits: 6.0, loss: 10.0 } };
        let value = scale.tchebycheff([0.5, 0.5], Objectives { bits: 3.0, loss: 8.0 });
        assert!((value - 0.4).abs() < 1e-12, "{value}");
    }
}
