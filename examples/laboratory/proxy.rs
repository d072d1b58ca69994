//! Tables for the additive model that cost fewer measurements than one for each choice of each group.

use kvtune::job::Job;
use kvtune::report::SensitivityRow;
use kvtune::sensitivity::Metric;
use kvtune::space::{LayerGroup, Space};

/// How KL grows with e_o where only one point of a group is measured: to second order, KL is a square.
const SQUARE: f64 = 2.0;

/// e_o summed over each group's layers, at each of its candidates: no measurement at all.
pub(crate) fn output_errors(space: &Space, rows: &[SensitivityRow], job: &Job) -> Vec<Vec<f64>> {
    let error = |row: &SensitivityRow| match job.search_space.sensitivity.metric {
        Metric::L1 => row.e_o_l1,
        Metric::Elementwise => row.e_o_elementwise,
    };
    let of_group = |group: &LayerGroup| {
        let of_pair = |&pair| -> f64 {
            let mine = rows
                .iter()
                .filter(|row| row.pair == pair && group.layers.iter().any(|layer| layer.0 == row.layer));
            mine.map(error).sum()
        };
        group.candidates.iter().map(of_pair).collect()
    };
    space.groups().iter().map(of_group).collect()
}

/// The choices of a group that are measured: the lowest, and with `points` = 2 the middle one too.
pub(crate) fn measured(n_choices: usize, points: usize) -> Vec<usize> {
    let mut choices: Vec<usize> = [0, n_choices / 2].into_iter().take(points).collect();
    choices.dedup();
    choices
}

/// The isolated KL of every choice of a group from that of its [`measured`] ones, scaled by e_o.
///
/// Through two points goes the power law KL = a·e_o^b; through one, with b = 2. A point where KL or e_o is not
/// above 0 says nothing of the others, which then count as lossless.
pub(crate) fn scaled(errors: &[f64], isolated: &[f64], points: usize) -> Vec<f64> {
    let known = measured(errors.len(), points);
    let power = match *known.as_slice() {
        [low, middle] => power(errors, isolated, low, middle).unwrap_or(SQUARE),
        _ => SQUARE,
    };
    let estimate = |choice: usize| {
        let nearest = known.iter().copied().min_by_key(|known| known.abs_diff(choice))?;
        Some((isolated[nearest] * (errors[choice] / errors[nearest]).powf(power)).max(0.0))
    };
    let of_choice = |choice: usize| match known.contains(&choice) {
        true => isolated[choice],
        false => estimate(choice).filter(|kl| kl.is_finite()).unwrap_or(0.0),
    };
    (0..errors.len()).map(of_choice).collect()
}

fn power(errors: &[f64], isolated: &[f64], low: usize, middle: usize) -> Option<f64> {
    let power = (isolated[middle] / isolated[low]).ln() / (errors[middle] / errors[low]).ln();
    (power.is_finite() && power > 0.0).then_some(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found}, expected {expected}");
        }
    }

    #[test]
    fn one_point_scales_by_the_square() {
        // Only the first KL is read: the others are as if never measured.
        assert_near(&scaled(&[1.0, 0.5, 0.1], &[2.0, f64::NAN, f64::NAN], 1), &[2.0, 0.5, 0.02]);
    }

    #[test]
    fn two_points_give_the_power() {
        // KL = e_o³ at the first and the middle one, so at the others too.
        let found = scaled(&[1.0, 0.5, 0.2, 0.1], &[1.0, f64::NAN, 0.008, f64::NAN], 2);
        assert_near(&found, &[1.0, 0.125, 0.008, 0.001]);
    }

    #[test]
    fn a_point_that_says_nothing_leaves_finite_figures() {
        assert_near(&scaled(&[0.0, 0.0], &[0.0, 0.0], 1), &[0.0, 0.0]);
        assert_near(&scaled(&[1.0, 0.5, 0.0], &[1.0, -1e-9, 9.0], 2), &[1.0, -1e-9, 0.0]);
    }

    #[test]
    fn a_group_of_one_choice_is_measured_once() {
        assert_eq!(measured(1, 2), [0]);
        assert_eq!(measured(3, 2), [0, 1]);
        assert_eq!(measured(5, 1), [0]);
    }
}
