//! Reading a saved search: nothing in a file is trusted to fit together.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::engine::{Pending, Policy};
use super::{Archive, Genome, Objectives, Problem, Search, SearchError};

/// A search as a file holds it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unchecked {
    problem: Problem,
    budget: usize,
    policy: Policy,
    memo: BTreeMap<Genome, Objectives>,
    archive: Archive,
    pending: Vec<Pending>,
    done: bool,
}

impl TryFrom<Unchecked> for Search {
    type Error = SearchError;

    fn try_from(read: Unchecked) -> Result<Self, SearchError> {
        let problem = rebuilt(&read.problem)?;
        if let Some(found) = genomes(&read).find(|genome| !problem.is_of_shape(genome)).cloned() {
            return Err(SearchError::Saved { found: format!("genome `{found}` is not of its problem") });
        }
        let (known, open) = (read.memo.len(), read.pending.len());
        if known.saturating_add(open) > read.budget {
            let found = format!("{known} genomes are evaluated and {open} pending of {} in all", read.budget);
            return Err(SearchError::Saved { found });
        }
        if matches!(&read.policy, Policy::Moead(moead) if !moead.is_sound(&problem)) {
            return Err(SearchError::Saved { found: "its population and parameters do not agree".into() });
        }
        let Unchecked { budget, policy, memo, archive, pending, done, .. } = read;
        Ok(Self { problem, budget, policy, memo, archive, pending, done })
    }
}

/// The problem once more, by the constructors that check it.
fn rebuilt(read: &Problem) -> Result<Problem, SearchError> {
    let mut problem = Problem::new(read.bits().clone())?.with_groups(read.groups().to_vec())?;
    for limit in read.limits() {
        problem = problem.with_limit(limit.clone())?;
    }
    match read.max_loss() {
        Some(max_loss) => problem.with_max_loss(max_loss),
        None => Ok(problem),
    }
}

fn genomes(read: &Unchecked) -> impl Iterator<Item = &Genome> {
    let held: Vec<&Genome> = match &read.policy {
        Policy::List(list) => list.iter().collect(),
        Policy::Moead(moead) => moead.genomes().collect(),
        Policy::Nsga2(nsga2) => nsga2.genomes().collect(),
    };
    let front = read.archive.front().iter().map(|member| &member.0);
    let pending = read.pending.iter().map(|pending| &pending.genome);
    held.into_iter().chain(read.memo.keys()).chain(front).chain(pending)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Additive, Algorithm, SearchOptions, Searcher};

    fn saved() -> String {
        let bits = Additive::new(vec![vec![2.0, 4.0, 8.0]; 4], 4.0).expect("a table");
        let problem = Problem::new(bits).expect("ordered").with_max_bits(7.0).expect("within reach");
        let options = SearchOptions { evaluations: 20, ..SearchOptions::default() };
        let mut search = Search::new(problem, Algorithm::Moead, &options).expect("starts");
        let told: Vec<_> =
            search.ask().into_iter().map(|genome| (genome, Objectives { bits: 0.0, loss: 1.0 })).collect();
        search.tell(&told);
        serde_yaml::to_string(&search).expect("writes")
    }

    #[test]
    fn a_saved_search_that_does_not_fit_together_is_refused() {
        let refused = |from: &str, to: &str| {
            let text = saved();
            assert!(text.contains(from), "no {from:?} in {text}");
            serde_yaml::from_str::<Search>(&text.replacen(from, to, 1)).expect_err("refused").to_string()
        };
        assert!(serde_yaml::from_str::<Search>(&saved()).is_ok());
        assert!(
            refused("budget: 20", "budget: 3").contains("10 genomes are evaluated and 0 pending of 3 in all")
        );
        assert!(refused("n_subproblems: 10", "n_subproblems: 11").contains("do not agree"));
        assert!(refused("divisor: 4.0", "divisor: 0.0").contains("the divisor of a cost is 0"));
        assert!(refused("max: 7.0", "max: 1.0").contains("`max_bits` is 1 equivalent bits"));
        assert!(refused("  population:\n", "  population:\n  - 9-9-9-9\n").contains("genome `9-9-9-9`"));
    }
}
