use std::fmt;

use linfa::ParamGuard;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::additive::{additive_front, evenly_along_bits};
use super::engine::Policy;
use super::feasible::{Sampler, all_within};
use super::moead::Moead;
use super::nsga2::Nsga2;
use super::rules::{edges, key_first, uniform};
use super::{Genome, LossTable, MoeadParams, Problem, Search, SearchError};

/// How a search chooses what to evaluate; all on one interface and budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// MOEA/D, or `exhaustive` where the space is no larger than the budget.
    #[default]
    Moead,
    /// NSGA-II (Deb et al., 2002): what KVTuner's published code runs.
    Nsga2,
    /// Distinct genomes, uniform over those within the limits.
    Random,
    /// All genomes within the limits; an error where they are more than the budget.
    Exhaustive,
    /// The exact front of the additive model; evenly along bits where it is longer than the budget.
    Additive,
    /// First and last N layers high, the others low, N swept: the rule of thumb that KVTuner says fails.
    Edges,
    /// All groups down one ladder that lowers values before keys.
    KeyFirst,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 7] = [
        Self::Moead,
        Self::Nsga2,
        Self::Random,
        Self::Exhaustive,
        Self::Additive,
        Self::Edges,
        Self::KeyFirst,
    ];

    /// As it is written in a job: `moead`, `key-first`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Moead => "moead",
            Self::Nsga2 => "nsga2",
            Self::Random => "random",
            Self::Exhaustive => "exhaustive",
            Self::Additive => "additive",
            Self::Edges => "edges",
            Self::KeyFirst => "key-first",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a search is given besides its problem.
#[derive(Clone, Debug, Default)]
pub struct SearchOptions {
    /// Distinct genomes that may be evaluated. Measurements behind `table` are for the caller to take off.
    pub evaluations: usize,
    /// Seed of the search's own generator.
    pub seed: u64,
    /// Losses of single choices: needed by `additive`; `moead` and `nsga2` start from the additive front, and
    /// `moead` goes on to use it as a model.
    pub table: Option<LossTable>,
    /// Whether `moead` and `nsga2` start from the uniform configurations too.
    pub uniform: bool,
    /// Parameters of `moead`; those for the budget by default.
    pub moead: Option<MoeadParams>,
}

impl Search {
    /// A search of `problem` by `algorithm`.
    ///
    /// # Errors
    /// No evaluations, bad parameters, a table or layers that the algorithm needs and does not get, a table of
    /// another shape, a space too large to be exhausted.
    pub fn new(problem: Problem, algorithm: Algorithm, options: &SearchOptions) -> Result<Self, SearchError> {
        if options.evaluations == 0 {
            return Err(SearchError::Budget);
        }
        if let Some(table) = &options.table {
            problem.check_shape("loss", table.losses())?;
        }
        let policy = policy(&problem, algorithm, options)?;
        Ok(Self::with_policy(problem, options.evaluations, policy))
    }
}

fn policy(problem: &Problem, algorithm: Algorithm, options: &SearchOptions) -> Result<Policy, SearchError> {
    let budget = options.evaluations;
    Ok(match algorithm {
        Algorithm::Moead => moead(problem, options)?,
        Algorithm::Nsga2 => {
            Policy::Nsga2(Box::new(Nsga2::new(budget, options.seed, seeds(problem, options))))
        }
        Algorithm::Random => Policy::List(random(problem, budget, options.seed)),
        Algorithm::Exhaustive => Policy::List(all_within(problem, budget).ok_or_else(|| {
            let size = problem.size();
            let power = || format!("about 10^{:.0}", size.log10);
            SearchError::TooLarge { needed: size.exact.map_or_else(power, |n| format!("up to {n}")), budget }
        })?),
        Algorithm::Additive => {
            let table = options.table.as_ref().ok_or(SearchError::NoTable { algorithm })?;
            Policy::List(evenly_along_bits(&additive_front(problem, table), budget))
        }
        Algorithm::Edges | Algorithm::KeyFirst if problem.groups().is_empty() => {
            return Err(SearchError::NoLayers { algorithm });
        }
        Algorithm::Edges => Policy::List(edges(problem)),
        Algorithm::KeyFirst => Policy::List(key_first(problem)),
    })
}

fn moead(problem: &Problem, options: &SearchOptions) -> Result<Policy, SearchError> {
    let budget = options.evaluations;
    let params = options.moead.unwrap_or_else(|| MoeadParams::for_budget(budget)).check()?;
    if let Some(all) = all_within(problem, budget) {
        return Ok(Policy::List(all));
    }
    let seeds = seeds(problem, options);
    Ok(Policy::Moead(Box::new(Moead::new(params, options.seed, seeds, options.table.clone()))))
}

/// What a population starts from: the additive front when there is a table, and the uniform configurations.
fn seeds(problem: &Problem, options: &SearchOptions) -> Vec<Genome> {
    let front = options.table.iter().flat_map(|table| additive_front(problem, table));
    let uniform = if options.uniform { uniform(problem) } else { Vec::new() };
    let mut seeds: Vec<Genome> = front.map(|point| point.0).collect();
    for genome in uniform {
        if problem.is_within_limits(&genome) && !seeds.contains(&genome) {
            seeds.push(genome);
        }
    }
    seeds
}

/// Draws of a genome already drawn before `random` gives up.
const MOST_REPEATS: usize = 100;

fn random(problem: &Problem, budget: usize, seed: u64) -> Vec<Genome> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // A space little larger than the budget is shuffled: drawing its last genomes would take long.
    if let Some(mut all) = all_within(problem, budget.saturating_mul(4)) {
        all.shuffle(&mut rng);
        all.truncate(budget);
        return all;
    }
    let sampler = Sampler::new(problem);
    let (mut drawn, mut known, mut repeats) = (Vec::new(), std::collections::BTreeSet::new(), 0);
    while drawn.len() < budget && repeats < MOST_REPEATS {
        match sampler.draw(&mut rng) {
            Some(genome) if known.insert(genome.clone()) => {
                drawn.push(genome);
                repeats = 0;
            }
            _ => repeats += 1,
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Additive;

    fn problem() -> Problem {
        Problem::new(Additive::new(vec![vec![2.0, 4.0, 8.0]; 3], 3.0).expect("a table")).expect("ordered")
    }

    #[test]
    fn an_algorithm_is_written_as_it_is_named() {
        for algorithm in Algorithm::ALL {
            let text = serde_yaml::to_string(&algorithm).expect("writes");
            assert_eq!(text.trim(), algorithm.name());
        }
    }

    #[test]
    fn what_an_algorithm_lacks_is_said() {
        let start = |algorithm, evaluations| {
            let options = SearchOptions { evaluations, ..SearchOptions::default() };
            Search::new(problem(), algorithm, &options).expect_err("cannot start").to_string()
        };
        assert_eq!(start(Algorithm::Moead, 0), "`evaluations` is 0, expected at least 1");
        let table = "`algorithm: additive` needs a table of losses per group and pair, and none was measured";
        assert_eq!(start(Algorithm::Additive, 5), table);
        let layers = "`algorithm: edges` needs the layers and pairs of each group, and the problem has none";
        assert_eq!(start(Algorithm::Edges, 5), layers);
        let large = "`algorithm: exhaustive` needs up to 27 evaluations, but `evaluations` is 26";
        assert_eq!(start(Algorithm::Exhaustive, 26), large);
    }
}
