use std::collections::BTreeMap;

use linfa::ParamGuard;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::engine::Known;
use super::feasible::Sampler;
use super::refine::{Refinement, best_seeds};
use super::variation::child;
use super::weights::{Scale, neighborhoods, weights};
use super::{Genome, LossTable, Problem};

/// Generations without a new genome after which the search ends.
const MOST_STALE: usize = 20;
/// Children made for one subproblem before it goes without a new one.
const MOST_TRIES: usize = 20;

/// Checked parameters of MOEA/D; made by [`MoeadParams`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoeadValidParams {
    n_subproblems: usize,
    n_neighbors: usize,
    max_replacements: usize,
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

/// MOEA/D (Zhang & Li, 2007): one subproblem per weight vector, each bettered with its neighbors' help.
///
/// **Ours**: a generation is made at once from the state at its beginning (so that workers cannot change it); ideal
/// and nadir come from the archive; feasible beats infeasible, less violation beats more; a child already known is
/// made anew; with a loss table, generations are preceded by what [`Refinement`] finds worth a try.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Moead {
    params: MoeadValidParams,
    rng: ChaCha8Rng,
    seeds: Vec<Genome>,
    table: Option<LossTable>,
    /// Incumbent of each subproblem; empty before the first generation is told.
    population: Vec<Genome>,
    /// For which subproblem each pending child was made; seeds and refinements are for all.
    made_for: BTreeMap<Genome, usize>,
}

impl Moead {
    pub(super) fn new(
        params: MoeadValidParams,
        seed: u64,
        seeds: Vec<Genome>,
        table: Option<LossTable>,
    ) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        Self { params, rng, seeds, table, population: Vec::new(), made_for: BTreeMap::new() }
    }

    /// The genomes it holds, for a state read from a file to be checked.
    pub(super) fn genomes(&self) -> impl Iterator<Item = &Genome> {
        self.seeds.iter().chain(&self.population).chain(self.made_for.keys())
    }

    /// Whether numbers of subproblems agree, and the table is one of the problem's.
    pub(super) fn is_sound(&self, problem: &Problem) -> bool {
        let n = self.params.n_subproblems;
        let table =
            self.table.as_ref().is_none_or(|table| LossTable::new(table.losses().to_vec(), problem).is_ok());
        let population = self.population.is_empty() || self.population.len() == n;
        MoeadParams(self.params).check_ref().is_ok()
            && table
            && population
            && self.made_for.values().all(|&subproblem| subproblem < self.population.len())
    }

    pub(super) fn propose(&mut self, known: &Known<'_>) -> Vec<Genome> {
        if known.memo.is_empty() {
            return self.start(known);
        }
        let refined = self.refine(known);
        if refined.is_empty() { self.generation(known) } else { refined }
    }

    /// Seeds, filled up with random genomes to the size of the population.
    fn start(&mut self, known: &Known<'_>) -> Vec<Genome> {
        let mut first = best_seeds(known, &self.seeds, self.table.as_ref(), self.params.n_subproblems);
        let sampler = Sampler::new(known.problem);
        for _ in 0..self.params.n_subproblems * MOST_TRIES {
            if first.len() >= self.params.n_subproblems.min(known.left)
                || self.table.is_some() && !first.is_empty()
            {
                break;
            }
            first.extend(sampler.draw(&mut self.rng).filter(|genome| !first.contains(genome)));
        }
        first
    }

    fn refine(&mut self, known: &Known<'_>) -> Vec<Genome> {
        let model = self.table.as_ref().and_then(|table| Refinement::new(known, table));
        model.map(|model| model.batch(known, &mut self.rng)).unwrap_or_default()
    }

    fn generation(&mut self, known: &Known<'_>) -> Vec<Genome> {
        (0..MOST_STALE).map(|_| self.children(known)).find(|made| !made.is_empty()).unwrap_or_default()
    }

    /// One new child per subproblem, subproblems in random order.
    fn children(&mut self, known: &Known<'_>) -> Vec<Genome> {
        let neighborhoods = neighborhoods(self.population.len(), self.params.n_neighbors);
        let mut order: Vec<usize> = (0..self.population.len()).collect();
        order.shuffle(&mut self.rng);
        let mut made = Vec::new();
        for subproblem in order {
            if let Some(genome) = self.new_child(known, &neighborhoods[subproblem]) {
                self.made_for.insert(genome.clone(), subproblem);
                made.push(genome);
            }
        }
        made
    }

    fn new_child(&mut self, known: &Known<'_>, neighborhood: &[usize]) -> Option<Genome> {
        for _ in 0..MOST_TRIES {
            let mut mates = neighborhood.to_vec();
            let (mates, _) = mates.partial_shuffle(&mut self.rng, 2);
            let [mother, father] = [mates.first()?, mates.last()?].map(|&mate| &self.population[mate]);
            let made = child(known.problem, [mother, father], &mut self.rng);
            let is_new =
                |genome: &Genome| !known.memo.contains_key(genome) && !self.made_for.contains_key(genome);
            if let Some(genome) = made.filter(is_new) {
                return Some(genome);
            }
        }
        None
    }

    pub(super) fn absorb(&mut self, known: &Known<'_>, generation: &[Genome]) {
        let Some(scale) = scale(known) else { return };
        let weights = weights(self.params.n_subproblems);
        if self.population.is_empty() {
            let incumbent = |weight: &[f64; 2]| best(known, &scale, *weight);
            self.population = weights.iter().filter_map(incumbent).collect();
            return;
        }
        let neighborhoods = neighborhoods(self.population.len(), self.params.n_neighbors);
        let made_for = std::mem::take(&mut self.made_for);
        for genome in generation {
            let (mut places, most) = match made_for.get(genome) {
                Some(&subproblem) => (neighborhoods[subproblem].clone(), self.params.max_replacements),
                None => ((0..self.population.len()).collect(), self.population.len()),
            };
            places.shuffle(&mut self.rng);
            let better = |&place: &usize| {
                let key = |genome| key(known, &scale, weights[place], genome);
                key(genome) < key(&self.population[place])
            };
            let beaten: Vec<usize> = places.into_iter().filter(better).take(most).collect();
            beaten.into_iter().for_each(|place| self.population[place] = genome.clone());
        }
    }
}

fn scale(known: &Known<'_>) -> Option<Scale> {
    Some(Scale { ideal: known.archive.ideal()?, nadir: known.archive.nadir()? })
}

/// What decides between two genomes in a subproblem: violation first, then the Tchebycheff value.
fn key(known: &Known<'_>, scale: &Scale, weight: [f64; 2], genome: &Genome) -> (f64, f64) {
    let value = known.objectives(genome).map_or(f64::INFINITY, |at| scale.tchebycheff(weight, at));
    (known.violation(genome), value)
}

fn best(known: &Known<'_>, scale: &Scale, weight: [f64; 2]) -> Option<Genome> {
    let by_key = |a: &&Genome, b: &&Genome| {
        let (a, b) = (key(known, scale, weight, a), key(known, scale, weight, b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    };
    known.memo.keys().min_by(by_key).cloned()
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
