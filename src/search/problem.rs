use serde::{Deserialize, Serialize};

use super::cost::Additive;
use super::{Objectives, SearchError};
use crate::space::{Genome, LayerGroup, Space, SpaceSize};

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
        match bits.table().iter().position(|row| row.windows(2).any(|two| two[0] > two[1])) {
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
        let expected: Vec<usize> = self.bits.table().iter().map(Vec::len).collect();
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
        let (found, expected) = (shape(table), shape(self.bits.table()));
        if found == expected { Ok(()) } else { Err(SearchError::Shape { name, found, expected }) }
    }

    /// Number of groups.
    pub fn n_groups(&self) -> usize {
        self.bits.table().len()
    }

    /// Number of choices of a group; 0 for a group there is not.
    pub fn n_choices(&self, group: usize) -> usize {
        self.bits.table().get(group).map_or(0, Vec::len)
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
        SpaceSize::of(self.bits.table().iter().map(Vec::len))
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
}
