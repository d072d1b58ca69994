use serde::{Deserialize, Serialize};

use crate::precision::{Bits, LayerId, PrecisionMap, PrecisionPair};

/// Keys or values of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Its keys.
    Keys,
    /// Its values.
    Values,
}

impl Side {
    /// Keys first.
    pub const BOTH: [Self; 2] = [Self::Keys, Self::Values];

    fn of(self, pair: PrecisionPair) -> Bits {
        match self {
            Self::Keys => pair.key,
            Self::Values => pair.value,
        }
    }

    fn with(self, pair: PrecisionPair, bits: Bits) -> PrecisionPair {
        match self {
            Self::Keys => PrecisionPair { key: bits, ..pair },
            Self::Values => PrecisionPair { value: bits, ..pair },
        }
    }
}

/// A map with one side of one group a step lower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnockOut {
    /// The group, from 0.
    pub group: usize,
    /// Its layers of the pair `from`: all, in a map that respects the groups.
    pub layers: Vec<LayerId>,
    /// What is lowered.
    pub side: Side,
    /// Their pair in the map.
    pub from: PrecisionPair,
    /// Their pair in the lowered map.
    pub to: PrecisionPair,
    /// The lowered map.
    pub map: PrecisionMap,
}

/// Each group's keys, then its values, one step lower, and how many sides have no step below.
///
/// A step is the next narrower width that some candidate pair has on that side (**ours**). Layers of a group that have
/// several pairs in the map, as in one made by hand, are lowered pair by pair.
///
/// # Panics
/// Never for groups of layers that the map has.
pub fn knock_outs(
    map: &PrecisionMap,
    groups: &[Vec<LayerId>],
    candidates: &[PrecisionPair],
) -> (Vec<KnockOut>, usize) {
    let (mut found, mut narrowest) = (Vec::new(), 0);
    for (group, layers) in groups.iter().enumerate() {
        for (from, layers) in by_pair(map, layers) {
            for side in Side::BOTH {
                match below(side, from, candidates) {
                    Some(to) => found.push(lowered(
                        map,
                        KnockOut { group, layers: layers.clone(), side, from, to, map: map.clone() },
                    )),
                    None => narrowest += 1,
                }
            }
        }
    }
    (found, narrowest)
}

/// Layers of one pair together, in the order in which pairs first come.
fn by_pair(map: &PrecisionMap, layers: &[LayerId]) -> Vec<(PrecisionPair, Vec<LayerId>)> {
    let mut parts: Vec<(PrecisionPair, Vec<LayerId>)> = Vec::new();
    for &layer in layers {
        let pair = map.pairs()[layer.0];
        match parts.iter_mut().find(|(known, _)| *known == pair) {
            Some((_, part)) => part.push(layer),
            None => parts.push((pair, vec![layer])),
        }
    }
    parts
}

fn below(side: Side, from: PrecisionPair, candidates: &[PrecisionPair]) -> Option<PrecisionPair> {
    let narrower = candidates.iter().map(|&pair| side.of(pair)).filter(|&bits| bits < side.of(from));
    narrower.max().map(|bits| side.with(from, bits))
}

fn lowered(map: &PrecisionMap, knock_out: KnockOut) -> KnockOut {
    let mut pairs = map.pairs().to_vec();
    knock_out.layers.iter().for_each(|layer| pairs[layer.0] = knock_out.to);
    KnockOut { map: PrecisionMap::new(pairs), ..knock_out }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<PrecisionPair> {
        text.split(' ').map(|pair| pair.parse().expect("a pair")).collect()
    }

    fn told(map: &str, groups: &[&[usize]]) -> (Vec<String>, usize) {
        let groups: Vec<Vec<LayerId>> =
            groups.iter().map(|layers| layers.iter().map(|&layer| LayerId(layer)).collect()).collect();
        let (found, narrowest) = knock_outs(&PrecisionMap::new(pairs(map)), &groups, &pairs("KV8 K4V2 KV2"));
        let tell = |k: &KnockOut| format!("{} {:?} {}→{}: {}", k.group, k.side, k.from, k.to, k.map);
        (found.iter().map(tell).collect(), narrowest)
    }

    #[test]
    fn keys_go_down_first_and_to_the_next_width_of_their_side() {
        let (found, narrowest) = told("KV8 KV2 KV8", &[&[0, 2], &[1]]);
        assert_eq!(
            found,
            ["0 Keys KV8→K4V8: 0 K4V8, 1 KV2, 2 K4V8", "0 Values KV8→K8V2: 0 K8V2, 1 KV2, 2 K8V2"],
            "values have no candidate at 4 bits"
        );
        assert_eq!(narrowest, 2);
    }

    #[test]
    fn a_group_of_several_pairs_is_lowered_pair_by_pair() {
        let (found, narrowest) = told("K4V2 KV2 K4V2", &[&[0, 1, 2]]);
        assert_eq!(found, ["0 Keys K4V2→KV2: 0-2 KV2"]);
        assert_eq!(narrowest, 3);
    }
}
