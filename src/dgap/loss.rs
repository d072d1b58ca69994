//! What correctors and detectors are trained on (**ours**).

use burn::prelude::*;
use burn::tensor::TensorData;
use burn::tensor::activation::log_sigmoid;
use serde::{Deserialize, Serialize};

/// Which divergence from full precision a corrector lowers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Divergence {
    /// KL(full ‖ corrected).
    #[default]
    Kl,
    /// Jensen–Shannon.
    Js,
}

/// Weights of the parts of a corrector's loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LossWeights {
    /// The main part.
    pub divergence: Divergence,
    /// Of the listwise ranking loss.
    pub ranking: f64,
    /// Of the mean square by which corrections of C3 miss full precision's logits, all candidates counting alike. It
    /// says something of every candidate where a divergence hears of the likely ones alone, so that the head of most
    /// weights learns less by heart.
    pub margins: f64,
    /// Of the mean square of corrections.
    pub size: f64,
    /// Of the same at quiet steps, on top.
    pub quiet: f64,
}

impl Default for LossWeights {
    fn default() -> Self {
        Self { divergence: Divergence::Kl, ranking: 0.05, margins: 0.05, size: 1e-3, quiet: 0.05 }
    }
}

/// What a corrector should come to, on K candidates and one bin for all other tokens.
#[derive(Clone, Debug)]
pub struct Target<B: Backend> {
    /// Probabilities to come to: `[n, K]`; at quiet steps those that are there already.
    pub p: Tensor<B, 2>,
    /// Probability of all other tokens: `[n, 1]`.
    pub p_rest: Tensor<B, 2>,
    /// Σ exp of the other tokens' logits, relative to the largest logit: `[n, 1]`.
    pub rest: Tensor<B, 2>,
    /// Candidates by falling full-precision logit: `[n, K]`.
    pub order: Tensor<B, 2, Int>,
    /// Weights of the ranking loss in that order: `[n, K]`, zeros at quiet steps.
    pub order_weights: Tensor<B, 2>,
    /// 1 at quiet steps, else 0: `[n, 1]`.
    pub quiet: Tensor<B, 2>,
}

/// Smallest probability whose logarithm is taken.
const FLOOR: f64 = 1e-12;

/// The loss of a bounded correction, mean over rows.
pub fn loss<B: Backend>(
    margins: &Tensor<B, 2>,
    delta: Tensor<B, 2>,
    target: &Target<B>,
    weights: LossWeights,
) -> Tensor<B, 1> {
    let logits = margins.clone() + delta.clone();
    let main = match weights.divergence {
        Divergence::Kl => kl(logits.clone(), target),
        Divergence::Js => js(logits.clone(), target),
    };
    let size =
        delta.clone().powi_scalar(2).mean_dim(1) * (target.quiet.clone() * weights.quiet + weights.size);
    let mut loss = (main + size).mean();
    if weights.margins > 0.0 {
        loss = loss + missed(margins, delta, target).mean() * weights.margins;
    }
    if weights.ranking > 0.0 { loss + ranking(logits, target).mean() * weights.ranking } else { loss }
}

/// Corrected probabilities of the candidates and of all other tokens: `[n, K]`, `[n, 1]`, as logarithms.
fn log_shares<B: Backend>(logits: Tensor<B, 2>, target: &Target<B>) -> (Tensor<B, 2>, Tensor<B, 2>) {
    let log_sum = (logits.clone().exp().sum_dim(1) + target.rest.clone()).log();
    let rest = target.rest.clone().clamp_min(FLOOR).log() - log_sum.clone();
    (logits - log_sum, rest)
}

/// KL(target ‖ corrected) in nats: `[n, 1]`.
pub fn kl<B: Backend>(logits: Tensor<B, 2>, target: &Target<B>) -> Tensor<B, 2> {
    let (inside, rest) = log_shares(logits, target);
    let term = |p: &Tensor<B, 2>, log_q| p.clone() * (p.clone().clamp_min(FLOOR).log() - log_q);
    term(&target.p, inside).sum_dim(1) + term(&target.p_rest, rest)
}

/// Jensen–Shannon divergence in bits: `[n, 1]`.
pub fn js<B: Backend>(logits: Tensor<B, 2>, target: &Target<B>) -> Tensor<B, 2> {
    let (inside, rest) = log_shares(logits, target);
    let term = |p: &Tensor<B, 2>, log_q: Tensor<B, 2>| {
        let q = log_q.clone().exp();
        let middle = ((p.clone() + q.clone()) * 0.5).clamp_min(FLOOR).log();
        let of_p = p.clone() * (p.clone().clamp_min(FLOOR).log() - middle.clone());
        (of_p + q * (log_q - middle)) * (0.5 / std::f64::consts::LN_2)
    };
    term(&target.p, inside).sum_dim(1) + term(&target.p_rest, rest)
}

/// Mean square of what is missing to the logits aimed at, a constant left out: `[n, 1]`.
fn missed<B: Backend>(margins: &Tensor<B, 2>, delta: Tensor<B, 2>, target: &Target<B>) -> Tensor<B, 2> {
    let missing = target.p.clone().clamp_min(FLOOR).log() - margins.clone() - delta;
    (missing.clone() - missing.mean_dim(1)).powi_scalar(2).mean_dim(1)
}

/// How unlikely full precision's order is when candidates are drawn one after the other without replacement
/// (Plackett–Luce; ListMLE of Xia et al., 2008), each draw weighted by its probability: `[n, 1]`.
fn ranking<B: Backend>(logits: Tensor<B, 2>, target: &Target<B>) -> Tensor<B, 2> {
    let sorted = logits.gather(1, target.order.clone());
    let k = sorted.dims()[1];
    let left = sorted.clone().exp().matmul(at_or_behind(k, &sorted.device())).clamp_min(FLOOR).log();
    ((left - sorted) * target.order_weights.clone()).sum_dim(1)
}

/// `[K, K]`, 1 where the row is at or behind the column: sums what is not drawn yet.
fn at_or_behind<B: Backend>(k: usize, device: &B::Device) -> Tensor<B, 2> {
    let one = |row: usize, col: usize| if row >= col { 1.0_f32 } else { 0.0 };
    let data: Vec<f32> = (0..k * k).map(|at| one(at / k, at % k)).collect();
    Tensor::from_data(TensorData::new(data, [k, k]), device)
}

/// Binary cross-entropy of log-odds `[n, 1]` with labels of 0 and 1, those of 1 counted `positive_weight` times.
pub fn cross_entropy<B: Backend>(
    log_odds: Tensor<B, 2>,
    labels: &Tensor<B, 2>,
    positive_weight: f64,
) -> Tensor<B, 1> {
    let positive = log_sigmoid(log_odds.clone()) * labels.clone() * positive_weight;
    let negative = log_sigmoid(log_odds.neg()) * (labels.clone().neg() + 1.0);
    (positive + negative).mean().neg()
}
