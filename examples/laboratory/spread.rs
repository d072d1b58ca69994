//! Random maps of a space, evenly spread over bits.

use kvtune::precision::PrecisionMap;
use kvtune::search::Genome;
use kvtune::space::{LayerGroup, Space};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Halvings of the range in which a tilt is looked for.
const HALVINGS: usize = 60;
/// Steepest tilt, a bit: beyond it every group has its end of the ladder.
const STEEPEST: f64 = 64.0;
/// Draws of one map before a space counts as too small for another.
const DRAWS: usize = 1_000;

/// Up to `count` different maps, each random; fewer where the space has no more of them at hand.
///
/// The range from the fewest to the most bits is cut into `count` equal parts, and a map is drawn for the middle of
/// each: groups choose by themselves, with probabilities ∝ exp(λ · bits) and the one λ that makes the expected bits
/// of the map those of the middle. A plain random draw would gather in the middle of the range.
pub(crate) fn spread(space: &Space, count: usize, seed: u64) -> Vec<PrecisionMap> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (low, high) = (expected(space, -STEEPEST), expected(space, STEEPEST));
    let mut maps: Vec<PrecisionMap> = Vec::new();
    for part in 0..count {
        let target = low + (high - low) * (part as f64 + 0.5) / count as f64;
        let tilt = tilt(space, target);
        let drawn = (0..DRAWS).filter_map(|_| draw(space, tilt, &mut random));
        maps.extend(drawn.into_iter().find(|map| !maps.contains(map)));
    }
    maps
}

/// λ for so many expected bits.
fn tilt(space: &Space, target: f64) -> f64 {
    let (mut low, mut high) = (-STEEPEST, STEEPEST);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if expected(space, middle) < target { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// Mean bits of a map whose groups choose by a tilt.
fn expected(space: &Space, tilt: f64) -> f64 {
    let of_group = |group: &LayerGroup| {
        let bits = group.candidates.iter().zip(chances(group, tilt));
        group.layers.len() as f64 * bits.map(|(pair, chance)| pair.mean_bits() * chance).sum::<f64>()
    };
    space.groups().iter().map(of_group).sum::<f64>() / space.n_layers() as f64
}

/// The probability of each of a group's candidates.
fn chances(group: &LayerGroup, tilt: f64) -> Vec<f64> {
    let powers: Vec<f64> = group.candidates.iter().map(|pair| tilt * pair.mean_bits()).collect();
    let most = powers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = powers.into_iter().map(|power| (power - most).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

fn draw(space: &Space, tilt: f64, random: &mut ChaCha8Rng) -> Option<PrecisionMap> {
    let mut choose = |group: &LayerGroup| {
        let mut left: f64 = random.random();
        let beyond = |chance: &f64| {
            left -= chance;
            left < 0.0
        };
        let chances = chances(group, tilt);
        chances.iter().position(beyond).unwrap_or(chances.len() - 1)
    };
    let choices: Vec<usize> = space.groups().iter().map(&mut choose).collect();
    space.map(&Genome::new(choices))
}

/// A space of groups of one layer each, for tests.
#[cfg(test)]
pub(crate) fn ladder(n_layers: usize, pairs: &[&str]) -> Space {
    let pairs: Vec<_> = pairs.iter().map(|pair| pair.parse().expect("a pair")).collect();
    let group = |layer| LayerGroup {
        layers: vec![kvtune::precision::LayerId(layer)],
        candidates: pairs.clone(),
        noise: false,
    };
    Space::new(n_layers, pairs.clone(), (0..n_layers).map(group).collect()).expect("a space")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(map: &PrecisionMap) -> f64 {
        map.pairs().iter().map(|pair| pair.mean_bits()).sum::<f64>() / map.n_layers() as f64
    }

    #[test]
    fn maps_cover_the_range_of_bits_and_are_the_same_for_a_seed() {
        let space = ladder(40, &["KV2", "KV4", "KV8"]);
        let maps = spread(&space, 12, 3);
        assert_eq!((maps.len(), &maps), (12, &spread(&space, 12, 3)));
        assert_ne!(maps, spread(&space, 12, 4));
        // Middles of twelve parts of 2..8 are 2.25, 2.75, …, 7.75; 40 layers keep a draw near its own.
        for (part, map) in maps.iter().enumerate() {
            let target = 2.25 + 0.5 * part as f64;
            assert!((bits(map) - target).abs() < 1.25, "{} for {target}", bits(map));
        }
        assert!(bits(&maps[0]) < 3.0 && bits(&maps[11]) > 7.0);
    }

    #[test]
    fn the_expected_bits_of_a_tilt_are_those_asked_for() {
        let space = ladder(3, &["KV2", "KV4"]);
        // e^{2λ} = 3 gives KV4 three times in four: 3.5 bits.
        assert!((tilt(&space, 3.5) - 3.0_f64.ln() / 2.0).abs() < 1e-9);
        assert!(tilt(&space, 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_space_of_few_maps_gives_each_once() {
        let maps = spread(&ladder(1, &["KV2", "KV4"]), 5, 0);
        assert!(maps.len() == 2 && maps[0] != maps[1], "{maps:?}");
    }
}
