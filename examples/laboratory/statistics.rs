//! Figures of samples and fronts.

use kvtune::search::{Archive, Objectives};

/// Searches of one kind are run with so many seeds.
pub(crate) const SEEDS: u64 = 10;
/// 0.975 quantile of Student's t with `SEEDS − 1` degrees of freedom.
const T: f64 = 2.262_157_162_7;

/// A mean over [`SEEDS`] runs and half the width of its 95 % interval by Student's t.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mean {
    pub(crate) mean: f64,
    pub(crate) half_width: f64,
}

impl Mean {
    /// `sample` has one figure a seed.
    pub(crate) fn of(sample: &[f64]) -> Self {
        let n = sample.len() as f64;
        let mean = sample.iter().sum::<f64>() / n;
        let variance = sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Self { mean, half_width: T * (variance / n).sqrt() }
    }
}

/// The box that hypervolumes are measured in: 1.1 × the worst of the uniform configurations on each axis.
pub(crate) fn reference(uniform: impl IntoIterator<Item = Objectives>) -> Objectives {
    let worst = uniform.into_iter().fold(Objectives { bits: 0.0, loss: 0.0 }, |worst, at| Objectives {
        bits: worst.bits.max(at.bits),
        loss: worst.loss.max(at.loss),
    });
    Objectives { bits: 1.1 * worst.bits, loss: 1.1 * worst.loss }
}

/// Share of the whole box that a front dominates, 0 to 1.
pub(crate) fn share(front: &Archive, reference: Objectives) -> f64 {
    front.hypervolume(reference) / (reference.bits * reference.loss)
}

/// Slope of the line through the origin that fits best: Σxy / Σx².
pub(crate) fn slope(x: &[f64], y: &[f64]) -> f64 {
    let product: f64 = x.iter().zip(y).map(|(x, y)| x * y).sum();
    product / x.iter().map(|x| x * x).sum::<f64>()
}

/// The lower of the middle figures.
pub(crate) fn median(mut sample: Vec<f64>) -> Option<f64> {
    sample.sort_by(f64::total_cmp);
    sample.get(sample.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use kvtune::search::Genome;

    use super::*;

    #[test]
    fn a_mean_has_the_interval_of_students_t() {
        // 0 … 9: mean 4.5, variance 82.5/9, standard error 0.957427.
        let mean = Mean::of(&(0..10).map(f64::from).collect::<Vec<_>>());
        assert!((mean.mean - 4.5).abs() < 1e-12);
        assert!((mean.half_width - 2.262_157 * 0.957_427).abs() < 1e-5, "{}", mean.half_width);
    }

    #[test]
    fn equal_runs_have_no_interval() {
        assert_eq!(Mean::of(&[0.5; 10]), Mean { mean: 0.5, half_width: 0.0 });
    }

    #[test]
    fn the_box_ends_beyond_the_worst_uniform_configuration() {
        let uniform = [Objectives { bits: 8.0, loss: 0.1 }, Objectives { bits: 2.0, loss: 10.0 }];
        let box_ = reference(uniform);
        assert!((box_.bits - 8.8).abs() < 1e-12 && (box_.loss - 11.0).abs() < 1e-12);
        let mut front = Archive::default();
        front.insert(&Genome::new(vec![0]), Objectives { bits: 4.4, loss: 5.5 });
        assert!((share(&front, box_) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn slope_and_median_are_those_done_by_hand() {
        assert!((slope(&[1.0, 2.0], &[2.0, 3.0]) - 8.0 / 5.0).abs() < 1e-12);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(median(Vec::new()), None);
    }
}
