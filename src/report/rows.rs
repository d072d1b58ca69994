//! One struct per CSV file, one field per column, in the order of the columns.

use serde::{Deserialize, Serialize};

use crate::precision::{PrecisionMap, PrecisionPair};

use super::text::{genome_text, map_text};

/// `sensitivity.csv`: the errors of one layer at one pair, pooled over prompts and heads; unitless.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SensitivityRow {
    /// Layer, from 0.
    pub layer: usize,
    /// The pair.
    pub pair: PrecisionPair,
    /// Mean of key and value bits.
    pub equivalent_bits: f64,
    /// Keys, Σ|x − x̂| / Σ|x|.
    pub e_k_l1: f64,
    /// Keys, mean of |x − x̂| / |x|.
    pub e_k_elementwise: f64,
    /// Values, Σ|x − x̂| / Σ|x|.
    pub e_v_l1: f64,
    /// Values, mean of |x − x̂| / |x|.
    pub e_v_elementwise: f64,
    /// Attention weights, mean absolute difference over unmasked entries.
    pub e_a: f64,
    /// Attention output, Σ|x − x̂| / Σ|x|.
    pub e_o_l1: f64,
    /// Attention output, mean of |x − x̂| / |x|.
    pub e_o_elementwise: f64,
}

/// `sensitivity-heads.csv`: the same for one query head; its key and value columns are those of its KV head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeadRow {
    /// Layer, from 0.
    pub layer: usize,
    /// Query head, from 0.
    pub head: usize,
    /// KV head that it reads, from 0.
    pub kv_head: usize,
    /// The pair.
    pub pair: PrecisionPair,
    /// Keys, Σ|x − x̂| / Σ|x|.
    pub e_k_l1: f64,
    /// Keys, mean of |x − x̂| / |x|.
    pub e_k_elementwise: f64,
    /// Values, Σ|x − x̂| / Σ|x|.
    pub e_v_l1: f64,
    /// Values, mean of |x − x̂| / |x|.
    pub e_v_elementwise: f64,
    /// Attention weights, mean absolute difference over unmasked entries.
    pub e_a: f64,
    /// Attention output, Σ|x − x̂| / Σ|x|.
    pub e_o_l1: f64,
    /// Attention output, mean of |x − x̂| / |x|.
    pub e_o_elementwise: f64,
}

/// `sensitivity-prompts.csv`: the attention-output error of one layer at one pair on one prompt, or one domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptRow {
    /// What is compared.
    pub among: Among,
    /// Id of the prompt, or name of the domain.
    pub name: String,
    /// Layer, from 0.
    pub layer: usize,
    /// The pair.
    pub pair: PrecisionPair,
    /// Attention output, Σ|x − x̂| / Σ|x|.
    pub e_o_l1: f64,
    /// Attention output, mean of |x − x̂| / |x|.
    pub e_o_elementwise: f64,
}

/// What the ranking of layers is compared between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Among {
    /// The prompts of the search split.
    Prompts,
    /// Prompts of several domains.
    Domains,
}

/// `error_by_position.csv`: how error accumulates over layers and positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PositionRow {
    /// Layer, from 0.
    pub layer: usize,
    /// Tenth of the continuation, from 0.
    pub decile: usize,
    /// The pair that all layers have.
    pub pair: PrecisionPair,
    /// What the quantized run reads.
    pub mode: PositionMode,
    /// Attention output, Σ|x − x̂| / Σ|x|.
    pub e_o: f64,
    /// Mean KL(full ‖ quantized) of the model's output in this decile, nats a token; the same for every layer.
    pub kl: f64,
}

/// What a quantized run reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PositionMode {
    /// The full-precision continuation.
    TeacherForced,
    /// Its own.
    FreeRunning,
}

/// `evaluations.csv`: one configuration evaluated, in the order of evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRow {
    /// Number of the evaluation, from 0.
    pub index: usize,
    /// Content key: model, scheme, trace, objective, map and numerics of the build, hashed.
    pub key: String,
    /// Why it was evaluated.
    pub kind: EvaluationKind,
    /// Choice of each group; empty where the map is not of the space.
    #[serde(with = "genome_text")]
    pub genome: Vec<usize>,
    /// The map.
    #[serde(with = "map_text")]
    pub map: PrecisionMap,
    /// Mean code width.
    pub equivalent_bits: f64,
    /// Stored bits an element, at the context that `run.yaml` states.
    pub storage_bits: f64,
    /// Bytes of the cache, at the context and batch that `run.yaml` states.
    pub cache_bytes: u64,
    /// Share of positions whose arg-max differs.
    pub flips: f64,
    /// Mean KL(full ‖ quantized), nats a token.
    pub kl: f64,
    /// Difference of mean negative log-likelihood, nats a token.
    pub nll: f64,
    /// What the search minimizes: one of the three, or with `accuracy` the score lost plus a tie-break of less than one
    /// answer; with `combine: each` that of the worst task, and `task-losses.csv` has those of all.
    pub loss: f64,
}

/// `task-losses.csv`: what one map loses in one task, where every task is an objective of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskLossRow {
    /// The map.
    #[serde(with = "map_text")]
    pub map: PrecisionMap,
    /// Mean code width.
    pub equivalent_bits: f64,
    /// Place of the task in the job, from 0.
    pub index: usize,
    /// The task.
    pub task: String,
    /// Score lost on the search split, plus a tie-break of less than one answer.
    pub loss: f64,
}

/// Why a configuration was evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvaluationKind {
    /// A searcher asked.
    Search,
    /// One pair for all layers, for comparison; outside the budget.
    Uniform,
    /// One group alone, for the additive model; charged to the budget.
    Isolated,
}

/// `pareto.csv`: the front, the chosen map, and the uniform maps for comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParetoRow {
    /// The map.
    #[serde(with = "map_text")]
    pub map: PrecisionMap,
    /// What it is here for.
    pub role: Role,
    /// Mean code width.
    pub equivalent_bits: f64,
    /// Stored bits an element, at the context that `run.yaml` states.
    pub storage_bits: f64,
    /// Bytes of the cache, at the context and batch that `run.yaml` states.
    pub cache_bytes: u64,
    /// Loss on the search split.
    pub search_loss: f64,
    /// Loss on the select split.
    pub select_loss: Option<f64>,
    /// One-sided 95 % upper bound of it.
    pub select_upper: Option<f64>,
    /// Loss on the test split, read once and so only for few maps.
    pub test_loss: Option<f64>,
    /// Lower end of its 95 % interval.
    pub test_low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub test_high: Option<f64>,
}

#[cfg(test)]
impl EvaluationRow {
    /// A row for tests, of a map as text; the rest is to be set or of no interest.
    pub(crate) fn made(map: &str) -> Self {
        Self {
            index: 0,
            key: map.to_owned(),
            kind: EvaluationKind::Search,
            genome: Vec::new(),
            map: super::text::parse_map(map).expect("a map"),
            equivalent_bits: 8.0,
            storage_bits: 9.0,
            cache_bytes: 1,
            flips: 0.0,
            kl: 0.0,
            nll: 0.0,
            loss: 0.0,
        }
    }
}

#[cfg(test)]
impl ParetoRow {
    /// A row for tests, of a map as text and its loss on the search split; the rest is to be set or of no interest.
    pub(crate) fn made(map: &str, role: Role, loss: f64) -> Self {
        Self {
            map: super::text::parse_map(map).expect("a map"),
            role,
            equivalent_bits: 8.0,
            storage_bits: 9.0,
            cache_bytes: 1,
            search_loss: loss,
            select_loss: None,
            select_upper: None,
            test_loss: None,
            test_low: None,
            test_high: None,
        }
    }
}

/// What a map stands in `pareto.csv` for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// On the front.
    Front,
    /// One pair for all layers.
    Uniform,
    /// On the front, and the one that `precision.yaml` holds.
    Chosen,
}
