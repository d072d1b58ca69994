use std::fmt;

use burn::prelude::*;
use burn::tensor::activation::{gelu, relu};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Input, Matrix, Readout, Shape};

/// Which corrector: two baselines, then four sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Corrector {
    /// One factor on all margins.
    Temperature,
    /// One number a token of the vocabulary.
    TokenBias,
    /// Affine in the margins, one number a rank.
    C0,
    /// Low rank in the last hidden state, read out through the model's head.
    C1,
    /// A net over the set of candidates, which does not depend on their order.
    C2,
    /// An MLP on hidden states, read out through the model's head.
    C3,
}

/// How large correctors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sizes {
    /// Rank of C1.
    pub rank: usize,
    /// Width of a candidate in C2.
    pub set_width: usize,
    /// Width of the hidden layer of C3.
    pub width: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { rank: 16, set_width: 32, width: 384 }
    }
}

/// How far a correction may go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bounds {
    /// The most that a candidate's logit moves, before the mass is kept.
    pub clip: f32,
    /// Whether the candidates together keep their probability.
    pub keep_mass: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { clip: 6.0, keep_mass: true }
    }
}

impl Corrector {
    /// All of them, baselines first.
    pub const ALL: [Self; 6] = [Self::Temperature, Self::TokenBias, Self::C0, Self::C1, Self::C2, Self::C3];

    /// Whether it reads hidden states and the model's head, which a logits processor does not see.
    pub fn reads_hidden(self) -> bool {
        matches!(self, Self::C1 | Self::C3)
    }

    /// Weights to start from; they correct nothing.
    pub fn init(self, shape: Shape, sizes: Sizes, random: &mut ChaCha8Rng) -> Vec<Matrix> {
        let Shape { top_k, features, hidden, inputs, vocab } = shape;
        match self {
            Self::Temperature => vec![Matrix::zeros("log_factor", 1, 1)],
            Self::TokenBias => vec![Matrix::zeros("bias", vocab, 1)],
            Self::C0 => vec![Matrix::zeros("w", top_k - 1, top_k), Matrix::zeros("b", 1, top_k)],
            Self::C1 => vec![
                Matrix::random("down", hidden, sizes.rank, random),
                Matrix::zeros("up", sizes.rank, hidden),
            ],
            Self::C2 => vec![
                Matrix::random("candidate", CANDIDATE, sizes.set_width, random),
                Matrix::random("context", features, sizes.set_width, random),
                Matrix::zeros("b1", 1, sizes.set_width),
                Matrix::random("own", sizes.set_width, sizes.set_width, random),
                Matrix::random("pooled", 2 * sizes.set_width, sizes.set_width, random),
                Matrix::zeros("b2", 1, sizes.set_width),
                Matrix::zeros("out", sizes.set_width, 1),
            ],
            Self::C3 => vec![
                Matrix::random("w1", inputs + features, sizes.width, random),
                Matrix::zeros("b1", 1, sizes.width),
                Matrix::zeros("w2", sizes.width, hidden),
                Matrix::zeros("ranks", sizes.width, top_k),
            ],
        }
    }
}

impl fmt::Display for Corrector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Temperature => "temperature",
            Self::TokenBias => "token-bias",
            Self::C0 => "c0",
            Self::C1 => "c1",
            Self::C2 => "c2",
            Self::C3 => "c3",
        })
    }
}

/// What C2 reads of a candidate by itself: margin, odds against the first, share of the candidates' mass.
const CANDIDATE: usize = 3;

/// What is added to the logits of the candidates, before bounds: `[n, K]`.
///
/// # Panics
/// Never for a head that reads hidden states where the input has them.
pub fn correct<B: Backend>(
    kind: Corrector,
    weights: &[Tensor<B, 2>],
    input: &Input<B>,
    readout: &Readout<B>,
) -> Tensor<B, 2> {
    let w = |at: usize| weights[at].clone();
    let [n, k] = input.margins.dims();
    let hidden = || input.hidden.clone().expect("inputs of this head carry hidden states");
    match kind {
        Corrector::Temperature => input.margins.clone() * (w(0).exp() - 1.0),
        Corrector::TokenBias => w(0).select(0, input.ids.clone()).reshape([n, k]),
        Corrector::C0 => input.features.clone().narrow(1, 0, k - 1).matmul(w(0)) + w(1),
        Corrector::C1 => {
            let last = hidden().narrow(1, 0, w(0).dims()[0]);
            readout.read(last.matmul(w(0)).matmul(w(1)), input.ids.clone())
        }
        Corrector::C2 => over_set(weights, input),
        Corrector::C3 => {
            let x = Tensor::cat(vec![hidden(), input.features.clone()], 1);
            let inner = gelu(x.matmul(w(0)) + w(1));
            let inner = input.inner.iter().fold(inner, |inner, mask| inner * mask.clone());
            readout.read(inner.clone().matmul(w(2)), input.ids.clone()) + inner.matmul(w(3))
        }
    }
}

/// Each candidate beside the mean of all, plain and by probability: permuting them permutes the result.
fn over_set<B: Backend>(weights: &[Tensor<B, 2>], input: &Input<B>) -> Tensor<B, 2> {
    let w = |at: usize| weights[at].clone();
    let [n, k] = input.margins.dims();
    let width = w(0).dims()[1];
    let odds = input.margins.clone().exp();
    let share = odds.clone() / odds.clone().sum_dim(1);
    let each = [input.margins.clone() * 0.25, odds, share.clone()];
    let each = Tensor::cat(each.map(|part| part.reshape([n, k, 1])).to_vec(), 2); // [n, K, 3]
    let context = (input.features.clone().matmul(w(1)) + w(2)).reshape([n, 1, width]);
    let own = each.reshape([n * k, CANDIDATE]).matmul(w(0)).reshape([n, k, width]);
    let own = relu(own + context); // [n, K, width]
    let mean = own.clone().mean_dim(1).reshape([n, width]);
    let weighted = (own.clone() * share.reshape([n, k, 1])).sum_dim(1).reshape([n, width]);
    let pooled = (Tensor::cat(vec![mean, weighted], 1).matmul(w(4)) + w(5)).reshape([n, 1, width]);
    let own = own.reshape([n * k, width]).matmul(w(3)).reshape([n, k, width]);
    relu(own + pooled).reshape([n * k, width]).matmul(w(6)).reshape([n, k])
}

/// The correction within its bounds: clipped smoothly, and shifted so that the candidates keep their mass.
///
/// Zeros stay zeros, to the bit.
pub fn bounded<B: Backend>(raw: Tensor<B, 2>, margins: &Tensor<B, 2>, bounds: Bounds) -> Tensor<B, 2> {
    let clip = f64::from(bounds.clip);
    let delta = (raw / clip).tanh() * clip;
    if !bounds.keep_mass {
        return delta;
    }
    let log_sum = |logits: Tensor<B, 2>| logits.exp().sum_dim(1).log();
    let gained = log_sum(margins.clone() + delta.clone()) - log_sum(margins.clone());
    delta - gained
}
