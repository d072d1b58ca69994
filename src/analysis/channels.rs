/// A channel is an outlier where its largest key is so many times the median of its head's channels (**ours**).
pub const OUTLIER: f64 = 4.0;

/// Sums of one channel of a KV head's keys, as the cache holds them (rotated); those of several documents add up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelSums {
    keys: Extent,
    /// The same keys less the rotated bias of their projection.
    without_bias: Option<Extent>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Extent {
    low: f64,
    high: f64,
    squares: f64,
    count: u64,
}

impl Default for Extent {
    fn default() -> Self {
        Self { low: f64::INFINITY, high: f64::NEG_INFINITY, squares: 0.0, count: 0 }
    }
}

impl Extent {
    fn key(&mut self, key: f32) {
        let key = f64::from(key);
        self.low = self.low.min(key);
        self.high = self.high.max(key);
        self.squares += key * key;
        self.count += 1;
    }

    fn add(&mut self, other: &Self) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        self.squares += other.squares;
        self.count += other.count;
    }

    fn spread(&self) -> f64 {
        self.high - self.low
    }
}

/// One channel of a KV head's keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelStats {
    /// Largest absolute value: what one group over a token's channels has to reach.
    pub max: f64,
    /// Largest less smallest value: what one group over a channel's tokens has to reach.
    pub spread: f64,
    /// Root of the mean square.
    pub rms: f64,
    /// Share of Σ k² that goes with the bias of the key projection, 1 − Σ(k − b)² / Σ k² (**ours**); negative where
    /// the bias cancels what the rest holds. `None` where the projection has no bias.
    pub bias_share: Option<f64>,
    /// Spread of the keys without that bias.
    pub spread_without_bias: Option<f64>,
}

impl ChannelSums {
    /// No keys yet, of a projection with or without a bias.
    pub fn new(has_bias: bool) -> Self {
        Self { keys: Extent::default(), without_bias: has_bias.then(Extent::default) }
    }

    /// Takes in one key, and the rotated bias in it.
    pub fn key(&mut self, key: f32, bias: Option<f32>) {
        self.keys.key(key);
        if let (Some(rest), Some(bias)) = (&mut self.without_bias, bias) {
            rest.key(key - bias);
        }
    }

    /// Takes in another document's sums.
    pub fn add(&mut self, other: &Self) {
        self.keys.add(&other.keys);
        if let (Some(mine), Some(theirs)) = (&mut self.without_bias, &other.without_bias) {
            mine.add(theirs);
        }
    }

    /// What came of it; `None` of no keys.
    pub fn stats(&self) -> Option<ChannelStats> {
        let Extent { low, high, squares, count } = self.keys;
        let share = |rest: Extent| if squares > 0.0 { 1.0 - rest.squares / squares } else { 0.0 };
        (count > 0).then(|| ChannelStats {
            max: high.max(-low),
            spread: self.keys.spread(),
            rms: (squares / count as f64).sqrt(),
            bias_share: self.without_bias.map(share),
            spread_without_bias: self.without_bias.map(|rest| rest.spread()),
        })
    }
}

/// Which channels of one head are outliers, by the largest value of each: see [`OUTLIER`].
pub fn outliers(largest: &[f64]) -> Vec<bool> {
    let limit = median(largest).map_or(f64::INFINITY, |median| OUTLIER * median);
    largest.iter().map(|&max| max > limit).collect()
}

/// The middle one, or the mean of the two in the middle; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let even = sorted.len().is_multiple_of(2);
    Some(if even { f64::midpoint(sorted[sorted.len() / 2 - 1], upper) } else { upper })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found}, expected {expected}");
    }

    #[test]
    fn max_and_spread_are_those_of_the_keys() {
        let mut sums = ChannelSums::new(false);
        [-3.0, 1.0, 1.0].into_iter().for_each(|key| sums.key(key, None));
        let mut other = ChannelSums::new(false);
        other.key(2.0, None);
        sums.add(&other);
        let stats = sums.stats().expect("keys");
        close(stats.max, 3.0);
        close(stats.spread, 5.0);
        close(stats.rms, (15.0_f64 / 4.0).sqrt());
        assert_eq!((stats.bias_share, stats.spread_without_bias), (None, None));
        assert_eq!(ChannelSums::new(true).stats(), None);
    }

    #[test]
    fn a_channel_that_is_all_bias_is_explained_by_it() {
        let mut sums = ChannelSums::new(true);
        for bias in [10.0, -10.0] {
            sums.key(bias, Some(bias));
        }
        let stats = sums.stats().expect("keys");
        assert_eq!((stats.bias_share, stats.spread_without_bias), (Some(1.0), Some(0.0)));
        let mut half = ChannelSums::new(true);
        half.key(2.0, Some(1.0));
        assert_eq!(half.stats().expect("keys").bias_share, Some(0.75));
    }

    #[test]
    fn an_outlier_stands_far_above_the_median() {
        assert_eq!(outliers(&[1.0, 1.0, 1.0, 4.5, 4.0]), [false, false, false, true, false]);
        assert_eq!(outliers(&[1.0, 9.0]), [false, false], "the median of two is between them");
        assert!(outliers(&[]).is_empty());
    }
}
