//! Lemma 1, in numbers: noise on the keys leaves a query alone where one key dominates, and only there.
//!
//! Let a be the attention of a query, i its largest entry and δ = 1 − aᵢ, and let the noise add nⱼ to score j. The
//! mass off key i grows at most by the factor eʳ against key i, r = max over j of (nⱼ − nᵢ), so attention moves by a
//! total variation of at most max(δ, δ·eʳ / (1 − δ + δ·eʳ)) ([`bound`], **ours**: the lemma's "≈ 0" as a number). That
//! is next to nothing where δ is, whatever the noise, and says nothing where no key dominates.
//!
//! Source: KVTuner, Lemma 1 and its proof in the appendix (noise ΔK ~ N(0, σ²)).

use super::noise::Normal;

/// How one query moves under noise on the keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The largest attention weight, without noise.
    pub top: f64,
    /// Total variation between attention without and with noise: ½ Σ|a − â|.
    pub attention: f64,
    /// What it may be at most.
    pub bound: f64,
    /// Σ|o − ô| over channels.
    pub change: f64,
    /// Σ|o| over channels.
    pub magnitude: f64,
}

/// Moves a query: `scores` are its scaled products with the keys, `noise` what is added to each; `value` gives the
/// value of a token, `width` channels.
///
/// # Panics
/// Never for equally many scores and noises, one at least.
pub fn shift<'v>(scores: &[f64], noise: &[f64], value: impl Fn(usize) -> &'v [f32], width: usize) -> Shift {
    assert_eq!(scores.len(), noise.len(), "one noise a score");
    let moved: Vec<f64> = scores.iter().zip(noise).map(|(score, noise)| score + noise).collect();
    let (a, b) = (softmax(scores), softmax(&moved));
    let best = (0..a.len()).max_by(|&i, &j| a[i].total_cmp(&a[j])).unwrap_or(0);
    let rise = noise.iter().map(|n| n - noise[best]).fold(f64::NEG_INFINITY, f64::max);
    // Summed apart from the largest, so that it is exact where the others are next to nothing.
    let rest = a.iter().enumerate().filter(|&(token, _)| token != best).map(|(_, a)| a).sum();
    let (mut out, mut difference) = (vec![0.0; width], vec![0.0; width]);
    for (token, (a, b)) in a.iter().zip(&b).enumerate() {
        for ((out, difference), &v) in out.iter_mut().zip(&mut difference).zip(value(token)) {
            *out += a * f64::from(v);
            *difference += (b - a) * f64::from(v);
        }
    }
    let size = |x: &[f64]| x.iter().map(|x| x.abs()).sum();
    Shift {
        top: a[best],
        attention: a.iter().zip(&b).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0,
        bound: bound(rest, rise),
        change: size(&difference),
        magnitude: size(&out),
    }
}

/// The most that attention can move, where `rest` is the mass off the largest key and `rise` the largest difference
/// between the noise on another key's score and on its own.
pub fn bound(rest: f64, rise: f64) -> f64 {
    // rest · eʳ / (1 − rest + rest · eʳ), without an overflow.
    let grown = rest / (rest + (1.0 - rest) * (-rise).exp());
    rest.max(if grown.is_nan() { 1.0 } else { grown })
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
    weights
}

/// Lower ends of the bins by largest attention weight; the last one ends at 1.
pub const EDGES: [f64; 6] = [0.0, 0.1, 0.5, 0.9, 0.99, 0.999];

/// Many queries, binned by their largest attention weight; tallies of several documents add up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    bins: [Bin; EDGES.len()],
}

/// Queries whose largest attention weight lies between two edges.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// How many.
    pub queries: u64,
    /// Σ of [`Shift::attention`].
    pub attention: f64,
    /// Σ of [`Shift::bound`].
    pub bound: f64,
    /// Σ of [`Shift::change`].
    pub change: f64,
    /// Σ of [`Shift::magnitude`].
    pub magnitude: f64,
    /// Queries that moved further than their bound and rounding: 0, if the lemma holds.
    pub beyond: u64,
}

/// How far rounding may take attention over its bound.
const ROUNDING: f64 = 1e-9;

impl Tally {
    /// Takes in a query.
    pub fn query(&mut self, shift: &Shift) {
        let bin = EDGES.iter().rposition(|&edge| shift.top >= edge).unwrap_or(0);
        let bin = &mut self.bins[bin];
        bin.queries += 1;
        bin.attention += shift.attention;
        bin.bound += shift.bound;
        bin.change += shift.change;
        bin.magnitude += shift.magnitude;
        // NaN is beyond any bound.
        bin.beyond += u64::from(shift.attention.is_nan() || shift.attention > shift.bound + ROUNDING);
    }

    /// Takes in another tally.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.bins.iter_mut().zip(&other.bins) {
            mine.queries += theirs.queries;
            mine.attention += theirs.attention;
            mine.bound += theirs.bound;
            mine.change += theirs.change;
            mine.magnitude += theirs.magnitude;
            mine.beyond += theirs.beyond;
        }
    }

    /// The bins, in the order of [`EDGES`].
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// The bins whose lower edge lies in a range, as one.
    pub fn within(&self, range: std::ops::Range<f64>) -> Bin {
        let mut one = Self::default();
        for (bin, _) in self.bins.iter().zip(EDGES).filter(|(_, edge)| range.contains(edge)) {
            let mut part = Self::default();
            part.bins[0] = *bin;
            one.add(&part);
        }
        one.bins[0]
    }
}

impl Bin {
    /// Σ|o − ô| / Σ|o|; `None` of no queries.
    pub fn output_change(&self) -> Option<f64> {
        (self.queries > 0 && self.magnitude > 0.0).then(|| self.change / self.magnitude)
    }

    /// Mean total variation of attention; `None` of no queries.
    pub fn attention_shift(&self) -> Option<f64> {
        (self.queries > 0).then(|| self.attention / self.queries as f64)
    }

    /// Mean of what it may have been; `None` of no queries.
    pub fn mean_bound(&self) -> Option<f64> {
        (self.queries > 0).then(|| self.bound / self.queries as f64)
    }
}

const TRIALS: usize = 4_000;
const KEYS: usize = 64;
const CHANNELS: usize = 32;
/// Deviation of the scores of keys that do not dominate.
const SCORES: f64 = 0.5;
/// By how much the score of the one key is raised, at most.
const RAISE: f64 = 16.0;

/// Made queries, keys and values: one key's score is raised by nothing up to far above all others, and normal noise on
/// the keys moves each score by a deviation of 1.
pub fn synthetic(seed: u64) -> Tally {
    let mut normal = Normal::new(seed, 0);
    let mut tally = Tally::default();
    for _ in 0..TRIALS {
        tally.query(&made(&mut normal));
    }
    tally
}

fn made(normal: &mut Normal) -> Shift {
    let mut draws = |count: usize| -> Vec<f64> { (0..count).map(|_| normal.draw()).collect() };
    let (q, keys, noise) = (draws(CHANNELS), draws(KEYS * CHANNELS), draws(KEYS * CHANNELS));
    let values: Vec<f32> = draws(KEYS * CHANNELS).into_iter().map(|v| v as f32).collect();
    // Divided by the query's length, a product with normal numbers has a deviation of 1.
    let length = q.iter().map(|q| q * q).sum::<f64>().sqrt();
    let product = |rows: &[f64]| -> Vec<f64> {
        let dot = |row: &[f64]| row.iter().zip(&q).map(|(x, q)| x * q).sum::<f64>() / length;
        rows.chunks_exact(CHANNELS).map(dot).collect()
    };
    let mut scores: Vec<f64> = product(&keys).into_iter().map(|score| SCORES * score).collect();
    scores[0] += normal.between(0.0, RAISE);
    shift(&scores, &product(&noise), |token| &values[token * CHANNELS..][..CHANNELS], CHANNELS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [[f32; 1]; 3] = [[1.0], [-1.0], [3.0]];

    fn moved(scores: &[f64], noise: &[f64]) -> Shift {
        shift(scores, noise, |token| &VALUES[token], 1)
    }

    #[test]
    fn equal_noise_on_all_scores_moves_nothing() {
        let shift = moved(&[0.3, 0.1, 0.2], &[5.0; 3]);
        assert!(shift.attention < 1e-12 && shift.change < 1e-12);
    }

    #[test]
    fn two_even_keys_move_as_the_logistic_curve_says() {
        let shift = moved(&[0.0, 0.0], &[0.0, 1.0]);
        let expected = 1.0 / (1.0 + (-1.0_f64).exp()) - 0.5;
        assert!((shift.top - 0.5).abs() < 1e-12);
        assert!((shift.attention - expected).abs() < 1e-12);
        // Values 1 and −1: the output moves by twice what attention does, from 0.
        assert!((shift.change - 2.0 * expected).abs() < 1e-12 && shift.magnitude < 1e-12);
    }

    #[test]
    fn one_dominating_key_leaves_the_output_alone_and_none_does_not() {
        let noise = [0.5, -0.8, 1.0];
        let dominated = moved(&[30.0, 0.0, 1.0], &noise);
        assert!(dominated.change / dominated.magnitude < 1e-10, "{dominated:?}");
        let even = moved(&[0.0, 0.0, 0.1], &noise);
        assert!(even.change / even.magnitude > 0.2, "{even:?}");
    }

    #[test]
    fn the_bound_is_reached_where_all_noise_pulls_one_way() {
        let shift = moved(&[2.0, 0.0, 0.0], &[0.0, 1.5, 1.5]);
        let rest = 1.0 - shift.top;
        // δ̂ − δ is what moves, and δ̂ the bound.
        assert!((shift.attention - (shift.bound - rest)).abs() < 1e-12, "{shift:?}");
        assert!((bound(0.0, 700.0)).abs() < 1e-12, "nothing grows out of nothing");
        assert!((bound(1e-3, 1e9) - 1.0).abs() < 1e-12 && (bound(1.0, -1e9) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn made_queries_move_the_less_the_more_one_key_dominates() {
        let tally = synthetic(0);
        let found: Vec<f64> = tally.bins().iter().filter_map(Bin::output_change).collect();
        assert_eq!(found.len(), EDGES.len(), "every bin is met");
        assert!(found.windows(2).all(|two| two[1] < two[0]), "{found:?}");
        assert!(found[0] > 0.5 && found[EDGES.len() - 1] < 0.01, "{found:?}");
        assert_eq!(tally.within(0.0..1.0).queries, TRIALS as u64);
    }

    #[test]
    fn a_query_beyond_its_bound_is_counted() {
        let mut tally = Tally::default();
        let within = Shift { top: 0.5, attention: 0.1, bound: 0.2, change: 0.0, magnitude: 1.0 };
        for attention in [0.1, 0.2, 0.3, f64::NAN] {
            tally.query(&Shift { attention, ..within });
        }
        assert_eq!(tally.within(0.5..0.9).beyond, 2);
        assert_eq!(tally.within(0.9..1.0).queries, 0);
    }

    proptest::proptest! {
        #[test]
        fn no_noise_moves_attention_beyond_the_bound(
            scores in proptest::collection::vec((-20.0..20.0f64, -9.0..9.0f64), 1..12),
        ) {
            let (scores, noise): (Vec<f64>, Vec<f64>) = scores.into_iter().unzip();
            let shift = shift(&scores, &noise, |_| &[1.0], 1);
            proptest::prop_assert!(shift.attention <= shift.bound + ROUNDING, "{shift:?}");
            proptest::prop_assert!(shift.bound <= 1.0 + ROUNDING, "{shift:?}");
        }
    }
}
