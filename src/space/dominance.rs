/// Whether `a` dominates `b`: no worse in cost and in loss, better in one. Both are minimized.
///
/// The only definition of dominance in kvtune. Equal points do not dominate each other; a point with a NaN
/// neither dominates nor is dominated.
pub fn dominates(a: (f64, f64), b: (f64, f64)) -> bool {
    dominates_over(&[a.0, a.1], &[b.0, b.1])
}

/// The same over any number of axes, of which both points have as many.
pub fn dominates_over(a: &[f64], b: &[f64]) -> bool {
    debug_assert_eq!(a.len(), b.len(), "axes");
    a.iter().zip(b).all(|(a, b)| a <= b) && a.iter().zip(b).any(|(a, b)| a < b)
}

/// Indices of the points that no other point dominates, in the order given; equal points all stay.
pub fn pareto_indices(points: &[(f64, f64)]) -> Vec<usize> {
    undominated(points, |&a, &b| dominates(a, b))
}

/// The same over any number of axes.
pub fn pareto_indices_over(points: &[Vec<f64>]) -> Vec<usize> {
    undominated(points, |a, b| dominates_over(a, b))
}

fn undominated<P>(points: &[P], dominates: impl Fn(&P, &P) -> bool) -> Vec<usize> {
    let stays = |&index: &usize| !points.iter().any(|other| dominates(other, &points[index]));
    (0..points.len()).filter(stays).collect()
}

/// Area that `points` dominate inside the box that ends at `reference` (both axes minimized).
///
/// Points that do not lie below `reference` on both axes, and NaN, add nothing. The area is in the product of the
/// axes' units: scale the points first when fronts of two problems are compared.
pub fn hypervolume(points: &[(f64, f64)], reference: (f64, f64)) -> f64 {
    let mut inside: Vec<_> =
        points.iter().copied().filter(|&(cost, loss)| cost < reference.0 && loss < reference.1).collect();
    inside.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut area, mut ceiling) = (0.0, reference.1);
    for (cost, loss) in inside {
        if loss < ceiling {
            area += (reference.0 - cost) * (ceiling - loss);
            ceiling = loss;
        }
    }
    area
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_point_dominates_where_it_is_better_in_one_and_worse_in_none() {
        assert!(dominates((1.0, 2.0), (1.0, 3.0)));
        assert!(dominates((1.0, 2.0), (2.0, 2.0)));
        assert!(!dominates((1.0, 2.0), (1.0, 2.0)));
        assert!(!dominates((1.0, 2.0), (2.0, 1.0)));
        assert!(!dominates((f64::NAN, 2.0), (2.0, 3.0)));
    }

    #[test]
    fn of_three_axes_one_that_is_better_keeps_a_point_on_the_front() {
        assert!(dominates_over(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.5]));
        assert!(!dominates_over(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]));
        assert!(!dominates_over(&[1.0, f64::NAN, 3.0], &[1.0, 2.0, 3.5]));
        let points = [vec![1.0, 3.0, 3.0], vec![2.0, 3.0, 2.0], vec![2.0, 3.0, 3.0]];
        assert_eq!(pareto_indices_over(&points), [0, 1]);
    }

    #[test]
    fn the_front_keeps_equal_points_and_drops_dominated_ones() {
        let points = [(1.0, 3.0), (2.0, 2.0), (2.0, 2.5), (1.0, 3.0), (3.0, 1.0)];
        assert_eq!(pareto_indices(&points), [0, 1, 3, 4]);
    }

    #[test]
    fn hypervolume_is_the_area_of_the_staircase() {
        // 3 × 1 above (1, 3) plus 2 × 2 above (2, 1), seen from (4, 4); (5, 0) lies outside.
        let area = hypervolume(&[(2.0, 1.0), (1.0, 3.0), (5.0, 0.0), (3.0, 3.5)], (4.0, 4.0));
        assert!((area - 7.0).abs() < 1e-12, "{area}");
    }

    proptest! {
        #[test]
        fn nothing_on_a_front_is_dominated_and_nothing_off_it_is_not(
            points in prop::collection::vec((0u8..8, 0u8..8), 1..24)
        ) {
            let points: Vec<_> = points.into_iter().map(|(a, b)| (f64::from(a), f64::from(b))).collect();
            let front = pareto_indices(&points);
            for index in 0..points.len() {
                let beaten = front.iter().any(|&keeper| dominates(points[keeper], points[index]));
                prop_assert_eq!(beaten, !front.contains(&index));
            }
        }

        #[test]
        fn dominated_points_add_no_hypervolume(points in prop::collection::vec((0.0..8.0, 0.0..8.0), 1..24)) {
            let front: Vec<_> = pareto_indices(&points).into_iter().map(|index| points[index]).collect();
            let (all, best) = (hypervolume(&points, (7.0, 7.0)), hypervolume(&front, (7.0, 7.0)));
            prop_assert!((all - best).abs() < 1e-9);
        }
    }
}
