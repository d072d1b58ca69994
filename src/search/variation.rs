//! How a new genome is made of known ones; shared by MOEA/D and NSGA-II.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{Genome, Problem};

/// Probability that a child mixes both parents; else it starts as the first.
const CROSSOVER: f64 = 0.9;

/// A child within the limits: uniform crossover, mutation, and repair. `None` when repair finds no way down.
pub(super) fn child(problem: &Problem, parents: [&Genome; 2], rng: &mut ChaCha8Rng) -> Option<Genome> {
    let [mother, father] = parents.map(Genome::choices);
    let mix = rng.random_bool(CROSSOVER);
    let genes = mother.iter().zip(father);
    let mut choices: Vec<usize> =
        genes.map(|(&a, &b)| if mix && rng.random_bool(0.5) { b } else { a }).collect();
    mutate(problem, &mut choices, rng);
    repair(problem, choices, rng)
}

/// Each gene with probability 1/n: half of the time to a neighboring choice, else to any other.
fn mutate(problem: &Problem, choices: &mut [usize], rng: &mut ChaCha8Rng) {
    let rate = 1.0 / choices.len().max(1) as f64;
    for (group, gene) in choices.iter_mut().enumerate() {
        let n_choices = problem.n_choices(group);
        if n_choices > 1 && rng.random_bool(rate) {
            *gene = if rng.random_bool(0.5) {
                neighbor(*gene, n_choices, rng)
            } else {
                other(*gene, n_choices, rng)
            };
        }
    }
}

fn neighbor(gene: usize, n_choices: usize, rng: &mut ChaCha8Rng) -> usize {
    let up = gene == 0 || (gene + 1 < n_choices && rng.random_bool(0.5));
    if up { gene + 1 } else { gene - 1 }
}

fn other(gene: usize, n_choices: usize, rng: &mut ChaCha8Rng) -> usize {
    let drawn = rng.random_range(0..n_choices - 1);
    if drawn < gene { drawn } else { drawn + 1 }
}

/// **Ours.** Lowers random genes one step at a time until the genome is within the limits.
fn repair(problem: &Problem, choices: Vec<usize>, rng: &mut ChaCha8Rng) -> Option<Genome> {
    let mut genome = Genome::new(choices);
    while !problem.is_within_limits(&genome) {
        let lowerable: Vec<usize> =
            (0..genome.n_groups()).filter(|&group| genome.choices()[group] > 0).collect();
        if lowerable.is_empty() {
            return None;
        }
        let group = lowerable[rng.random_range(0..lowerable.len())];
        genome = genome.with(group, genome.choices()[group] - 1);
    }
    Some(genome)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::search::Additive;

    #[test]
    fn children_have_the_problems_shape_and_keep_to_its_limits() {
        let table = vec![vec![2.0], vec![2.0, 4.0], vec![2.0, 4.0, 8.0]];
        let bits = Additive::new(table, 3.0).expect("a table");
        let problem = Problem::new(bits).expect("ordered").with_max_bits(4.0).expect("within reach");
        let parents = [&Genome::new(vec![0, 1, 2]), &Genome::new(vec![0, 0, 1])];
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let children: std::collections::BTreeSet<Genome> =
            (0..200).filter_map(|_| child(&problem, parents, &mut rng)).collect();
        assert!(children.iter().all(|child| problem.is_within_limits(child)));
        // 0-1-2 takes 14/3 bits; the other five are within 4.
        assert_eq!(children.len(), 5);
    }
}
