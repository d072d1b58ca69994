use burn::prelude::*;

use crate::model::DecoderBackend;

/// Learning rate over time: up within the first twentieth, then down along a cosine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) height: f64,
    pub(super) steps: usize,
}

impl Rate {
    fn at(self, step: usize) -> f64 {
        let share = step as f64 / self.steps.max(1) as f64;
        let warm = (share * 20.0).min(1.0);
        self.height * warm * 0.5 * (1.0 + (share.min(1.0) * std::f64::consts::PI).cos())
    }
}

/// AdamW (Loshchilov and Hutter, 2019) with the usual moments.
pub(super) struct Adam<B: DecoderBackend> {
    parameters: Vec<Parameter<B>>,
    decay: f64,
    rate: Rate,
    steps: usize,
}

struct Parameter<B: DecoderBackend> {
    value: Tensor<B, 2>,
    first: Tensor<B, 2>,
    second: Tensor<B, 2>,
}

const FIRST: f64 = 0.9;
const SECOND: f64 = 0.999;

impl<B: DecoderBackend> Adam<B> {
    pub(super) fn new(weights: Vec<Tensor<B, 2>>, decay: f64, rate: Rate) -> Self {
        let parameter =
            |value: Tensor<B, 2>| Parameter { first: value.zeros_like(), second: value.zeros_like(), value };
        Self { parameters: weights.into_iter().map(parameter).collect(), decay, rate, steps: 0 }
    }

    pub(super) fn weights(&self) -> impl Iterator<Item = Tensor<B, 2>> + '_ {
        self.parameters.iter().map(|parameter| parameter.value.clone())
    }

    /// One step down the gradients, in the order of the weights; a weight without one stays.
    pub(super) fn step(&mut self, gradients: impl Iterator<Item = Option<Tensor<B, 2>>>) {
        let rate = self.rate.at(self.steps);
        self.steps += 1;
        let unbiased = |decay: f64| 1.0 / (1.0 - decay.powi(self.steps as i32));
        for (parameter, gradient) in self.parameters.iter_mut().zip(gradients) {
            let Some(gradient) = gradient else { continue };
            let square = gradient.clone().powi_scalar(2);
            parameter.first = parameter.first.clone() * FIRST + gradient * (1.0 - FIRST);
            parameter.second = parameter.second.clone() * SECOND + square * (1.0 - SECOND);
            let size = (parameter.second.clone() * unbiased(SECOND)).sqrt() + 1e-8;
            let update = parameter.first.clone() * unbiased(FIRST) / size;
            parameter.value = parameter.value.clone() * (1.0 - rate * self.decay) - update * rate;
        }
    }
}
