//! Whether two rankings agree: is sensitivity the model's, or the prompt's?

use super::{Metric, Table};

/// Spearman's rank correlation of two equally long samples; ties get their mean rank.
///
/// `None` under two elements or when one side is constant: there is no ranking to compare.
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    pearson(&ranks(x), &ranks(y))
}

fn ranks(x: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|&a, &b| x[a].total_cmp(&x[b]));
    let mut ranks = vec![0.0; x.len()];
    let mut start = 0;
    for tied in order.chunk_by(|&a, &b| x[a].total_cmp(&x[b]).is_eq()) {
        let mean = start as f64 + (tied.len() - 1) as f64 / 2.0;
        tied.iter().for_each(|&i| ranks[i] = mean);
        start += tied.len();
    }
    ranks
}

fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let n = x.len() as f64;
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| f(x - mean_x, y - mean_y)).sum()
    };
    let (xy, xx, yy) = (sum(&|x, y| x * y), sum(&|x, _| x * x), sum(&|_, y| y * y));
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

/// Agreement of the ranking of layers by e_o between tables of different prompts, or of different domains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Mean of Spearman's correlation over all pairs of tables and all precision pairs.
    pub mean: f64,
    /// The least of them.
    pub least: f64,
}

/// Under this the paper's claim that sensitivity does not depend on the prompt does not hold for the data.
pub const EXPECTED_AGREEMENT: f64 = 0.8;

/// Agreement of every two tables on the ranking of layers; `None` with fewer than two tables.
pub fn agreement(tables: &[Table], metric: Metric) -> Option<Agreement> {
    let mut found = Vec::new();
    for (i, a) in tables.iter().enumerate() {
        for b in &tables[i + 1..] {
            let pairs = 0..a.pairs.len();
            found.extend(
                pairs.filter_map(|pair| {
                    spearman(&a.output_errors(pair, metric), &b.output_errors(pair, metric))
                }),
            );
        }
    }
    let least = found.iter().copied().min_by(f64::total_cmp)?;
    Some(Agreement { mean: found.iter().sum::<f64>() / found.len() as f64, least })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_monotone_map_keeps_the_ranking() {
        assert_eq!(spearman(&[1.0, 2.0, 9.0], &[-5.0, 0.1, 0.2]), Some(1.0));
        assert_eq!(spearman(&[1.0, 2.0, 9.0], &[3.0, 2.0, 1.0]), Some(-1.0));
    }

    #[test]
    fn ties_share_their_mean_rank() {
        // Ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3: 4.5 / √(4.5 · 5).
        let found = spearman(&[1.0, 2.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0]).expect("two rankings");
        assert!((found - 4.5 / 22.5_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_constant_ranks_nothing() {
        assert_eq!(spearman(&[1.0, 1.0], &[1.0, 2.0]), None);
    }
}
