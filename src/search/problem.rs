use serde::{Deserialize, Serialize};

use super::{Objectives, SearchError};
use crate::precision::PrecisionPair;
use crate::space::{Genome, LayerGroup, Space, SpaceSize};

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

/// An additive cost that a map must not exceed, such as `max_bits`, `max_storage_bits` or `max_cache`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// What the user calls it: `max_bits`.
    pub name: String,
    /// Unit of the figures, for messages: `equivalent bits`, `bytes`.
    pub unit: String,
    /// The cost.
    pub cost: Additive,
    /// The most it may be.
    pub max: f64,
}

/// What is searched over: choices per group, their cost in equivalent bits, and what a map must keep to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    bits: Additive,
    limits: Vec<Limit>,
    max_loss: Option<f64>,
    groups: Vec<LayerGroup>,
}

impl Problem {
    /// A problem that knows only costs; the `edges` and `key-first` rules need one [of a space](Self::of_space).
    ///
    /// # Errors
    /// [`SearchError::Unordered`] when a group's choices are not in the order of their bits, fewest first.
    pub fn new(bits: Additive) -> Result<Self, SearchError> {
        match bits.table.iter().position(|row| row.windows(2).any(|two| two[0] > two[1])) {
            Some(group) => Err(SearchError::Unordered { group }),
            None => Ok(Self { bits, limits: Vec::new(), max_loss: None, groups: Vec::new() }),
        }
    }

    /// The problem of a space whose layers have the given KV widths.
    ///
    /// # Errors
    /// Those of [`Additive::equivalent_bits`].
    pub fn of_space(space: &Space, widths: &[usize]) -> Result<Self, SearchError> {
        Self::new(Additive::equivalent_bits(space, widths)?)?.with_groups(space.groups().to_vec())
    }

    /// The problem with layers and pairs behind its choices; no groups at all leave it one of costs alone.
    pub(super) fn with_groups(mut self, groups: Vec<LayerGroup>) -> Result<Self, SearchError> {
        let found: Vec<usize> = groups.iter().map(|group| group.candidates.len()).collect();
        let expected: Vec<usize> = self.bits.table.iter().map(Vec::len).collect();
        if !groups.is_empty() && found != expected {
            return Err(SearchError::Groups { found, expected });
        }
        self.groups = groups;
        Ok(self)
    }

    /// The problem with one more limit.
    ///
    /// # Errors
    /// [`SearchError::Limit`] when even the smallest configuration exceeds it; a table of another shape.
    pub fn with_limit(mut self, limit: Limit) -> Result<Self, SearchError> {
        self.check_shape("limit", limit.cost.table())?;
        let smallest = limit.cost.smallest();
        let Limit { name, unit, max, .. } = &limit;
        if smallest > *max || max.is_nan() {
            return Err(SearchError::Limit { name: name.clone(), unit: unit.clone(), max: *max, smallest });
        }
        self.limits.push(limit);
        Ok(self)
    }

    /// The problem with at most `max` equivalent bits.
    ///
    /// # Errors
    /// Those of [`Problem::with_limit`].
    pub fn with_max_bits(self, max: f64) -> Result<Self, SearchError> {
        let cost = self.bits.clone();
        self.with_limit(Limit { name: "max_bits".into(), unit: "equivalent bits".into(), cost, max })
    }

    /// The problem with a loss (KVTuner's ΔA) beyond which a map is infeasible.
    ///
    /// # Errors
    /// [`SearchError::MaxLoss`] unless `max_loss` is a number of at least 0.
    pub fn with_max_loss(mut self, max_loss: f64) -> Result<Self, SearchError> {
        if !(max_loss.is_finite() && max_loss >= 0.0) {
            return Err(SearchError::MaxLoss { found: max_loss });
        }
        self.max_loss = Some(max_loss);
        Ok(self)
    }

    /// Whether a genome has this problem's shape.
    pub fn is_of_shape(&self, genome: &Genome) -> bool {
        !self.bits.of(genome).is_nan()
    }

    pub(super) fn check_shape(&self, name: &'static str, table: &[Vec<f64>]) -> Result<(), SearchError> {
        let shape = |table: &[Vec<f64>]| table.iter().map(Vec::len).collect::<Vec<_>>();
        let (found, expected) = (shape(table), shape(&self.bits.table));
        if found == expected { Ok(()) } else { Err(SearchError::Shape { name, found, expected }) }
    }

    /// Number of groups.
    pub fn n_groups(&self) -> usize {
        self.bits.table.len()
    }

    /// Number of choices of a group; 0 for a group there is not.
    pub fn n_choices(&self, group: usize) -> usize {
        self.bits.table.get(group).map_or(0, Vec::len)
    }

    /// The cost in equivalent bits, by choice.
    pub fn bits(&self) -> &Additive {
        &self.bits
    }

    /// The limits.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// The layers and candidate pairs of each group; empty for a problem made of costs alone.
    pub fn groups(&self) -> &[LayerGroup] {
        &self.groups
    }

    /// The greatest loss that is feasible.
    pub fn max_loss(&self) -> Option<f64> {
        self.max_loss
    }

    /// How many genomes there are, within the limits or not.
    pub fn size(&self) -> SpaceSize {
        SpaceSize::of(self.bits.table.iter().map(Vec::len))
    }

    /// Whether a genome has this problem's shape and keeps to every limit; known before it is evaluated.
    pub fn is_within_limits(&self, genome: &Genome) -> bool {
        self.is_of_shape(genome) && self.limits.iter().all(|limit| limit.cost.of(genome) <= limit.max)
    }

    /// How far a loss lies beyond `max_loss`; 0 when it does not, or when there is none.
    pub fn violation(&self, objectives: Objectives) -> f64 {
        self.max_loss.map_or(0.0, |max| (objectives.loss - max).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::precision::equivalent_bits;

    fn problem() -> Problem {
        let bits = Additive::new(vec![vec![2.0, 4.0, 8.0]; 2], 2.0).expect("a table");
        Problem::new(bits).expect("ordered")
    }

    #[test]
    fn a_limit_below_the_smallest_configuration_names_both_figures() {
        let error = problem().with_max_bits(1.5).expect_err("2 is the least");
        let message = "`max_bits` is 1.5 equivalent bits, but the smallest configuration takes 2";
        assert_eq!(error.to_string(), message);
        assert!(problem().with_max_bits(2.0).is_ok());
        assert!(problem().with_max_bits(f64::NAN).is_err());
    }

    #[test]
    fn limits_are_kept_to_exactly() {
        let problem = problem().with_max_bits(5.0).expect("within reach");
        assert!(problem.is_within_limits(&Genome::new(vec![0, 2])));
        assert!(!problem.is_within_limits(&Genome::new(vec![1, 2])));
        assert!(!problem.is_within_limits(&Genome::new(vec![0, 3])), "no such choice");
        assert!(!problem.is_within_limits(&Genome::new(vec![0])), "no such shape");
    }

    #[test]
    fn violation_is_what_the_loss_lies_beyond_its_limit() {
        let problem = problem().with_max_loss(0.25).expect("a loss");
        assert!(problem.violation(Objectives { bits: 2.0, loss: 0.25 }) <= 0.0);
        assert!((problem.violation(Objectives { bits: 2.0, loss: 0.75 }) - 0.5).abs() < 1e-12);
        assert!(problem.with_max_loss(-1.0).is_err());
    }

    #[test]
    fn bits_of_a_genome_equal_those_of_its_map_to_the_last_bit() {
        let text = "{n_layers: 3, pairs: [KV2], groups: [{layers: [0, 2], candidates: [KV2, K4V2, KV4]}, \
                    {layers: [1], candidates: [KV2, K8V4]}]}";
        let space: Space = serde_yaml::from_str(text).expect("a space");
        let widths = [192, 64, 320];
        let problem = Problem::of_space(&space, &widths).expect("widths fit");
        for genome in ["0-0", "1-0", "2-1", "0-1"].map(|text| text.parse::<Genome>().expect("a genome")) {
            let map = space.map(&genome).expect("of the space");
            assert_eq!(problem.bits().of(&genome).to_bits(), equivalent_bits(&map, &widths).get().to_bits());
        }
        assert!(Problem::of_space(&space, &[64; 2]).is_err());
    }

    #[test]
    fn choices_must_be_ordered_by_bits() {
        let table = Additive::new(vec![vec![2.0, 4.0], vec![4.0, 2.0]], 1.0).expect("a table");
        assert_eq!(Problem::new(table), Err(SearchError::Unordered { group: 1 }));
    }

    #[test]
    fn a_table_with_a_hole_is_refused() {
        let error = Additive::new(vec![vec![2.0], vec![1.0, f64::INFINITY]], 1.0).expect_err("infinite");
        assert_eq!(error.to_string(), "the cost of group 1, choice 1 is inf, expected a finite number");
    }
}
