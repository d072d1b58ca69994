use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A point of a search space: one choice per group, as an index into the group's candidates ordered by bits.
///
/// Prints and parses as `2-0-1`, also in files.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Genome(Vec<usize>);

/// A text that is no genome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a genome, expected choice indices joined by `-`, such as `2-0-1`")]
pub struct GenomeError {
    /// What was given.
    pub found: String,
}

impl Genome {
    /// A genome of the given choices, group 0 first.
    pub fn new(choices: Vec<usize>) -> Self {
        Self(choices)
    }

    /// The choices, group 0 first.
    pub fn choices(&self) -> &[usize] {
        &self.0
    }

    /// How many groups it speaks of.
    pub fn n_groups(&self) -> usize {
        self.0.len()
    }

    /// The genome with another choice in one group; unchanged when there is no such group.
    #[must_use]
    pub fn with(&self, group: usize, choice: usize) -> Self {
        let mut changed = self.clone();
        if let Some(gene) = changed.0.get_mut(group) {
            *gene = choice;
        }
        changed
    }
}

impl fmt::Display for Genome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choices: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.pad(&choices.join("-"))
    }
}

impl FromStr for Genome {
    type Err = GenomeError;

    fn from_str(text: &str) -> Result<Self, GenomeError> {
        let plain = |part: &str| part.parse().ok().filter(|choice: &usize| choice.to_string() == part);
        let choices: Option<Vec<usize>> = text.split('-').map(plain).collect();
        choices.map(Self).ok_or_else(|| GenomeError { found: text.to_owned() })
    }
}

impl TryFrom<String> for Genome {
    type Error = GenomeError;

    fn try_from(text: String) -> Result<Self, GenomeError> {
        text.parse()
    }
}

impl From<Genome> for String {
    fn from(genome: Genome) -> Self {
        genome.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_genome_parses_back_from_what_it_prints() {
        let genome = Genome::new(vec![2, 0, 11]);
        assert_eq!(genome.to_string(), "2-0-11");
        assert_eq!("2-0-11".parse(), Ok(genome));
    }

    #[test]
    fn what_is_no_genome_is_refused() {
        for text in ["", "-", "1-", "1--2", "01", "+1", "1,2", "99999999999999999999999"] {
            assert!(text.parse::<Genome>().is_err(), "{text:?} parsed");
        }
    }
}
