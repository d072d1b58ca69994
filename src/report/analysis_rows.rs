//! One struct per CSV file of an analysis.

use serde::{Deserialize, Serialize};

use crate::analysis::{HeadClass, Side};
use crate::precision::{Bits, PrecisionMap, PrecisionPair};

use super::text::{genome_text, map_text};

/// `heads.csv`: how one query head attends, and its error at one pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PatternRow {
    /// Layer, from 0.
    pub layer: usize,
    /// Query head, from 0.
    pub head: usize,
    /// KV head that it reads, from 0.
    pub kv_head: usize,
    /// Entropy of attention, nats, mean over queries.
    pub entropy: f64,
    /// 1 − entropy / ln(tokens seen), mean over queries.
    pub concentration: f64,
    /// Share of attention on the first 4 tokens.
    pub first_mass: f64,
    /// Share of attention on the last 64 tokens.
    pub recent_mass: f64,
    /// Share of attention on the token that has most.
    pub top_mass: f64,
    /// Streaming where first and recent mass are over 0.9 together.
    pub class: HeadClass,
    /// The pair that the errors are of.
    pub pair: PrecisionPair,
    /// Attention weights, mean absolute difference over unmasked entries.
    pub e_a: f64,
    /// Attention output, Σ|x − x̂| / Σ|x|.
    pub e_o_l1: f64,
    /// Attention output, mean of |x − x̂| / |x|.
    pub e_o_elementwise: f64,
}

impl PatternRow {
    /// The pair that says most of noise on keys: narrowest keys, and among these the widest values.
    pub fn shown_pair(pairs: impl Iterator<Item = PrecisionPair>) -> Option<PrecisionPair> {
        pairs.min_by(|a, b| a.key.cmp(&b.key).then(b.value.cmp(&a.value)))
    }
}

/// `channels.csv`: the keys of one channel of a KV head, as the cache holds them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelRow {
    /// Layer, from 0.
    pub layer: usize,
    /// KV head, from 0.
    pub kv_head: usize,
    /// Channel, from 0.
    pub channel: usize,
    /// Largest absolute value.
    pub max: f64,
    /// Largest less smallest value.
    pub spread: f64,
    /// Root of the mean square.
    pub rms: f64,
    /// Whether `max` is over 4 times the median of the head's channels.
    pub outlier: bool,
    /// Share of Σ k² that goes with the rotated bias of the key projection; empty where it has none.
    pub bias_share: Option<f64>,
    /// Spread of the keys without that bias.
    pub spread_without_bias: Option<f64>,
}

/// `lemma.csv`: queries under noise on the keys, by their largest attention weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LemmaRow {
    /// Whose queries.
    pub source: LemmaSource,
    /// Key width whose error the noise is as large as; empty for made queries, whose scores it moves by 1.
    pub noise_bits: Option<Bits>,
    /// Lower end of the largest weight.
    pub top_from: f64,
    /// Upper end of the largest weight.
    pub top_to: f64,
    /// How many.
    pub queries: u64,
    /// Mean of ½ Σ|a − â|.
    pub attention_shift: Option<f64>,
    /// Mean of what that may be at most.
    pub bound: Option<f64>,
    /// Σ|o − ô| / Σ|o|.
    pub output_change: Option<f64>,
    /// Queries that moved further than their bound.
    pub beyond_bound: u64,
}

/// Whose queries noise was put to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LemmaSource {
    /// Made ones, with one key raised above the others.
    Synthetic,
    /// The model's own.
    Model,
}

/// `knockout.csv`: the chosen map with one side of one group a step lower, worst first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnockOutRow {
    /// Group, from 0, as in `space.yaml`.
    pub group: usize,
    /// Its layers, spaces between.
    #[serde(with = "genome_text")]
    pub layers: Vec<usize>,
    /// What is lowered.
    pub side: Side,
    /// Pair of these layers in the map.
    pub from: PrecisionPair,
    /// Their pair in the lowered map.
    pub to: PrecisionPair,
    /// Change of the objective, mean over positions.
    pub loss_change: f64,
    /// Lower end of its 95 % interval.
    pub loss_low: f64,
    /// Upper end of its 95 % interval.
    pub loss_high: f64,
    /// Change of KL from full precision, nats a token.
    pub kl_change: f64,
    /// Lower end of its 95 % interval.
    pub kl_low: f64,
    /// Upper end of its 95 % interval.
    pub kl_high: f64,
    /// e_o at `from`, mean over the layers.
    pub e_o: Option<f64>,
    /// e_o at `to`, mean over the layers.
    pub e_o_lowered: Option<f64>,
    /// Place by change of the objective, 1 is worst; equals share a place.
    pub rank_loss: usize,
    /// Place by change of KL.
    pub rank_kl: usize,
    /// Place by the rise of e_o from `from` to `to`, summed over the layers: the additive model's guess.
    pub rank_e_o: Option<usize>,
    /// The lowered map.
    #[serde(with = "map_text")]
    pub map: PrecisionMap,
}
