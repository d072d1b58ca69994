//! The heads: small nets that judge a step or repair its candidates, all **ours**.
//!
//! A head is a kind and a few matrices. Its arithmetic stands once, over burn tensors, and is what training
//! differentiates, evaluation applies and decoding runs.

mod corrector;
mod detector;
mod input;
mod matrix;

pub use corrector::{Bounds, Corrector, Sizes, bounded, correct};
pub use detector::{Detector, risk};
pub use input::{Input, Readout, Rows, Standard};
pub use matrix::Matrix;

use burn::prelude::*;
use serde::{Deserialize, Serialize};

/// What all heads of one setting have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Candidates.
    pub top_k: usize,
    /// Features of a step.
    pub features: usize,
    /// Channels of a hidden state.
    pub hidden: usize,
    /// Channels of all hidden states that heads may read: the last, then those of earlier layers.
    pub inputs: usize,
    /// Tokens there are.
    pub vocab: usize,
}

/// A trained head.
#[derive(Clone, Debug, PartialEq)]
pub struct Head<K> {
    /// What it computes.
    pub kind: K,
    /// With what.
    pub weights: Vec<Matrix>,
}

impl<K> Head<K> {
    /// Bytes of its weights, f32.
    pub fn bytes(&self) -> usize {
        self.weights.iter().map(|matrix| size_of_val(&matrix.data[..])).sum()
    }

    /// Its weights on a device.
    pub fn tensors<B: Backend>(&self, device: &B::Device) -> Vec<Tensor<B, 2>> {
        self.weights.iter().map(|matrix| matrix.tensor(device)).collect()
    }
}
