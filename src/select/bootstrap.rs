use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::SelectError;

/// Documents per split below which a result calls itself exploratory.
pub const FEWEST_DOCUMENTS: usize = 20;

/// Fewest resamples that have a 2.5 % quantile inside them.
const FEWEST_RESAMPLES: usize = 40;

/// Loss of one map on one document, as numerator and denominator: the loss of many is Σ sum / Σ positions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DocumentLoss {
    /// Flips, or the sum of KL or NLL in nats, over the document's positions.
    pub sum: f64,
    /// Positions scored.
    pub positions: u64,
}

/// A loss over documents and how far it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Loss per position over all documents.
    pub mean: f64,
    /// Lower end of the two-sided 95 % interval.
    pub low: f64,
    /// Upper end of the two-sided 95 % interval.
    pub high: f64,
    /// One-sided 95 % upper bound: what is held against `max_loss`.
    pub upper: f64,
    /// Documents behind it.
    pub documents: usize,
    /// Whether they are fewer than [`FEWEST_DOCUMENTS`].
    pub exploratory: bool,
}

/// How losses are resampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bootstrap {
    /// How often documents are drawn anew.
    pub resamples: usize,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { resamples: 10_000, seed: 0 }
    }
}

impl Bootstrap {
    /// Refuses fewer resamples than have the quantiles that are asked for.
    pub(super) fn check(self) -> Result<(), SelectError> {
        let found = self.resamples;
        if found < FEWEST_RESAMPLES { Err(SelectError::Resamples { found }) } else { Ok(()) }
    }
}

/// The losses of a map less those of full precision on the same documents; flips and KL are such differences already.
///
/// # Errors
/// Other documents, or other positions of one.
pub fn paired(map: &[DocumentLoss], full: &[DocumentLoss]) -> Result<Vec<DocumentLoss>, SelectError> {
    check_pairing(0, map, full)?;
    let less = |(map, full): (&DocumentLoss, &DocumentLoss)| DocumentLoss { sum: map.sum - full.sum, ..*map };
    Ok(map.iter().zip(full).map(less).collect())
}

/// The loss of each map over the same documents, with intervals by the percentile bootstrap.
///
/// Documents are drawn, not positions: inside a document positions are not independent. All maps see the same draws,
/// so that they are compared on the same documents. The losses are differences from full precision on the same
/// positions (see [`paired`]), so a document that is hard for both does not widen the interval.
///
/// With few documents such intervals are too narrow, and a map without a single flip has an upper bound of 0: that is
/// what [`Estimate::exploratory`] warns of.
///
/// # Errors
/// Maps scored on different documents or positions, documents without positions, losses that are not finite, fewer
/// than 40 resamples.
pub fn estimate(maps: &[Vec<DocumentLoss>], bootstrap: Bootstrap) -> Result<Vec<Estimate>, SelectError> {
    bootstrap.check()?;
    for (map, documents) in maps.iter().enumerate() {
        check(map, documents)?;
        check_pairing(map, documents, &maps[0])?;
    }
    Ok(maps.iter().map(|documents| of_map(documents, bootstrap)).collect())
}

fn check(map: usize, documents: &[DocumentLoss]) -> Result<(), SelectError> {
    if documents.is_empty() {
        return Err(SelectError::NoDocuments { map });
    }
    for (document, loss) in documents.iter().enumerate() {
        if loss.positions == 0 {
            return Err(SelectError::Empty { document });
        }
        if !loss.sum.is_finite() {
            return Err(SelectError::Loss { map, document, found: loss.sum });
        }
    }
    Ok(())
}

fn check_pairing(map: usize, documents: &[DocumentLoss], first: &[DocumentLoss]) -> Result<(), SelectError> {
    let (found, expected) = (documents.len(), first.len());
    if found != expected {
        return Err(SelectError::Documents { map, found, expected });
    }
    let pairs = documents.iter().zip(first).map(|(loss, first)| (loss.positions, first.positions));
    match pairs.enumerate().find(|(_, (found, expected))| found != expected) {
        Some((document, (found, expected))) => Err(SelectError::Positions { map, document, found, expected }),
        None => Ok(()),
    }
}

fn of_map(documents: &[DocumentLoss], bootstrap: Bootstrap) -> Estimate {
    let mut means =
        draws(documents.len(), bootstrap, |drawn| ratio(&mut drawn.map(|document| documents[document])));
    means.sort_by(f64::total_cmp);
    Estimate {
        mean: ratio(&mut documents.iter().copied()),
        low: quantile(&means, 0.025),
        high: quantile(&means, 0.975),
        upper: quantile(&means, 0.95),
        documents: documents.len(),
        exploratory: documents.len() < FEWEST_DOCUMENTS,
    }
}

/// What a figure is on as many draws of `count` things, with replacement, as there are resamples; the same seed draws
/// the same things for every figure.
pub(super) fn draws<T>(
    count: usize,
    bootstrap: Bootstrap,
    figure: impl Fn(&mut dyn Iterator<Item = usize>) -> T,
) -> Vec<T> {
    let mut rng = ChaCha8Rng::seed_from_u64(bootstrap.seed);
    (0..bootstrap.resamples).map(|_| figure(&mut (0..count).map(|_| rng.random_range(0..count)))).collect()
}

fn ratio(documents: &mut dyn Iterator<Item = DocumentLoss>) -> f64 {
    let add = |(sum, positions): (f64, u64), loss: DocumentLoss| (sum + loss.sum, positions + loss.positions);
    let (sum, positions) = documents.fold((0.0, 0), add);
    sum / positions as f64
}

/// The least member that at least the given share does not exceed.
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(sums: &[f64], positions: u64) -> Vec<DocumentLoss> {
        sums.iter().map(|&sum| DocumentLoss { sum, positions }).collect()
    }

    fn one(documents: &[DocumentLoss]) -> Estimate {
        estimate(&[documents.to_vec()], Bootstrap::default()).expect("scored")[0]
    }

    #[test]
    fn the_mean_weighs_documents_by_their_positions() {
        let loss = |sum, positions| DocumentLoss { sum, positions };
        assert!((one(&[loss(1.0, 10), loss(0.0, 30)]).mean - 0.025).abs() < 1e-12);
    }

    #[test]
    fn equal_documents_leave_no_doubt() {
        let estimate = one(&documents(&[2.0; 25], 50));
        assert!(
            [estimate.mean, estimate.low, estimate.high, estimate.upper]
                .iter()
                .all(|x| (x - 0.04).abs() < 1e-12)
        );
        assert!(!estimate.exploratory);
        assert!(one(&documents(&[2.0; 19], 50)).exploratory);
    }

    #[test]
    fn bounds_are_those_of_the_normal_law_where_documents_are_many() {
        // 400 documents, half 0 and half 2: deviation of the mean 1/20; bounds 1 ± 1.96/20 and 1 + 1.645/20.
        let sums: Vec<f64> = (0..400).map(|index| f64::from(index % 2) * 2.0).collect();
        let estimate = one(&documents(&sums, 1));
        assert!((estimate.low - 0.902).abs() < 0.01, "{}", estimate.low);
        assert!((estimate.high - 1.098).abs() < 0.01, "{}", estimate.high);
        assert!((estimate.upper - 1.082).abs() < 0.01, "{}", estimate.upper);
    }

    #[test]
    fn positions_of_one_document_are_not_taken_for_independent() {
        // 40 flips in 2,000 positions, in one document or spread over all.
        let together: Vec<f64> = (0..20).map(|index| if index == 0 { 40.0 } else { 0.0 }).collect();
        let (together, spread) = (one(&documents(&together, 100)), one(&documents(&[2.0; 20], 100)));
        assert!((together.mean - spread.mean).abs() < 1e-12);
        assert!(together.upper > 2.0 * spread.upper);
    }

    #[test]
    fn all_maps_see_the_same_draws() {
        let sums: Vec<f64> = (0..30).map(f64::from).collect();
        let shifted: Vec<f64> = sums.iter().map(|sum| sum + 5.0).collect();
        let both =
            estimate(&[documents(&sums, 10), documents(&shifted, 10)], Bootstrap::default()).expect("scored");
        assert!((both[1].upper - both[0].upper - 0.5).abs() < 1e-9);
        assert!((both[1].low - both[0].low - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_seed_decides_the_draws() {
        let sums: Vec<f64> = (0..30).map(f64::from).collect();
        let of = |seed| estimate(&[documents(&sums, 10)], Bootstrap { seed, ..Bootstrap::default() });
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn pairing_takes_off_what_full_precision_loses() {
        let paired =
            paired(&documents(&[5.0, 7.0], 10), &documents(&[4.0, 7.0], 10)).expect("the same documents");
        assert_eq!(paired, documents(&[1.0, 0.0], 10));
    }

    #[test]
    fn maps_of_other_documents_are_refused() {
        let of = |maps: &[Vec<DocumentLoss>]| {
            estimate(maps, Bootstrap::default()).expect_err("refused").to_string()
        };
        let first = documents(&[1.0, 2.0], 10);
        let fewer = of(&[first.clone(), documents(&[1.0], 10)]);
        assert_eq!(fewer, "map 1 was scored on 1 documents, but the first map on 2");
        let shorter = of(&[first.clone(), documents(&[1.0, 2.0], 9)]);
        assert_eq!(shorter, "map 1 was scored on 9 positions of document 0, but the first map on 10");
        let broken = of(&[first, documents(&[1.0, f64::NAN], 10)]);
        assert_eq!(broken, "the loss of map 1 on document 1 is NaN, expected a finite number");
        assert_eq!(of(&[vec![]]), "map 0 was scored on no document, expected at least one");
        assert_eq!(of(&[documents(&[0.0], 0)]), "document 0 has no position to score");
    }
}
