use serde::{Deserialize, Serialize};

use super::{SpaceError, dominates};
use crate::precision::{LayerId, PrecisionPair};

/// Relative attention-output error of one layer at one pair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairError {
    /// The pair.
    pub pair: PrecisionPair,
    /// Its e_o, unitless; by the metric that the search space names.
    pub e_o: f64,
}

impl PairError {
    fn point(self) -> (f64, f64) {
        (self.pair.mean_bits(), self.e_o)
    }
}

/// How strictly a layer's pairs are pruned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PruneParams {
    /// **Ours.** Share of its own error that a pair must save to be worth more bits: at 0.1, a pair is dropped when
    /// a kept one with fewer bits has an error of at most 1.1 times its own. 0 (the default) is plain dominance.
    pub tolerance: f64,
}

/// The pairs of one layer that are worth their bits, in the order of their bits, fewest first.
///
/// Keeps what no other pair dominates in (equivalent bits, e_o); pairs equal in both all stay, wider key last.
/// Every pair that [`PruneParams::tolerance`] drops lies within it of a pair that stays.
///
/// # Errors
/// An empty layer, an error that is not finite or negative, a pair given twice, a bad tolerance.
///
/// Source: KVTuner (arXiv:2502.04420), intra-layer pruning.
pub fn prune(
    layer: LayerId,
    points: &[PairError],
    params: PruneParams,
) -> Result<Vec<PrecisionPair>, SpaceError> {
    check(layer, points, params)?;
    let mut by_bits = points.to_vec();
    by_bits.sort_by(|a, b| order(*a, *b));
    let mut kept: Vec<PairError> = Vec::new();
    for candidate in by_bits {
        if !kept.iter().any(|&keeper| replaces(keeper, candidate, params.tolerance)) {
            kept.push(candidate);
        }
    }
    kept.sort_by(|a, b| a.pair.mean_bits().total_cmp(&b.pair.mean_bits()).then(a.pair.key.cmp(&b.pair.key)));
    Ok(kept.into_iter().map(|point| point.pair).collect())
}

fn order(a: PairError, b: PairError) -> std::cmp::Ordering {
    let (a_point, b_point) = (a.point(), b.point());
    let by_cost = a_point.0.total_cmp(&b_point.0);
    by_cost.then(a_point.1.total_cmp(&b_point.1)).then(a.pair.key.cmp(&b.pair.key))
}

fn replaces(keeper: PairError, candidate: PairError, tolerance: f64) -> bool {
    let cheaper = keeper.pair.mean_bits() < candidate.pair.mean_bits();
    dominates(keeper.point(), candidate.point())
        || (cheaper && keeper.e_o <= candidate.e_o * (1.0 + tolerance))
}

fn check(layer: LayerId, points: &[PairError], params: PruneParams) -> Result<(), SpaceError> {
    if !(params.tolerance.is_finite() && params.tolerance >= 0.0) {
        return Err(SpaceError::Tolerance { found: params.tolerance });
    }
    if points.is_empty() {
        return Err(SpaceError::NoPairs { layer });
    }
    for (index, &PairError { pair, e_o }) in points.iter().enumerate() {
        if !(e_o.is_finite() && e_o >= 0.0) {
            return Err(SpaceError::Measured { layer, pair, found: e_o });
        }
        if points[..index].iter().any(|earlier| earlier.pair == pair) {
            return Err(SpaceError::RepeatedPair { layer, pair });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::precision::Bits;

    fn points(errors: &[(&str, f64)]) -> Vec<PairError> {
        errors.iter().map(|&(pair, e_o)| PairError { pair: pair.parse().expect("a pair"), e_o }).collect()
    }

    fn pruned(errors: &[(&str, f64)], tolerance: f64) -> Vec<String> {
        let kept = prune(LayerId(3), &points(errors), PruneParams { tolerance }).expect("measured errors");
        kept.iter().map(ToString::to_string).collect()
    }

    const LAYER: [(&str, f64); 5] =
        [("KV8", 0.01), ("K8V4", 0.1), ("K4V8", 0.3), ("KV4", 0.32), ("KV2", 1.0)];

    #[test]
    fn dominated_pairs_go_and_the_rest_is_ordered_by_bits() {
        assert_eq!(pruned(&LAYER, 0.0), ["KV2", "KV4", "K8V4", "KV8"]);
    }

    #[test]
    fn a_tolerance_asks_more_bits_to_earn_their_keep() {
        let errors = [("KV8", 0.10), ("K8V4", 0.11), ("KV4", 0.4)];
        assert_eq!(pruned(&errors, 0.0), ["KV4", "K8V4", "KV8"]);
        assert_eq!(pruned(&errors, 0.2), ["KV4", "K8V4"]);
    }

    #[test]
    fn equal_points_both_stay() {
        assert_eq!(pruned(&[("K8V4", 0.1), ("K4V8", 0.1)], 0.0), ["K4V8", "K8V4"]);
    }

    #[test]
    fn an_error_that_is_no_number_names_the_layer() {
        let error = prune(LayerId(3), &points(&[("KV4", f64::NAN)]), PruneParams::default());
        let message = error.expect_err("NaN is no error").to_string();
        assert_eq!(message, "layer 3 at KV4 has the error NaN, expected a finite number of at least 0");
        assert_eq!(
            prune(LayerId(1), &[], PruneParams::default()),
            Err(SpaceError::NoPairs { layer: LayerId(1) })
        );
    }

    proptest! {
        #[test]
        fn what_is_dropped_lies_within_the_tolerance_of_a_pair_that_stays(
            errors in prop::collection::vec(0.0..1.0f64, 16), tolerance in 0.0..0.5f64
        ) {
            let widths = [1, 2, 4, 8].map(|bits| Bits::try_from(bits).expect("a width"));
            let all: Vec<_> = errors.iter().enumerate().map(|(index, &e_o)| PairError {
                pair: PrecisionPair::new(widths[index / 4], widths[index % 4]), e_o,
            }).collect();
            let kept = prune(LayerId(0), &all, PruneParams { tolerance }).expect("measured errors");
            for point in &all {
                let covered = all.iter().filter(|keeper| kept.contains(&keeper.pair)).any(|keeper| {
                    keeper.pair.mean_bits() <= point.pair.mean_bits()
                        && keeper.e_o <= point.e_o * (1.0 + tolerance)
                });
                prop_assert!(covered);
            }
        }
    }
}
