use linfa::ParamGuard;
use linfa::traits::Transformer;
use linfa_clustering::Dbscan;
use ndarray::Array2;

/// Room for rounding: 0.55 − 0.5 is more than 0.05 in floating point.
const ROUNDING: f64 = 1e-9;

/// DBSCAN (Ester et al., 1996) with Euclidean distance: the cluster of each point, `None` for noise.
///
/// A neighbor at exactly `eps` counts and `min_samples` includes the point itself, as in scikit-learn. The one place
/// that calls linfa, whose k-d tree panics on NaN and on column-major input: a point that is not finite is noise,
/// and so is every point when their lengths differ or `eps` or `min_samples` is out of range.
///
/// # Shapes
/// - `points`: `[n_points, n_features]`
pub(super) fn dbscan(points: &[Vec<f64>], eps: f64, min_samples: usize) -> Vec<Option<usize>> {
    let finite: Vec<usize> =
        (0..points.len()).filter(|&index| points[index].iter().all(|x| x.is_finite())).collect();
    let mut labels = vec![None; points.len()];
    for (&index, label) in finite.iter().zip(transform(points, &finite, eps, min_samples)) {
        labels[index] = label;
    }
    labels
}

fn transform(points: &[Vec<f64>], rows: &[usize], eps: f64, min_samples: usize) -> Vec<Option<usize>> {
    let all_noise = vec![None; rows.len()];
    let n_features = rows.first().map_or(0, |&row| points[row].len());
    let flat: Vec<f64> = rows.iter().flat_map(|&row| points[row].iter().copied()).collect();
    let same_length = rows.iter().all(|&row| points[row].len() == n_features);
    if !same_length || n_features == 0 || !eps.is_finite() {
        return all_noise;
    }
    // `from_shape_vec` lays rows out one after the other, as the tree wants them.
    let params = Dbscan::params(min_samples).tolerance(eps * (1.0 + ROUNDING));
    match (Array2::from_shape_vec((rows.len(), n_features), flat), params.check()) {
        (Ok(observations), Ok(params)) => params.transform(&observations).to_vec(),
        _ => all_noise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[f64]) -> Vec<Vec<f64>> {
        points.iter().map(|&x| vec![x]).collect()
    }

    #[test]
    fn a_neighbor_at_exactly_eps_counts() {
        assert_eq!(dbscan(&line(&[0.5, 0.55, 0.7]), 0.05, 2), [Some(0), Some(0), None]);
    }

    #[test]
    fn clusters_grow_along_chains_of_core_points() {
        let labels = dbscan(&line(&[0.0, 0.1, 0.2, 1.0, 1.1, 5.0]), 0.11, 2);
        assert_eq!(labels, [Some(0), Some(0), Some(0), Some(1), Some(1), None]);
    }

    #[test]
    fn no_input_panics() {
        assert_eq!(dbscan(&[], 0.05, 2), []);
        assert_eq!(dbscan(&[vec![], vec![]], 0.05, 2), [None, None]);
        assert_eq!(dbscan(&line(&[f64::NAN, 0.0, 0.0]), 0.05, 2), [None, Some(0), Some(0)]);
        assert_eq!(dbscan(&[vec![1.0], vec![1.0, 2.0]], 0.05, 2), [None, None]);
        assert_eq!(dbscan(&line(&[0.0, 0.0]), f64::NAN, 2), [None, None]);
        assert_eq!(dbscan(&line(&[0.0, 0.0]), -1.0, 0), [None, None]);
    }
}
