use std::collections::BTreeMap;

use super::dbscan::dbscan;
use super::{ClusterValidParams, LayerGroup, Noise, PairError, Partition, PruneParams, SpaceError, prune};
use crate::precision::{LayerId, PrecisionPair};

/// What clustering knows of a layer: the pairs it keeps and their errors.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerErrors {
    /// The layer.
    pub layer: LayerId,
    /// Its surviving pairs, fewest bits first.
    pub candidates: Vec<PrecisionPair>,
    /// e_o of each of them.
    pub errors: Vec<f64>,
}

impl LayerErrors {
    /// A layer with the pairs that [`prune`] leaves of `points`.
    ///
    /// # Errors
    /// Those of [`prune`].
    pub fn pruned(layer: LayerId, points: &[PairError], params: PruneParams) -> Result<Self, SpaceError> {
        let candidates = prune(layer, points, params)?;
        let error_of = |pair| points.iter().find(|point| point.pair == pair).map(|point| point.e_o);
        let errors = candidates.iter().copied().filter_map(error_of).collect();
        Ok(Self { layer, candidates, errors })
    }

    /// A layer that keeps all its pairs, ordered by bits.
    ///
    /// # Errors
    /// Those of [`prune`].
    pub fn unpruned(layer: LayerId, points: &[PairError]) -> Result<Self, SpaceError> {
        prune(layer, points, PruneParams::default())?;
        let mut points = points.to_vec();
        points.sort_by(|a, b| {
            a.pair.mean_bits().total_cmp(&b.pair.mean_bits()).then(a.pair.key.cmp(&b.pair.key))
        });
        let (candidates, errors) = points.iter().map(|point| (point.pair, point.e_o)).unzip();
        Ok(Self { layer, candidates, errors })
    }
}

/// Groups of like layers, and the eps that gave them.
#[derive(Clone, Debug, PartialEq)]
pub struct Clustering {
    /// The groups, ordered by their first layer.
    pub groups: Vec<LayerGroup>,
    /// The eps used: the one given, or the one found for a range of group counts.
    pub eps: f64,
}

/// Groups layers that keep the same pairs and whose errors at them lie close together.
///
/// Layers with one candidate set form a partition; inside it DBSCAN runs on the layers' vectors of e_o. The result
/// is checked to hold every layer from 0 to `layers.len() − 1` exactly once.
///
/// # Errors
/// A layer missing or given twice, an error that is not finite, no eps that gives the wanted number of groups.
///
/// Source: KVTuner (arXiv:2502.04420), inter-layer clustering; the treatment of noise is **ours**.
pub fn cluster(layers: &[LayerErrors], params: &ClusterValidParams) -> Result<Clustering, SpaceError> {
    check(layers)?;
    let sets = candidate_sets(layers);
    let Some(range) = params.groups else {
        return grouped(&sets, layers.len(), params.eps, params);
    };
    let mut counts = Vec::new();
    for eps in eps_to_try(&sets, params.eps) {
        let clustering = grouped(&sets, layers.len(), eps, params)?;
        if range.contains(clustering.groups.len()) {
            return Ok(clustering);
        }
        counts.push(clustering.groups.len());
    }
    let fewest = counts.iter().copied().min().unwrap_or(0);
    Err(SpaceError::GroupCount { range, fewest, most: counts.into_iter().max().unwrap_or(0) })
}

type CandidateSets<'a> = BTreeMap<Vec<PrecisionPair>, Vec<&'a LayerErrors>>;

fn check(layers: &[LayerErrors]) -> Result<(), SpaceError> {
    for LayerErrors { layer, candidates, errors } in layers {
        if candidates.is_empty() || candidates.len() != errors.len() {
            return Err(SpaceError::NoPairs { layer: *layer });
        }
        if let Some((&pair, &found)) = candidates.iter().zip(errors).find(|(_, error)| !error.is_finite()) {
            return Err(SpaceError::Measured { layer: *layer, pair, found });
        }
    }
    Ok(())
}

fn candidate_sets(layers: &[LayerErrors]) -> CandidateSets<'_> {
    let mut sets = CandidateSets::new();
    for layer in layers {
        sets.entry(layer.candidates.clone()).or_default().push(layer);
    }
    sets.values_mut().for_each(|members| members.sort_by_key(|member| member.layer));
    sets
}

fn grouped(
    sets: &CandidateSets<'_>,
    n_layers: usize,
    eps: f64,
    params: &ClusterValidParams,
) -> Result<Clustering, SpaceError> {
    let mut groups: Vec<LayerGroup> = Vec::new();
    for (candidates, members) in sets {
        for (noise, layers) in split(members, eps, params) {
            groups.push(LayerGroup { layers, candidates: candidates.clone(), noise });
        }
    }
    groups.sort_by_key(|group| group.layers.first().copied().map_or(0, |layer| layer.0));
    Partition::new(groups.iter().map(|group| group.layers.clone()).collect(), n_layers)?;
    Ok(Clustering { groups, eps })
}

/// The groups of one candidate set, and whether they are noise.
fn split(members: &[&LayerErrors], eps: f64, params: &ClusterValidParams) -> Vec<(bool, Vec<LayerId>)> {
    let vectors: Vec<Vec<f64>> = members.iter().map(|member| member.errors.clone()).collect();
    let mut labels = dbscan(&vectors, eps, params.min_samples);
    if params.noise == Noise::Nearest {
        labels = join_nearest(&vectors, &labels);
    }
    let mut groups: BTreeMap<(bool, usize), Vec<LayerId>> = BTreeMap::new();
    for (member, label) in members.iter().zip(labels) {
        let key = match (label, params.noise) {
            (Some(label), _) => (false, label),
            (None, Noise::Singleton) => (true, member.layer.0),
            (None, _) => (true, 0),
        };
        groups.entry(key).or_default().push(member.layer);
    }
    groups.into_iter().map(|((noise, _), layers)| (noise, layers)).collect()
}

fn join_nearest(vectors: &[Vec<f64>], labels: &[Option<usize>]) -> Vec<Option<usize>> {
    let nearest = |vector: &Vec<f64>| {
        let clustered = vectors.iter().zip(labels).filter_map(|(other, label)| Some((other, (*label)?)));
        clustered
            .min_by(|a, b| distance(vector, a.0).total_cmp(&distance(vector, b.0)))
            .map(|(_, label)| label)
    };
    vectors.iter().zip(labels).map(|(vector, label)| label.or_else(|| nearest(vector))).collect()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt()
}

/// The stated eps, then every distance at which groups can change, nearest to it by ratio first.
fn eps_to_try(sets: &CandidateSets<'_>, stated: f64) -> Vec<f64> {
    let mut distances: Vec<f64> = sets
        .values()
        .flat_map(|members| {
            members.iter().enumerate().flat_map(|(index, a)| {
                members[..index].iter().map(|b| distance(&a.errors, &b.errors)).collect::<Vec<_>>()
            })
        })
        .filter(|&distance| distance > 0.0)
        .collect();
    // Below every distance no layer has a neighbor but its equals.
    distances.extend(distances.iter().copied().reduce(f64::min).map(|least| least / 2.0));
    let ratio = |eps: &f64| (eps / stated).ln().abs();
    distances.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)).then(a.total_cmp(b)));
    distances.dedup();
    std::iter::once(stated).chain(distances).collect()
}

#[cfg(test)]
mod tests {
    use linfa::ParamGuard;

    use super::*;
    use crate::space::ClusterParams;

    /// Layers of one candidate pair with the given errors.
    fn layers(errors: &[f64]) -> Vec<LayerErrors> {
        let pair: PrecisionPair = "KV4".parse().expect("a pair");
        let layer = |(index, &e_o)| {
            let points = [PairError { pair, e_o }];
            LayerErrors::pruned(LayerId(index), &points, PruneParams::default()).expect("measured errors")
        };
        errors.iter().enumerate().map(layer).collect()
    }

    fn groups(errors: &[f64], params: ClusterParams) -> Vec<(bool, Vec<usize>)> {
        let clustering = cluster(&layers(errors), &params.check().expect("valid")).expect("clusters");
        let plain =
            |group: LayerGroup| (group.noise, group.layers.iter().map(|layer| layer.0).collect::<Vec<_>>());
        clustering.groups.into_iter().map(plain).collect()
    }

    /// Two clusters {1, 3} and {2, 5}, and noise 0 (nearer to the first) and 4.
    const ERRORS: [f64; 6] = [0.2, 0.40, 0.90, 0.42, 1.5, 0.93];

    #[test]
    fn noise_layers_share_a_bucket() {
        let expected = [(true, vec![0, 4]), (false, vec![1, 3]), (false, vec![2, 5])];
        assert_eq!(groups(&ERRORS, ClusterParams::default()), expected);
    }

    #[test]
    fn noise_layers_get_their_own_group() {
        let expected = [(true, vec![0]), (false, vec![1, 3]), (false, vec![2, 5]), (true, vec![4])];
        assert_eq!(groups(&ERRORS, ClusterParams::default().noise(Noise::Singleton)), expected);
    }

    #[test]
    fn noise_layers_join_the_nearest_cluster() {
        let expected = [(false, vec![0, 1, 3]), (false, vec![2, 4, 5])];
        assert_eq!(groups(&ERRORS, ClusterParams::default().noise(Noise::Nearest)), expected);
    }

    #[test]
    fn layers_of_different_candidate_sets_never_meet() {
        let mut layers = layers(&[0.4, 0.4, 0.4]);
        layers[1].candidates = vec!["KV8".parse().expect("a pair")];
        let clustering = cluster(&layers, &ClusterValidParams::default()).expect("clusters");
        assert_eq!(clustering.groups.len(), 2);
        assert_eq!(clustering.groups[1].layers, [LayerId(1)]);
    }

    #[test]
    fn eps_is_searched_for_a_number_of_groups() {
        let wanted = ClusterParams::default().groups("1..1".parse().expect("a range"));
        let clustering = cluster(&layers(&ERRORS), &wanted.check().expect("valid")).expect("clusters");
        assert_eq!(clustering.groups.len(), 1);
        // All in one cluster: the widest gap on the line, 1.5 − 0.93, is the least eps that does it... unless all
        // are noise, which below the least distance, 0.02, is one bucket too and, by ratio, nearer to 0.05.
        assert!((clustering.eps - 0.01).abs() < 1e-12, "{}", clustering.eps);
    }

    #[test]
    fn a_number_of_groups_out_of_reach_says_what_is_in_reach() {
        let wanted = ClusterParams::default().groups("7..9".parse().expect("a range"));
        let error = cluster(&layers(&ERRORS), &wanted.check().expect("valid")).expect_err("6 layers");
        let expected = "no `eps` gives 7..9 groups of layers, those tried gave between 1 and 3";
        assert_eq!(error.to_string(), expected);
    }
}
