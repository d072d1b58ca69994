use super::{Genome, LossTable};

/// Variance that the model ascribes to one point's own noise, against 1 for the whole.
const NUGGET: f64 = 1e-4;
/// Losses below this share of the greatest are told apart by difference rather than by ratio.
const FLOOR: f64 = 1e-4;

/// The additive model, corrected by what evaluations said: predicts the loss of a genome never evaluated.
///
/// **Ours.** A Gaussian process (kriging) on ln(loss / predicted), with a covariance of exp(−d/reach) where d sums,
/// over groups, the share of the group's range by which two genomes differ. So one interaction between groups found
/// anywhere corrects all genomes that have it.
pub(super) struct Surrogate<'a> {
    table: &'a LossTable,
    floor: f64,
    mean: f64,
    variance: f64,
    points: Vec<(Genome, f64)>,
    /// Cholesky factor of the covariance between the points.
    lower: Vec<Vec<f64>>,
    reach: f64,
}

/// What a model says of a genome never evaluated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prediction {
    /// The expected loss.
    pub(super) expected: f64,
    /// The loss one standard deviation below it.
    pub(super) hopeful: f64,
}

impl<'a> Surrogate<'a> {
    /// Fitted to evaluated genomes and their losses; a loss that is not finite is left out.
    pub(super) fn fit(table: &'a LossTable, told: &[(&Genome, f64)]) -> Self {
        let greatest = told.iter().map(|point| point.1).filter(|loss| loss.is_finite()).fold(0.0, f64::max);
        let floor = (greatest * FLOOR).max(f64::MIN_POSITIVE);
        let told: Vec<_> = told.iter().filter(|point| point.1.is_finite()).collect();
        let ratio =
            |point: &&&(&Genome, f64)| ((point.1.max(0.0) + floor) / (base(table, point.0) + floor)).ln();
        let ratios: Vec<f64> = told.iter().map(|point| ratio(&point)).collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
        let variance =
            ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / ratios.len().max(1) as f64;
        let reach = table.losses().len() as f64 / 2.0;
        let mut model = Self { table, floor, mean, variance, points: Vec::new(), lower: Vec::new(), reach };
        let genomes: Vec<Genome> = told.iter().map(|point| point.0.clone()).collect();
        model.lower = model.factor(&genomes);
        let weights =
            backward(&model.lower, forward(&model.lower, ratios.iter().map(|r| r - mean).collect()));
        model.points = genomes.into_iter().zip(weights).collect();
        model
    }

    /// The expected and the hopeful loss of a genome.
    pub(super) fn predict(&self, genome: &Genome) -> Prediction {
        let near: Vec<f64> = self.points.iter().map(|(point, _)| self.covariance(point, genome)).collect();
        let correction: f64 = self.points.iter().zip(&near).map(|((_, weight), near)| weight * near).sum();
        let explained: f64 = forward(&self.lower, near).iter().map(|x| x * x).sum();
        let deviation = (self.variance * (1.0 - explained).max(0.0)).sqrt();
        let loss = |ratio: f64| (base(self.table, genome) + self.floor) * ratio.exp() - self.floor;
        let expected = self.mean + correction;
        Prediction { expected: loss(expected), hopeful: loss(expected - deviation) }
    }

    fn covariance(&self, a: &Genome, b: &Genome) -> f64 {
        let ranges = self.table.losses().iter().map(|row| (row.len().max(2) - 1) as f64);
        let apart = a.choices().iter().zip(b.choices()).zip(ranges);
        let distance: f64 = apart.map(|((&a, &b), range)| a.abs_diff(b) as f64 / range).sum();
        (-distance / self.reach).exp()
    }

    fn factor(&self, genomes: &[Genome]) -> Vec<Vec<f64>> {
        let row = |(index, genome): (usize, &Genome)| -> Vec<f64> {
            genomes[..=index].iter().map(|other| self.covariance(genome, other)).collect()
        };
        let mut lower: Vec<Vec<f64>> = genomes.iter().enumerate().map(row).collect();
        lower.iter_mut().filter_map(|row| row.last_mut()).for_each(|diagonal| *diagonal += NUGGET);
        cholesky(&mut lower);
        lower
    }
}

/// The table's prediction, never below 0: a small negative measurement is noise.
fn base(table: &LossTable, genome: &Genome) -> f64 {
    table.predict(genome).max(0.0)
}

/// Factors a positive definite matrix, given by its lower triangle, in place.
fn cholesky(lower: &mut [Vec<f64>]) {
    for row in 0..lower.len() {
        for column in 0..=row {
            let (upper, rest) = lower.split_at_mut(row);
            let current = &mut rest[0];
            if column == row {
                let square: f64 = current[..row].iter().map(|x| x * x).sum();
                current[row] = (current[row] - square).max(NUGGET * NUGGET).sqrt();
            } else {
                let product: f64 =
                    current[..column].iter().zip(&upper[column][..column]).map(|(x, y)| x * y).sum();
                current[column] = (current[column] - product) / upper[column][column];
            }
        }
    }
}

/// Solves L x = b.
fn forward(lower: &[Vec<f64>], mut x: Vec<f64>) -> Vec<f64> {
    for row in 0..x.len() {
        let known: f64 = lower[row][..row].iter().zip(&x).map(|(entry, x)| entry * x).sum();
        x[row] = (x[row] - known) / lower[row][row];
    }
    x
}

/// Solves Lᵀ x = b.
fn backward(lower: &[Vec<f64>], mut x: Vec<f64>) -> Vec<f64> {
    for row in (0..x.len()).rev() {
        let known: f64 = (row + 1..x.len()).map(|below| lower[below][row] * x[below]).sum();
        x[row] = (x[row] - known) / lower[row][row];
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Additive, Problem};

    fn table() -> LossTable {
        let bits = Additive::new(vec![vec![2.0, 4.0, 8.0]; 3], 3.0).expect("a table");
        let losses = vec![vec![4.0, 1.0, 0.1], vec![6.0, 2.0, 0.2], vec![3.0, 1.0, 0.1]];
        LossTable::new(losses, &Problem::new(bits).expect("ordered")).expect("fits")
    }

    #[test]
    fn without_evaluations_the_table_alone_predicts() {
        let table = table();
        let predicted = Surrogate::fit(&table, &[]).predict(&Genome::new(vec![0, 1, 2]));
        assert!((predicted.expected - 6.1).abs() < 1e-9, "{predicted:?}");
    }

    #[test]
    fn what_was_evaluated_is_reproduced_and_what_is_near_it_is_corrected() {
        let table = table();
        // Losses are the table's, but twice as much where the first two groups are both narrow.
        let truth = |genome: &Genome| {
            let [first, second, _] = genome.choices() else { return f64::NAN };
            table.predict(genome) * if first + second == 0 { 2.0 } else { 1.0 }
        };
        let genomes = ["0-0-2", "1-1-1", "2-2-2", "0-1-1", "1-0-1", "2-1-0"]
            .map(|text| text.parse().expect("a genome"));
        let told: Vec<(&Genome, f64)> = genomes.iter().map(|genome| (genome, truth(genome))).collect();
        let model = Surrogate::fit(&table, &told);
        for (genome, loss) in told {
            let predicted = model.predict(genome);
            assert!((predicted.expected / loss - 1.0).abs() < 0.01, "{genome}");
            assert!((predicted.hopeful / loss - 1.0).abs() < 0.02, "{genome}: nothing is left to doubt");
        }
        let unseen: Genome = "0-0-1".parse().expect("a genome");
        let off = |prediction: f64| (prediction / truth(&unseen)).ln().abs();
        let (corrected, plain) = (off(model.predict(&unseen).expected), off(table.predict(&unseen)));
        assert!(corrected < 0.75 * plain, "{corrected}, uncorrected {plain}");
    }

    #[test]
    fn losses_that_are_no_number_or_zero_do_no_harm() {
        let table = table();
        let genomes = ["0-0-0", "1-1-1", "2-2-2"].map(|text| text.parse().expect("a genome"));
        let told = [(&genomes[0], f64::INFINITY), (&genomes[1], 0.0), (&genomes[2], -0.5)];
        let predicted = Surrogate::fit(&table, &told).predict(&genomes[0]);
        assert!(predicted.expected.is_finite() && predicted.hopeful.is_finite());
    }
}
