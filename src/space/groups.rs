use serde::{Deserialize, Serialize};

use super::{Clustering, Genome, Partition, SpaceError};
use crate::precision::{LayerId, PrecisionMap, PrecisionPair};

/// Layers that share one pair: one variable of the search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerGroup {
    /// The layers, ascending.
    pub layers: Vec<LayerId>,
    /// The pairs to choose from, fewest bits first.
    pub candidates: Vec<PrecisionPair>,
    /// Whether these are the layers that clustering found like no other.
    #[serde(default)]
    pub noise: bool,
}

/// What is searched: a choice of pair for every group of layers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked", into = "Unchecked")]
pub struct Space {
    n_layers: usize,
    pairs: Vec<PrecisionPair>,
    groups: Vec<LayerGroup>,
}

/// A space as a file holds it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    n_layers: usize,
    pairs: Vec<PrecisionPair>,
    groups: Vec<LayerGroup>,
}

impl TryFrom<Unchecked> for Space {
    type Error = SpaceError;

    fn try_from(Unchecked { n_layers, pairs, groups }: Unchecked) -> Result<Self, SpaceError> {
        Self::new(n_layers, pairs, groups)
    }
}

impl From<Space> for Unchecked {
    fn from(Space { n_layers, pairs, groups }: Space) -> Self {
        Self { n_layers, pairs, groups }
    }
}

/// How many maps there are to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpaceSize {
    /// Decimal logarithm of the count.
    pub log10: f64,
    /// The count itself, where it fits.
    pub exact: Option<u64>,
}

impl SpaceSize {
    /// The product of the numbers of choices.
    pub fn of(choices: impl Iterator<Item = usize> + Clone) -> Self {
        let log10 = choices.clone().map(|n| (n as f64).log10()).sum();
        Self { log10, exact: choices.map(|n| n as u64).try_fold(1_u64, u64::checked_mul) }
    }
}

impl Space {
    /// A space of `groups`, which must hold every layer once; `pairs` are the candidates before pruning.
    ///
    /// Groups are put in the order of their first layer and candidates in the order of their bits.
    ///
    /// # Errors
    /// Names the layer that is missing or listed twice, or whose group lists no pair or one pair twice.
    pub fn new(
        n_layers: usize,
        pairs: Vec<PrecisionPair>,
        mut groups: Vec<LayerGroup>,
    ) -> Result<Self, SpaceError> {
        Partition::new(groups.iter().map(|group| group.layers.clone()).collect(), n_layers)?;
        groups.iter_mut().try_for_each(tidy)?;
        groups.sort_by(|a, b| a.layers.cmp(&b.layers));
        Ok(Self { n_layers, pairs, groups })
    }

    /// The space of clustered layers.
    ///
    /// # Errors
    /// Those of [`Space::new`].
    pub fn of_clusters(pairs: Vec<PrecisionPair>, clustering: Clustering) -> Result<Self, SpaceError> {
        let n_layers = clustering.groups.iter().map(|group| group.layers.len()).sum();
        Self::new(n_layers, pairs, clustering.groups)
    }

    /// Layers of the model.
    pub fn n_layers(&self) -> usize {
        self.n_layers
    }

    /// The candidate pairs before pruning.
    pub fn pairs(&self) -> &[PrecisionPair] {
        &self.pairs
    }

    /// The groups, ordered by their first layer.
    pub fn groups(&self) -> &[LayerGroup] {
        &self.groups
    }

    /// Maps without pruning and clustering: pairs to the power of layers.
    pub fn size_before(&self) -> SpaceSize {
        SpaceSize::of(std::iter::repeat_n(self.pairs.len(), self.n_layers))
    }

    /// Maps after pruning alone: the product of the layers' candidates.
    pub fn size_pruned(&self) -> SpaceSize {
        let per_layer = |group: &LayerGroup| std::iter::repeat_n(group.candidates.len(), group.layers.len());
        SpaceSize::of(self.groups.iter().flat_map(per_layer))
    }

    /// Maps in this space: the product of the groups' candidates.
    pub fn size(&self) -> SpaceSize {
        SpaceSize::of(self.groups.iter().map(|group| group.candidates.len()))
    }

    /// The map that a genome stands for; `None` when the genome is not of this space.
    pub fn map(&self, genome: &Genome) -> Option<PrecisionMap> {
        if genome.n_groups() != self.groups.len() {
            return None;
        }
        let mut pairs = vec![PrecisionPair::FULL; self.n_layers];
        for (group, &choice) in self.groups.iter().zip(genome.choices()) {
            let pair = *group.candidates.get(choice)?;
            group.layers.iter().for_each(|layer| pairs[layer.0] = pair);
        }
        Some(PrecisionMap::new(pairs))
    }

    /// The map in which one group alone has one of its candidates and all other layers are at full precision;
    /// `None` when there is no such candidate.
    pub fn alone(&self, group: usize, choice: usize) -> Option<PrecisionMap> {
        let LayerGroup { layers, candidates, .. } = self.groups.get(group)?;
        let pair = *candidates.get(choice)?;
        let mut pairs = vec![PrecisionPair::FULL; self.n_layers];
        layers.iter().for_each(|layer| pairs[layer.0] = pair);
        Some(PrecisionMap::new(pairs))
    }

    /// The genome of the map that has `pair` in every layer, if every group still offers it.
    pub fn uniform(&self, pair: PrecisionPair) -> Option<Genome> {
        let choice = |group: &LayerGroup| group.candidates.iter().position(|&candidate| candidate == pair);
        self.groups.iter().map(choice).collect::<Option<Vec<_>>>().map(Genome::new)
    }
}

fn tidy(group: &mut LayerGroup) -> Result<(), SpaceError> {
    group.layers.sort();
    let layer = group.layers.first().copied().unwrap_or(LayerId(0));
    let LayerGroup { candidates, .. } = group;
    if candidates.is_empty() {
        return Err(SpaceError::NoPairs { layer });
    }
    candidates.sort_by(|a, b| a.mean_bits().total_cmp(&b.mean_bits()).then(a.key.cmp(&b.key)));
    match candidates.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => Err(SpaceError::RepeatedPair { layer, pair: two[0] }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: &str = "
n_layers: 3
pairs: [KV2, K4V2, KV4]
groups:
  - {layers: [0], candidates: [KV4, KV2]}
  - {layers: [2, 1], candidates: [KV2, K4V2, KV4], noise: true}
";

    fn space() -> Space {
        serde_yaml::from_str(SPACE).expect("a valid space")
    }

    #[test]
    fn a_genome_names_the_pair_of_every_layer() {
        let map = space().map(&Genome::new(vec![1, 0])).expect("a genome of the space");
        assert_eq!(map.to_string(), "0 KV4, 1-2 KV2");
        assert_eq!(space().map(&Genome::new(vec![1, 3])), None);
        assert_eq!(space().map(&Genome::new(vec![1])), None);
    }

    #[test]
    fn a_group_alone_leaves_the_others_at_full_precision() {
        let map = space().alone(1, 1).expect("a candidate of the group");
        assert_eq!(map.to_string(), "0 KV16, 1-2 K4V2");
        assert_eq!(space().alone(1, 3), None);
        assert_eq!(space().alone(2, 0), None);
    }

    #[test]
    fn a_uniform_map_is_in_the_space_when_all_groups_offer_its_pair() {
        let pair = |text: &str| text.parse().expect("a pair");
        assert_eq!(space().uniform(pair("KV4")), Some(Genome::new(vec![1, 2])));
        assert_eq!(space().uniform(pair("K4V2")), None);
    }

    #[test]
    fn sizes_count_maps_before_and_after() {
        assert_eq!(space().size_before().exact, Some(27));
        assert_eq!(space().size_pruned().exact, Some(18));
        assert_eq!(space().size().exact, Some(6));
        let large = SpaceSize::of(std::iter::repeat_n(9, 32));
        assert_eq!(large.exact, None);
        assert!((large.log10 - 32.0 * 9_f64.log10()).abs() < 1e-12);
    }

    #[test]
    fn a_space_reads_back_as_it_was_written() {
        let text = serde_yaml::to_string(&space()).expect("writes");
        assert_eq!(serde_yaml::from_str::<Space>(&text).expect("reads"), space());
    }

    #[test]
    fn a_space_that_repeats_a_layer_or_a_pair_is_refused() {
        let refused = |from: &str, to: &str| {
            let text = SPACE.replace(from, to);
            serde_yaml::from_str::<Space>(&text).expect_err("invalid").to_string()
        };
        assert!(refused("[2, 1]", "[2, 0]").contains("layer 0 is listed twice"));
        assert!(refused("[KV4, KV2]", "[KV4, KV4]").contains("layer 0 lists KV4 twice"));
        assert!(refused("[KV4, KV2]", "[]").contains("layer 0 has no precision pair"));
    }
}
