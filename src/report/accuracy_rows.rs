//! What `kvtune eval --task` prints: scores of configurations, and the memory that their answers took.

use serde::{Deserialize, Serialize};

/// One configuration by one metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccuracyRow {
    /// Name of the configuration; the first is full precision.
    pub configuration: String,
    /// What was counted.
    pub metric: String,
    /// Worked examples before each question, where it was said how many.
    pub shots: Option<usize>,
    /// Tokens of an answer at most, where it was said how many.
    pub max_new_tokens: Option<usize>,
    /// Mean code width.
    pub equivalent_bits: f64,
    /// Stored bits an element, at the length of the longest item with its answer.
    pub storage_bits: f64,
    /// Bytes of a question's cache when its answer ends, mean over the items.
    pub cache_bytes: f64,
    /// Items behind the score.
    pub items: usize,
    /// Items left out because they do not fit the context.
    pub skipped: usize,
    /// Mean score, from 0 to 1.
    pub score: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Score less that of full precision on the same items; below 0 is worse. None for full precision itself.
    pub difference: Option<f64>,
    /// Lower end of its 95 % interval, bootstrapped over items.
    pub difference_low: Option<f64>,
    /// Upper end of it.
    pub difference_high: Option<f64>,
    /// Items on which it scores higher.
    pub gained: Option<usize>,
    /// Items on which it scores lower.
    pub lost: Option<usize>,
    /// McNemar's exact test, two-sided; of graded scores the sign test.
    pub p_value: Option<f64>,
    /// The smallest difference that these items would show four times in five.
    pub detectable: Option<f64>,
    /// Where steps are repaired: the share of what the same cache loses without that it gives back. None where full
    /// precision scores, or the cache loses, too little to tell ([`crate::select::recovery()`]).
    pub recovery: Option<f64>,
    /// Lower end of its 95 % interval, bootstrapped over items; none where the items leave it open.
    pub recovery_low: Option<f64>,
    /// Upper end of it.
    pub recovery_high: Option<f64>,
}
