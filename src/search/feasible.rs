//! The genomes within a problem's limits: all of them, or some drawn uniformly.

use std::collections::BTreeMap;

use rand::Rng;

use super::Problem;
use super::problem::Additive;
use crate::space::Genome;

/// Every genome within the limits, in lexicographic order; `None` when there are more than `most`.
///
/// Also `None` when limits that pull against each other leave so many dead ends that looking would take long.
pub(super) fn all_within(problem: &Problem, most: usize) -> Option<Vec<Genome>> {
    let rest: Vec<Vec<f64>> = problem.limits().iter().map(|limit| limit.cost.least_from()).collect();
    let mut walk =
        Walk { problem, rest, sums: vec![0.0; problem.limits().len()], choices: Vec::new(), most, steps: 0 };

    let mut found = Vec::new();
    walk.extend(&mut found).then_some(found)
}

/// Partial choices that may come to nothing before the enumeration gives up.
const MOST_DEAD_ENDS: usize = 100_000;

struct Walk<'a> {
    problem: &'a Problem,
    rest: Vec<Vec<f64>>,
    sums: Vec<f64>,
    choices: Vec<usize>,
    most: usize,
    steps: usize,
}

impl Walk<'_> {
    /// Adds every completion of the choices so far; false once there are too many.
    fn extend(&mut self, found: &mut Vec<Genome>) -> bool {
        let group = self.choices.len();
        self.steps += 1;
        if self.steps > MOST_DEAD_ENDS + self.most.saturating_mul(2 * self.problem.n_groups()) {
            return false;
        }
        if group == self.problem.n_groups() {
            let genome = Genome::new(self.choices.clone());
            if self.problem.is_within_limits(&genome) {
                found.push(genome);
            }
            return found.len() <= self.most;
        }
        (0..self.problem.n_choices(group)).all(|choice| self.descend(group, choice, found))
    }

    fn descend(&mut self, group: usize, choice: usize, found: &mut Vec<Genome>) -> bool {
        let before = self.sums.clone();
        for (sum, limit) in self.sums.iter_mut().zip(self.problem.limits()) {
            *sum += limit.cost.table()[group][choice];
        }
        let limits = self.problem.limits().iter().zip(&self.sums).zip(&self.rest);
        let mut within =
            limits.map(|((limit, sum), rest)| may_fit(&limit.cost, sum + rest[group + 1], limit.max));
        let go_on = if within.all(|fits| fits) {
            self.choices.push(choice);
            let go_on = self.extend(found);
            self.choices.pop();
            go_on
        } else {
            true
        };
        self.sums = before;
        go_on
    }
}

/// Whether a sum may belong to a genome within the limit; the genome itself decides, rounding aside.
fn may_fit(cost: &Additive, sum: f64, max: f64) -> bool {
    cost.divided(sum) <= max + max.abs() * 1e-12
}

/// Draws genomes within the limits, each with the same probability.
///
/// Under one limit it counts, for every partial sum that can be reached, the ways to complete it within the limit,
/// and walks in proportion: no draw is wasted however tight the limit is. Further limits reject.
pub(super) struct Sampler<'a> {
    problem: &'a Problem,
    /// Ways to complete from a group on, by the sum before it.
    ways: Option<Vec<BTreeMap<i64, f64>>>,
    step: f64,
}

/// Sums held apart per group; beyond it they are rounded to a grid of as many steps (and rejection decides).
const MOST_SUMS: usize = 1 << 15;
/// Draws that further limits may reject before a sampler gives up.
const MOST_REJECTED: usize = 10_000;

impl<'a> Sampler<'a> {
    pub(super) fn new(problem: &'a Problem) -> Self {
        let Some(limit) = problem.limits().first() else { return Self { problem, ways: None, step: 1.0 } };
        let span: f64 = limit.cost.table().iter().flatten().map(|entry| entry.abs()).sum::<f64>().max(1e-300);
        let fine = span * 2_f64.powi(-40);
        let coarse = span / MOST_SUMS as f64;
        let ways = |step| reachable(&limit.cost, limit.max, step).map(|sums| count(&limit.cost, &sums, step));
        match ways(fine) {
            Some(counted) => Self { problem, ways: Some(counted), step: fine },
            None => Self { problem, ways: ways(coarse), step: coarse },
        }
    }

    /// One genome, or `None` when the limits leave (next to) nothing.
    pub(super) fn draw(&self, rng: &mut impl Rng) -> Option<Genome> {
        let drawn = (0..MOST_REJECTED).map(|_| self.candidate(rng));
        drawn.flatten().find(|genome| self.problem.is_within_limits(genome))
    }

    fn candidate(&self, rng: &mut impl Rng) -> Option<Genome> {
        let n_groups = self.problem.n_groups();
        let Some((ways, limit)) = self.ways.as_ref().zip(self.problem.limits().first()) else {
            let choices = (0..n_groups).map(|group| rng.random_range(0..self.problem.n_choices(group)));
            return Some(Genome::new(choices.collect()));
        };
        let (mut sum, mut choices) = (0.0, Vec::with_capacity(n_groups));
        for (group, row) in limit.cost.table().iter().enumerate() {
            let after =
                |entry: &f64| ways[group + 1].get(&key(sum + entry, self.step)).copied().unwrap_or(0.0);
            let weights: Vec<f64> = row.iter().map(after).collect();
            let choice = pick(&weights, rng)?;
            sum += row[choice];
            choices.push(choice);
        }
        Some(Genome::new(choices))
    }
}

fn pick(weights: &[f64], rng: &mut impl Rng) -> Option<usize> {
    let total: f64 = weights.iter().sum();
    let mut left = rng.random::<f64>() * total;
    for (index, &weight) in weights.iter().enumerate() {
        if weight > 0.0 && left < weight {
            return Some(index);
        }
        left -= weight;
    }
    weights.iter().rposition(|&weight| weight > 0.0)
}

fn key(sum: f64, step: f64) -> i64 {
    (sum / step).round() as i64
}

/// The sums that choices of the groups before each one can reach within the limit; `None` when too many.
fn reachable(cost: &Additive, max: f64, step: f64) -> Option<Vec<BTreeMap<i64, f64>>> {
    let rest = cost.least_from();
    let mut levels = vec![BTreeMap::from([(0, 0.0)])];
    for (group, row) in cost.table().iter().enumerate() {
        let sums = levels[group].values().flat_map(|sum| row.iter().map(move |entry| sum + entry));
        let within = sums.filter(|&sum| may_fit(cost, sum + rest[group + 1], max));
        let level: BTreeMap<i64, f64> = within.map(|sum| (key(sum, step), sum)).collect();
        if level.len() > 2 * MOST_SUMS {
            return None;
        }
        levels.push(level);
    }
    Some(levels)
}

/// Ways to complete each reachable sum: 1 after the last group, else the sum over the next choices.
fn count(cost: &Additive, levels: &[BTreeMap<i64, f64>], step: f64) -> Vec<BTreeMap<i64, f64>> {
    let last = levels.last().map(|level| level.keys().map(|&sum| (sum, 1.0)).collect());
    let mut ways: Vec<BTreeMap<i64, f64>> = last.into_iter().collect();
    for (level, row) in levels.iter().zip(cost.table()).rev() {
        let next = &ways[ways.len() - 1];
        let after = |sum: f64| row.iter().filter_map(|entry| next.get(&key(sum + entry, step))).sum::<f64>();
        ways.push(level.iter().map(|(&at, &sum)| (at, after(sum))).collect());
    }
    ways.reverse();
    ways
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn problem(n_groups: usize, max_bits: Option<f64>) -> Problem {
        let bits = Additive::new(vec![vec![2.0, 4.0, 8.0]; n_groups], n_groups as f64).expect("a table");
        let problem = Problem::new(bits).expect("ordered");
        match max_bits {
            Some(max) => problem.with_max_bits(max).expect("within reach"),
            None => problem,
        }
    }

    #[test]
    fn enumeration_keeps_to_the_limits() {
        // Sums of two groups up to 8: 2+2, 2+4, 4+2, 4+4.
        let all = all_within(&problem(2, Some(4.0)), 4).expect("four");
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["0-0", "0-1", "1-0", "1-1"]);
        assert_eq!(all_within(&problem(2, Some(4.0)), 3), None);
        assert_eq!(all_within(&problem(3, None), 27).map(|all| all.len()), Some(27));
    }

    #[test]
    fn draws_are_uniform_over_what_is_feasible() {
        for max_bits in [None, Some(4.0)] {
            let problem = problem(3, max_bits);
            let all = all_within(&problem, 27).expect("27 at most");
            let (sampler, mut rng) = (Sampler::new(&problem), ChaCha8Rng::seed_from_u64(1));
            let mut seen = BTreeMap::<Genome, u32>::new();
            for _ in 0..all.len() * 400 {
                *seen.entry(sampler.draw(&mut rng).expect("feasible")).or_default() += 1;
            }
            assert_eq!(seen.len(), all.len());
            // 400 expected each; five standard deviations are 100.
            assert!(seen.values().all(|count| (300..=500).contains(count)), "{seen:?}");
        }
    }

    #[test]
    fn a_tight_limit_on_many_groups_wastes_no_draws() {
        let problem = problem(32, Some(2.125));
        let (sampler, mut rng) = (Sampler::new(&problem), ChaCha8Rng::seed_from_u64(1));
        for _ in 0..100 {
            let genome = sampler.draw(&mut rng).expect("feasible");
            assert!(problem.is_within_limits(&genome));
        }
    }
}
