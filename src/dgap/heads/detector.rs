use std::fmt;

use burn::prelude::*;
use burn::tensor::activation::relu;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Matrix, Shape};

/// Which detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detector {
    /// Logistic regression: the baseline.
    Logistic,
    /// F → 64 → 32 → 1.
    Mlp,
    /// The same net, trained for how much of the drift full precision's own order of the candidates would take away
    /// (**ours**). Where nearly every step drifts, this still tells steps apart.
    Gain,
}

impl Detector {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Logistic, Self::Mlp, Self::Gain];

    /// Weights to start from.
    pub fn init(self, shape: Shape, random: &mut ChaCha8Rng) -> Vec<Matrix> {
        const WIDE: usize = 64;
        const NARROW: usize = 32;
        match self {
            Self::Logistic => vec![Matrix::zeros("w", shape.features, 1), Matrix::zeros("b", 1, 1)],
            Self::Mlp | Self::Gain => vec![
                Matrix::random("w1", shape.features, WIDE, random),
                Matrix::zeros("b1", 1, WIDE),
                Matrix::random("w2", WIDE, NARROW, random),
                Matrix::zeros("b2", 1, NARROW),
                Matrix::random("w3", NARROW, 1, random),
                Matrix::zeros("b3", 1, 1),
            ],
        }
    }
}

impl fmt::Display for Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Logistic => "logistic",
            Self::Mlp => "mlp",
            Self::Gain => "gain",
        })
    }
}

/// Log-odds that a step is at risk, or of the bits to be gained: standardized features `[n, F]` to `[n, 1]`.
pub fn risk<B: Backend>(kind: Detector, weights: &[Tensor<B, 2>], features: Tensor<B, 2>) -> Tensor<B, 2> {
    let layer = |x: Tensor<B, 2>, at: usize| x.matmul(weights[at].clone()) + weights[at + 1].clone();
    match kind {
        Detector::Logistic => layer(features, 0),
        Detector::Mlp | Detector::Gain => layer(relu(layer(relu(layer(features, 0)), 2)), 4),
    }
}
