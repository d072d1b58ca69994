//! Rules of thumb that need no search, as lists: uniform maps, `edges`, `key-first`.

use super::{Genome, Problem};
use crate::precision::{Bits, PrecisionPair};
use crate::space::LayerGroup;

/// The genomes of uniform maps: one pair that all groups offer; without pairs, one choice index in all groups.
pub(super) fn uniform(problem: &Problem) -> Vec<Genome> {
    let Some(first) = problem.groups().first() else {
        let n_choices = problem.n_choices(0);
        let alike = (1..problem.n_groups()).all(|group| problem.n_choices(group) == n_choices);
        let same = |choice| Genome::new(vec![choice; problem.n_groups()]);
        return if alike { (0..n_choices).map(same).collect() } else { Vec::new() };
    };
    let everywhere = |&pair: &PrecisionPair| {
        let place = |group: &LayerGroup| group.candidates.iter().position(|&candidate| candidate == pair);
        problem.groups().iter().map(place).collect::<Option<Vec<_>>>().map(Genome::new)
    };
    first.candidates.iter().filter_map(everywhere).collect()
}

/// First and last N layers high, the rest low, for every N and every two levels, distinct genomes only.
///
/// **Ours** in detail: a group is high when it holds one of those layers; a level is a place between a group's
/// narrowest and widest candidate (rounded, as groups may offer different numbers). All N at the widest contrast
/// come first, so that a small budget still sweeps N.
pub(super) fn edges(problem: &Problem) -> Vec<Genome> {
    let groups = problem.groups();
    let n_layers: usize = groups.iter().map(|group| group.layers.len()).sum();
    let steps = groups.iter().map(|group| group.candidates.len()).max().unwrap_or(1).max(2) - 1;
    let mut contrasts: Vec<(usize, usize)> =
        (0..=steps).flat_map(|low| (low..=steps).map(move |high| (low, high))).collect();
    contrasts.sort_by_key(|&(low, high)| (steps - (high - low), low));
    let sweep =
        contrasts.into_iter().flat_map(|contrast| (0..=n_layers.div_ceil(2)).map(move |n| (n, contrast)));
    let mut genomes = Vec::new();
    for (n, (low, high)) in sweep {
        let at_edge =
            |group: &LayerGroup| group.layers.iter().any(|layer| layer.0 < n || layer.0 + n >= n_layers);
        let level = |group: &LayerGroup| if at_edge(group) { high } else { low };
        let choice = |group: &LayerGroup| rounded((group.candidates.len() - 1) * level(group), steps);
        push_new(problem, &mut genomes, Genome::new(groups.iter().map(choice).collect()));
    }
    genomes
}

fn rounded(numerator: usize, denominator: usize) -> usize {
    (2 * numerator + denominator) / (2 * denominator)
}

/// All groups down one ladder of pairs, from the widest to the narrowest, that lowers values before keys.
///
/// **Ours** in detail: a rung with equal widths is followed by the one with narrower values, then keys follow:
/// KV8, K8V4, KV4, K4V2, KV2. A group that does not offer the rung takes its candidate nearest in mean bits, on a
/// tie the one with the wider key.
pub(super) fn key_first(problem: &Problem) -> Vec<Genome> {
    let mut genomes = Vec::new();
    for rung in ladder(problem.groups()) {
        let genome = problem.groups().iter().map(|group| nearest(group, rung)).collect();
        push_new(problem, &mut genomes, Genome::new(genome));
    }
    genomes
}

fn push_new(problem: &Problem, genomes: &mut Vec<Genome>, genome: Genome) {
    if problem.is_within_limits(&genome) && !genomes.contains(&genome) {
        genomes.push(genome);
    }
}

fn ladder(groups: &[LayerGroup]) -> Vec<PrecisionPair> {
    let pairs = || groups.iter().flat_map(|group| &group.candidates);
    let (mut keys, mut values) =
        (descending(pairs().map(|pair| pair.key)), descending(pairs().map(|pair| pair.value)));
    let mut rungs = Vec::new();
    while let (Some(&key), Some(&value)) = (keys.first(), values.first()) {
        rungs.push(PrecisionPair::new(key, value));
        let lower_value = values.len() > 1 && (value >= key || keys.len() == 1);
        if lower_value {
            values.remove(0);
        } else {
            keys.remove(0);
        }
    }
    rungs
}

fn descending(widths: impl Iterator<Item = Bits>) -> Vec<Bits> {
    let mut widths: Vec<Bits> = widths.collect();
    widths.sort_by(|a, b| b.cmp(a));
    widths.dedup();
    widths
}

fn nearest(group: &LayerGroup, rung: PrecisionPair) -> usize {
    let distance = |pair: PrecisionPair| (pair != rung, (pair.mean_bits() - rung.mean_bits()).abs());
    let order = |&a: &usize, &b: &usize| {
        let (a, b) = (group.candidates[a], group.candidates[b]);
        let (near_a, near_b) = (distance(a), distance(b));
        near_a.0.cmp(&near_b.0).then(near_a.1.total_cmp(&near_b.1)).then(b.key.cmp(&a.key))
    };
    (0..group.candidates.len()).min_by(order).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Space;

    fn problem() -> Problem {
        let text = "
n_layers: 4
pairs: [KV2, KV4, KV8]
groups:
  - {layers: [0], candidates: [KV2, K2V4, KV4, K4V8, KV8]}
  - {layers: [1], candidates: [KV2, K4V2, KV4, K8V4, KV8]}
  - {layers: [2], candidates: [KV2, KV8]}
  - {layers: [3], candidates: [KV2, K4V2, KV4, K8V4, KV8]}
";
        let space: Space = serde_yaml::from_str(text).expect("a space");
        Problem::of_space(&space, &[64; 4]).expect("widths fit")
    }

    fn texts(genomes: &[Genome]) -> Vec<String> {
        genomes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn uniform_maps_are_those_that_all_groups_offer() {
        assert_eq!(texts(&uniform(&problem())), ["0-0-0-0", "4-4-1-4"]);
    }

    #[test]
    fn edges_sweeps_n_at_the_widest_contrast_first() {
        let genomes = texts(&edges(&problem()));
        assert_eq!(genomes[..3], ["0-0-0-0", "4-0-0-4", "4-4-1-4"]);
        let distinct: std::collections::BTreeSet<_> = genomes.iter().collect();
        assert_eq!(distinct.len(), genomes.len());
    }

    #[test]
    fn key_first_lowers_values_before_keys() {
        let rungs: Vec<String> = ladder(problem().groups()).iter().map(ToString::to_string).collect();
        assert_eq!(rungs, ["KV8", "K8V4", "KV4", "K4V2", "KV2"]);
        // Layer 0 has no K8V4 and takes K4V8, of as many bits; layer 2 has only both ends, KV4 is nearer to KV2.
        assert_eq!(texts(&key_first(&problem())), ["4-4-1-4", "3-3-1-3", "2-2-0-2", "1-1-0-1", "0-0-0-0"]);
    }

    #[test]
    fn rules_keep_to_the_limits() {
        let problem = problem().with_max_bits(4.5).expect("within reach");
        for genome in edges(&problem).iter().chain(&key_first(&problem)) {
            assert!(problem.is_within_limits(genome));
        }
    }
}
