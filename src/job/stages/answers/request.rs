use std::path::PathBuf;

use serde::Serialize;

use crate::cache::CacheKind;
use crate::job::stages::{Configuration, Restoration};
use crate::model::WeightType;
use crate::tasks::answers::AnswerSpec;

/// A task that configurations shall be compared on.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerRequest {
    /// The model.
    pub model: String,
    /// What weights are held as.
    pub weights: WeightType,
    /// The task, its files and how much of them.
    pub spec: AnswerSpec,
    /// What keys and values of the configurations are held in.
    pub cache: CacheKind,
    /// What to compare, besides full precision; may be nothing.
    pub configurations: Vec<Configuration>,
    /// (Item, configuration) pairs that go side by side, at most.
    pub lanes: usize,
    /// Heads that repair the configurations that they are for, in rows of their own.
    pub restoration: Option<Restoration>,
    /// Where every answer goes, as JSON lines.
    pub save: Option<PathBuf>,
}

/// One configuration by one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AccuracyRow {
    /// Name of the configuration; the first is full precision.
    pub configuration: String,
    /// What was counted.
    pub metric: String,
    /// Mean code width.
    pub equivalent_bits: f64,
    /// Stored bits an element, at the length of the longest item with its answer.
    pub storage_bits: f64,
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
