use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::engine::Known;
use super::feasible::Sampler;
use super::variation::child;
use super::{Genome, Objectives};
use crate::space::dominates;

/// Generations without a new genome after which the search ends.
const MOST_STALE: usize = 20;
/// Children made for one place of a generation before it stays empty.
const MOST_TRIES: usize = 20;

/// NSGA-II (Deb et al., 2002): non-dominated sorting, crowding distance, binary tournaments.
///
/// The population has the size that MOEA/D's would have, and children are made by the same operators, so that only
/// the two ways to select are compared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Nsga2 {
    size: usize,
    rng: ChaCha8Rng,
    seeds: Vec<Genome>,
    /// Sorted: better front first, in a front the less crowded first.
    population: Vec<Genome>,
}

impl Nsga2 {
    pub(super) fn new(budget: usize, seed: u64, seeds: Vec<Genome>) -> Self {
        let size = (budget / 10).clamp(10, 100);
        let rng = ChaCha8Rng::seed_from_u64(seed);
        Self { size, rng, seeds, population: Vec::new() }
    }

    /// The genomes it holds, for a state read from a file to be checked.
    pub(super) fn genomes(&self) -> impl Iterator<Item = &Genome> {
        self.seeds.iter().chain(&self.population)
    }

    pub(super) fn propose(&mut self, known: &Known<'_>) -> Vec<Genome> {
        if known.memo.is_empty() {
            return self.start(known);
        }
        (0..MOST_STALE).map(|_| self.children(known)).find(|made| !made.is_empty()).unwrap_or_default()
    }

    fn start(&mut self, known: &Known<'_>) -> Vec<Genome> {
        let mut first = std::mem::take(&mut self.seeds);
        let sampler = Sampler::new(known.problem);
        for _ in 0..self.size * MOST_TRIES {
            if first.len() >= self.size {
                break;
            }
            first.extend(sampler.draw(&mut self.rng).filter(|genome| !first.contains(genome)));
        }
        first
    }

    fn children(&mut self, known: &Known<'_>) -> Vec<Genome> {
        let mut made: Vec<Genome> = Vec::new();
        for _ in 0..self.size * MOST_TRIES {
            if made.len() >= self.size || self.population.is_empty() {
                break;
            }
            let parents = [self.tournament(), self.tournament()].map(|place| &self.population[place]);
            let genome = child(known.problem, parents, &mut self.rng);
            made.extend(genome.filter(|genome| !known.memo.contains_key(genome) && !made.contains(genome)));
        }
        made
    }

    /// The better of two drawn members; the population is sorted, so the one of the lower place.
    fn tournament(&mut self) -> usize {
        let n = self.population.len();
        self.rng.random_range(0..n).min(self.rng.random_range(0..n))
    }

    pub(super) fn absorb(&mut self, known: &Known<'_>, generation: &[Genome]) {
        self.population.extend_from_slice(generation);
        let told: Vec<(f64, Objectives)> = self
            .population
            .iter()
            .map(|genome| {
                let nowhere = Objectives { bits: f64::INFINITY, loss: f64::INFINITY };
                (known.violation(genome), known.objectives(genome).unwrap_or(nowhere))
            })
            .collect();
        let survivors = select(&told, self.size);
        self.population = survivors.into_iter().map(|index| self.population[index].clone()).collect();
    }
}

/// The `size` best members, best first: by front, and in a front the least crowded first.
fn select(told: &[(f64, Objectives)], size: usize) -> Vec<usize> {
    let mut selected = Vec::with_capacity(size);
    for front in fronts(told) {
        let mut members: Vec<(f64, usize)> = crowding(told, &front).into_iter().zip(front).collect();
        members.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        selected.extend(members.into_iter().map(|member| member.1));
        if selected.len() >= size {
            break;
        }
    }
    selected.truncate(size);
    selected
}

/// Fast non-dominated sort under constraints: less violation dominates, then the objectives decide.
fn fronts(told: &[(f64, Objectives)]) -> Vec<Vec<usize>> {
    let beats = |a: usize, b: usize| {
        let ((a_violation, a), (b_violation, b)) = (told[a], told[b]);
        a_violation < b_violation || (a_violation <= b_violation && dominates(a.point(), b.point()))
    };
    let beaten_by = |index: usize| (0..told.len()).filter(|&other| beats(other, index)).count();
    let mut beaten: Vec<usize> = (0..told.len()).map(beaten_by).collect();
    let mut left: Vec<usize> = (0..told.len()).collect();
    let mut fronts = Vec::new();
    while !left.is_empty() {
        let (front, rest): (Vec<usize>, Vec<usize>) = left.into_iter().partition(|&index| beaten[index] == 0);
        for &index in &rest {
            beaten[index] -= front.iter().filter(|&&winner| beats(winner, index)).count();
        }
        if front.is_empty() {
            break;
        }
        fronts.push(front);
        left = rest;
    }
    fronts
}

/// Distance between both neighbors on the front, summed over normalized objectives; infinite at the ends.
fn crowding(told: &[(f64, Objectives)], front: &[usize]) -> Vec<f64> {
    let mut distances = vec![0.0; front.len()];
    let axes: [fn(Objectives) -> f64; 2] = [|at| at.bits, |at| at.loss];
    for axis in axes {
        let value = |place: usize| axis(told[front[place]].1);
        let mut order: Vec<usize> = (0..front.len()).collect();
        order.sort_by(|&a, &b| value(a).total_cmp(&value(b)).then(front[a].cmp(&front[b])));
        let (Some(&first), Some(&last)) = (order.first(), order.last()) else { return distances };
        let range = value(last) - value(first);
        for three in order.windows(3) {
            distances[three[1]] +=
                if range > 0.0 { (value(three[2]) - value(three[0])) / range } else { 0.0 };
        }
        [first, last].into_iter().for_each(|end| distances[end] = f64::INFINITY);
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(points: &[(f64, f64, f64)]) -> Vec<(f64, Objectives)> {
        points.iter().map(|&(violation, bits, loss)| (violation, Objectives { bits, loss })).collect()
    }

    #[test]
    fn fronts_peel_off_one_by_one_and_violation_comes_last() {
        let told =
            told(&[(0.0, 1.0, 3.0), (0.0, 2.0, 4.0), (0.5, 0.0, 0.0), (0.0, 3.0, 1.0), (0.0, 3.0, 5.0)]);
        assert_eq!(fronts(&told), [vec![0, 3], vec![1], vec![4], vec![2]]);
    }

    #[test]
    fn the_lonely_member_survives_the_crowded_one() {
        let told = told(&[(0.0, 0.0, 10.0), (0.0, 1.0, 9.0), (0.0, 2.0, 8.0), (0.0, 10.0, 0.0)]);
        assert_eq!(select(&told, 3), [0, 3, 2]);
    }
}
