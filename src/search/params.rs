use linfa::ParamGuard;
use serde::{Deserialize, Serialize};

/// Checked parameters of MOEA/D; made by [`MoeadParams`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoeadValidParams {
    pub(super) n_subproblems: usize,
    pub(super) n_neighbors: usize,
    pub(super) max_replacements: usize,
}

/// Parameters of MOEA/D: N subproblems, T neighbors of each, at most n_r replacements by one child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MoeadParams(MoeadValidParams);

impl MoeadParams {
    /// **Ours**: N = clamp(E/10, 10, 100), T = max(2, N/5), n_r = 2 for a budget of E evaluations.
    pub fn for_budget(evaluations: usize) -> Self {
        let n_subproblems = (evaluations / 10).clamp(10, 100);
        Self(MoeadValidParams { n_subproblems, n_neighbors: (n_subproblems / 5).max(2), max_replacements: 2 })
    }

    /// N: how many weight vectors, and so subproblems.
    #[must_use]
    pub fn n_subproblems(mut self, n_subproblems: usize) -> Self {
        self.0.n_subproblems = n_subproblems;
        self
    }

    /// T: size of a neighborhood, the subproblem itself included.
    #[must_use]
    pub fn n_neighbors(mut self, n_neighbors: usize) -> Self {
        self.0.n_neighbors = n_neighbors;
        self
    }

    /// n_r: most members of a neighborhood that one child replaces.
    #[must_use]
    pub fn max_replacements(mut self, max_replacements: usize) -> Self {
        self.0.max_replacements = max_replacements;
        self
    }
}

/// Unchecked again, as when they come from a file.
impl From<MoeadValidParams> for MoeadParams {
    fn from(params: MoeadValidParams) -> Self {
        Self(params)
    }
}

/// MOEA/D parameters out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoeadParamsError {
    /// Fewer than two weight vectors cover nothing.
    #[error("`n_subproblems` is {n_subproblems}, but it must be at least 2")]
    Subproblems {
        /// What was found.
        n_subproblems: usize,
    },
    /// A neighborhood of one, or of more than all.
    #[error("`n_neighbors` is {n_neighbors}, but it must lie in 2..={n_subproblems} (`n_subproblems`)")]
    Neighbors {
        /// What was found.
        n_neighbors: usize,
        /// The most it may be.
        n_subproblems: usize,
    },
    /// A child that replaces nothing.
    #[error("`max_replacements` is 0, but it must be at least 1")]
    Replacements,
}

impl ParamGuard for MoeadParams {
    type Checked = MoeadValidParams;
    type Error = MoeadParamsError;

    fn check_ref(&self) -> Result<&MoeadValidParams, MoeadParamsError> {
        let MoeadValidParams { n_subproblems, n_neighbors, max_replacements } = self.0;
        if n_subproblems < 2 {
            return Err(MoeadParamsError::Subproblems { n_subproblems });
        }
        if !(2..=n_subproblems).contains(&n_neighbors) {
            return Err(MoeadParamsError::Neighbors { n_neighbors, n_subproblems });
        }
        if max_replacements == 0 {
            return Err(MoeadParamsError::Replacements);
        }
        Ok(&self.0)
    }

    fn check(self) -> Result<MoeadValidParams, MoeadParamsError> {
        self.check_ref()?;
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_follow_the_budget() {
        let of = |budget| MoeadParams::for_budget(budget).check().expect("valid");
        assert_eq!(of(50), MoeadValidParams { n_subproblems: 10, n_neighbors: 2, max_replacements: 2 });
        assert_eq!(of(400), MoeadValidParams { n_subproblems: 40, n_neighbors: 8, max_replacements: 2 });
        assert_eq!(of(10_000), MoeadValidParams { n_subproblems: 100, n_neighbors: 20, max_replacements: 2 });
    }

    #[test]
    fn bad_parameters_are_named_with_their_value() {
        let message = |params: MoeadParams| params.check().expect_err("invalid").to_string();
        let params = MoeadParams::for_budget(100);
        let neighbors = "`n_neighbors` is 11, but it must lie in 2..=10 (`n_subproblems`)";
        assert_eq!(message(params.n_neighbors(11)), neighbors);
        assert_eq!(message(params.n_subproblems(1)), "`n_subproblems` is 1, but it must be at least 2");
        assert_eq!(message(params.max_replacements(0)), "`max_replacements` is 0, but it must be at least 1");
    }
}
