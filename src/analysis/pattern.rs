use serde::{Deserialize, Serialize};

/// Tokens at the start of a sequence that count as its sink.
pub const FIRST: usize = 4;
/// Tokens before a query, itself included, that count as recent.
pub const RECENT: usize = 64;
/// Share of attention on first and recent tokens above which a head is streaming.
pub const STREAMING: f64 = 0.9;

/// How a head attends: means over its queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pattern {
    /// −Σ a · ln a, nats.
    pub entropy: f64,
    /// 1 − entropy / ln n for a query that sees n tokens: 0 where all weigh alike, 1 where one has all (**ours**).
    pub concentration: f64,
    /// Share of attention on the [`FIRST`] tokens.
    pub first: f64,
    /// Share of attention on the [`RECENT`] tokens.
    pub recent: f64,
    /// Share of attention on the token that has most.
    pub top: f64,
}

/// What a head looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadClass {
    /// Sink and neighborhood, over [`STREAMING`] of its attention.
    Streaming,
    /// Anything in between as well.
    Retrieval,
}

impl Pattern {
    /// Share of attention on first and recent tokens together.
    pub fn streaming_mass(&self) -> f64 {
        self.first + self.recent
    }

    /// Streaming where [`streaming_mass`](Self::streaming_mass) is above [`STREAMING`].
    pub fn class(&self) -> HeadClass {
        if self.streaming_mass() > STREAMING { HeadClass::Streaming } else { HeadClass::Retrieval }
    }
}

/// Sums behind a [`Pattern`]; those of several documents add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PatternSums {
    entropy: f64,
    concentration: f64,
    first: f64,
    recent: f64,
    top: f64,
    queries: u64,
}

impl PatternSums {
    /// The first position whose query has tokens beside first and recent ones.
    ///
    /// Earlier queries are left out (**ours**): of them all attention would be first or recent, whatever the head.
    pub const FROM: usize = FIRST + RECENT;

    /// Takes in the attention weights of one query over the tokens that it sees, the oldest at position `oldest`.
    pub fn query(&mut self, weights: &[f32], oldest: usize) {
        let tokens = weights.len();
        if oldest + tokens <= Self::FROM {
            return;
        }
        let entropy = entropy(weights);
        let mass = |weights: &[f32]| weights.iter().map(|&a| f64::from(a)).sum::<f64>();
        self.entropy += entropy;
        self.concentration += if tokens > 1 { 1.0 - entropy / (tokens as f64).ln() } else { 1.0 };
        self.first += mass(&weights[..FIRST.saturating_sub(oldest).min(tokens)]);
        self.recent += mass(&weights[tokens.saturating_sub(RECENT)..]);
        self.top += f64::from(weights.iter().copied().fold(0.0, f32::max));
        self.queries += 1;
    }

    /// Takes in another document's sums.
    pub fn add(&mut self, other: &Self) {
        self.entropy += other.entropy;
        self.concentration += other.concentration;
        self.first += other.first;
        self.recent += other.recent;
        self.top += other.top;
        self.queries += other.queries;
    }

    /// Queries that were taken in.
    pub fn queries(&self) -> u64 {
        self.queries
    }

    /// The means; `None` of no queries.
    pub fn pattern(&self) -> Option<Pattern> {
        let mean = |sum: f64| sum / self.queries as f64;
        (self.queries > 0).then(|| Pattern {
            entropy: mean(self.entropy),
            concentration: mean(self.concentration),
            first: mean(self.first),
            recent: mean(self.recent),
            top: mean(self.top),
        })
    }

    /// Whether nothing that was taken in was NaN or infinite.
    pub fn is_finite(&self) -> bool {
        self.entropy.is_finite() && self.first.is_finite() && self.recent.is_finite()
    }
}

fn entropy(weights: &[f32]) -> f64 {
    let term = |&a: &f32| if a > 0.0 { -f64::from(a) * f64::from(a).ln() } else { 0.0 };
    let sum: f64 = weights.iter().map(term).sum();
    // NaN is above no number, so it would vanish in the line above.
    if weights.iter().any(|a| a.is_nan()) { f64::NAN } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(weights: &[f32]) -> Pattern {
        let mut sums = PatternSums::default();
        sums.query(weights, 0);
        sums.pattern().expect("a query with more than first and recent tokens")
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found}, expected {expected}");
    }

    #[test]
    fn even_attention_has_the_largest_entropy_and_no_concentration() {
        let even = pattern(&[0.01; 100]);
        close(even.entropy, 100_f64.ln());
        close(even.concentration, 0.0);
        close(even.first, 0.04);
        close(even.recent, 0.64);
        close(even.top, 0.01);
        assert_eq!(even.class(), HeadClass::Retrieval);
    }

    #[test]
    fn a_sink_is_streaming_and_a_needle_is_retrieval() {
        let on = |token: usize| {
            let mut weights = vec![0.0; 128];
            weights[token] = 1.0;
            pattern(&weights)
        };
        for (token, class) in
            [(0, HeadClass::Streaming), (30, HeadClass::Retrieval), (64, HeadClass::Streaming)]
        {
            let found = on(token);
            close(found.entropy, 0.0);
            close(found.concentration, 1.0);
            close(found.top, 1.0);
            assert_eq!(found.class(), class, "token {token}");
        }
        close(on(63).recent, 0.0);
        close(on(3).first, 1.0);
        close(on(4).first, 0.0);
    }

    #[test]
    fn two_equal_tokens_have_the_entropy_of_a_coin() {
        let mut weights = vec![0.0; 70];
        (weights[0], weights[5]) = (0.5, 0.5);
        close(pattern(&weights).entropy, 2_f64.ln());
    }

    #[test]
    fn queries_that_see_only_first_and_recent_tokens_are_left_out() {
        let mut sums = PatternSums::default();
        sums.query(&[1.0 / 68.0; 68], 0);
        assert_eq!((sums.queries(), sums.pattern()), (0, None));
        sums.query(&[1.0 / 69.0; 69], 0);
        assert_eq!(sums.queries(), 1);
    }

    #[test]
    fn behind_a_window_the_first_tokens_are_out_of_sight() {
        let mut sums = PatternSums::default();
        sums.query(&[0.0, 0.5, 0.5], 100);
        let windowed = sums.pattern().expect("a late query");
        close(windowed.first, 0.0);
        close(windowed.recent, 1.0);
    }

    #[test]
    fn a_weight_that_is_no_number_is_noticed() {
        let mut sums = PatternSums::default();
        sums.query(&[f32::NAN; 80], 0);
        assert!(!sums.is_finite());
    }
}
