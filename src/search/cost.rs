use serde::{Deserialize, Serialize};

use super::SearchError;
use crate::precision::PrecisionPair;
use crate::space::{Genome, LayerGroup, Space};

/// A cost that is a sum over groups: what each choice of each group adds, over one divisor.
///
/// Sum first, divide once: with whole (or half) numbers in the table the result does not depend on how layers are
/// grouped, and equals `precision::equivalent_bits` to the last bit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Additive {
    table: Vec<Vec<f64>>,
    divisor: f64,
}

/// A cost as a file holds it.
#[derive(Deserialize)]
struct Unchecked {
    table: Vec<Vec<f64>>,
    divisor: f64,
}

impl TryFrom<Unchecked> for Additive {
    type Error = SearchError;

    fn try_from(Unchecked { table, divisor }: Unchecked) -> Result<Self, SearchError> {
        Self::new(table, divisor)
    }
}

impl Additive {
    /// A cost of `table[group][choice] / divisor`, summed over groups.
    ///
    /// # Errors
    /// An empty table or group, an entry that is not finite, a divisor that is not above 0.
    pub fn new(table: Vec<Vec<f64>>, divisor: f64) -> Result<Self, SearchError> {
        check_table("cost", &table)?;
        if !(divisor.is_finite() && divisor > 0.0) {
            return Err(SearchError::Divisor { found: divisor });
        }
        Ok(Self { table, divisor })
    }

    /// Equivalent bits of a space whose layers have the given KV widths (KV heads × head_dim).
    ///
    /// # Errors
    /// [`SearchError::Widths`] unless there is one width per layer, and not all are 0.
    pub fn equivalent_bits(space: &Space, widths: &[usize]) -> Result<Self, SearchError> {
        let total: usize = widths.iter().sum();
        if widths.len() != space.n_layers() || total == 0 {
            return Err(SearchError::Widths { found: widths.len(), expected: space.n_layers() });
        }
        let cost = |group: &LayerGroup, pair: PrecisionPair| {
            group.layers.iter().map(|layer| pair.mean_bits() * widths[layer.0] as f64).sum()
        };
        let row = |group: &LayerGroup| group.candidates.iter().map(|&pair| cost(group, pair)).collect();
        Self::new(space.groups().iter().map(row).collect(), total as f64)
    }

    /// What each choice adds, before the division: `[group][choice]`.
    pub fn table(&self) -> &[Vec<f64>] {
        &self.table
    }

    /// The cost of a genome; NaN for one that is not of the table's shape.
    pub fn of(&self, genome: &Genome) -> f64 {
        if genome.n_groups() != self.table.len() {
            return f64::NAN;
        }
        let added = |(row, &choice): (&Vec<f64>, &usize)| row.get(choice).copied().unwrap_or(f64::NAN);
        self.divided(self.table.iter().zip(genome.choices()).map(added).sum())
    }

    /// The least cost of any genome.
    pub fn smallest(&self) -> f64 {
        self.divided(self.table.iter().map(|row| least(row)).sum())
    }

    /// The cost of a sum over groups.
    pub(super) fn divided(&self, sum: f64) -> f64 {
        sum / self.divisor
    }

    /// Least sum over the groups from each group on: `[group]`, with 0 after the last.
    pub(super) fn least_from(&self) -> Vec<f64> {
        let mut rest = vec![0.0; self.table.len() + 1];
        for group in (0..self.table.len()).rev() {
            rest[group] = rest[group + 1] + least(&self.table[group]);
        }
        rest
    }
}

pub(super) fn least(row: &[f64]) -> f64 {
    row.iter().copied().fold(f64::INFINITY, f64::min)
}

pub(super) fn check_table(name: &'static str, table: &[Vec<f64>]) -> Result<(), SearchError> {
    if table.is_empty() {
        return Err(SearchError::NoGroups { name });
    }
    for (group, row) in table.iter().enumerate() {
        if row.is_empty() {
            return Err(SearchError::NoChoices { name, group });
        }
        if let Some(choice) = row.iter().position(|entry| !entry.is_finite()) {
            return Err(SearchError::Entry { name, group, choice, found: row[choice] });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_with_a_hole_is_refused() {
        let error = Additive::new(vec![vec![2.0], vec![1.0, f64::INFINITY]], 1.0).expect_err("infinite");
        assert_eq!(error.to_string(), "the cost of group 1, choice 1 is inf, expected a finite number");
    }
}
