//! Trains one head at a time: AdamW with a falling rate, and early stopping on documents that are held out.

use burn::backend::Autodiff;
use burn::prelude::*;
use burn::tensor::TensorData;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::adam::{Adam, Rate};
use super::error::DgapError;
use super::examples::Examples;
use super::heads::{
    Bounds, Corrector, Detector, Head, Input, Matrix, Readout, Shape, Sizes, Standard, bounded, correct, risk,
};
use super::loss::{LossWeights, cross_entropy, js, loss};
use crate::model::DecoderBackend;
use crate::progress::Observer;

/// How heads are trained.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrainParams {
    /// Seed of weights, order and dropout.
    pub seed: u64,
    /// Passes over the training positions, at most.
    pub epochs: usize,
    /// Passes without a better figure on held-out documents after which training stops.
    pub patience: usize,
    /// Positions of a step.
    pub batch: usize,
    /// Of Adam, at its height.
    pub learning_rate: f64,
    /// Share of each weight that a step at rate 1 takes away.
    pub weight_decay: f64,
    /// Share of the hidden channels, and of C3's inner units, that a training position does not see.
    pub dropout: f64,
    /// The loss of correctors.
    pub loss: LossWeights,
    /// Bounds of corrections.
    pub bounds: Bounds,
    /// Sizes of correctors.
    pub sizes: Sizes,
}

impl Default for TrainParams {
    fn default() -> Self {
        Self {
            seed: 0,
            epochs: 12,
            patience: 4,
            batch: 128,
            learning_rate: 1e-3,
            weight_decay: 0.02,
            dropout: 0.3,
            loss: LossWeights::default(),
            bounds: Bounds::default(),
            sizes: Sizes::default(),
        }
    }
}

/// What training knows besides its parameters.
pub struct Training<'a, B: DecoderBackend> {
    /// Positions to learn from.
    pub train: &'a Examples<'a>,
    /// Positions that say when to stop.
    pub held_out: &'a Examples<'a>,
    /// Sizes of inputs.
    pub shape: Shape,
    /// Of the features.
    pub features: &'a Standard,
    /// Of the hidden states.
    pub hidden: &'a Standard,
    /// The model's head.
    pub readout: &'a Readout<B>,
    /// Hears whether to stop.
    pub observer: &'a dyn Observer,
}

/// One pass over the training positions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Mean loss.
    pub loss: f64,
    /// On held-out documents: mean Jensen–Shannon divergence in bits for a corrector, mean cross-entropy in nats for
    /// a detector.
    pub held_out: f64,
}

/// A head, and how it came to be.
pub struct Trained<K> {
    /// The head, as it was after its best pass.
    pub head: Head<K>,
    /// All passes.
    pub epochs: Vec<Epoch>,
}

/// A head before its first step.
struct Start {
    name: String,
    weights: Vec<Matrix>,
    /// Of weights, times the learning rate.
    decay: f64,
    /// Draws order and dropout.
    random: ChaCha8Rng,
}

impl<B: DecoderBackend> Training<'_, B> {
    /// Trains a corrector.
    ///
    /// # Errors
    /// [`DgapError::Loss`] where the loss is no number, [`DgapError::Interrupted`].
    pub fn corrector(&self, kind: Corrector, params: &TrainParams) -> Result<Trained<Corrector>, DgapError> {
        let mut random = ChaCha8Rng::seed_from_u64(params.seed);
        let weights = kind.init(self.shape, params.sizes, &mut random);
        let device = self.device();
        let readout = self.readout.map(Tensor::<Autodiff<B>, 2>::from_inner);
        let step = |w: &[Tensor<Autodiff<B>, 2>], indices: &[usize], random: &mut ChaCha8Rng| {
            let mut input = self.input::<Autodiff<B>>(self.train, indices, kind);
            self.hide(&mut input, kind, params, random);
            let delta = bounded(correct(kind, w, &input, &readout), &input.margins, params.bounds);
            loss(&input.margins, delta, &self.train.target(indices, &device), loss_of(kind, params.loss))
        };
        let judge = |w: &[Tensor<B, 2>], indices: &[usize]| {
            let input = self.input::<B>(self.held_out, indices, kind);
            let delta = bounded(correct(kind, w, &input, self.readout), &input.margins, params.bounds);
            js(input.margins + delta, &self.held_out.truth(indices, &device)).sum()
        };
        let decay = if kind.reads_hidden() || kind == Corrector::C2 { params.weight_decay } else { 0.0 };
        let start = Start { name: kind.to_string(), weights, decay, random };
        let (weights, epochs) = self.fit(start, params, step, judge)?;
        Ok(Trained { head: Head { kind, weights }, epochs })
    }

    /// Trains a detector: of the steps that have drifted, the rarer kind counted for as much as the other; or of the
    /// bits to be gained, whose expectation the cross-entropy with labels between 0 and 1 comes to.
    ///
    /// # Errors
    /// As [`corrector`](Self::corrector).
    pub fn detector(&self, kind: Detector, params: &TrainParams) -> Result<Trained<Detector>, DgapError> {
        let mut random = ChaCha8Rng::seed_from_u64(params.seed);
        let weights = kind.init(self.shape, &mut random);
        let device = self.device();
        let positive_weight = match kind {
            Detector::Gain => 1.0,
            Detector::Logistic | Detector::Mlp => positive_weight(self.train),
        };
        let features = |examples: &Examples<'_>, indices: &[usize]| {
            let rows = examples.rows(indices, false);
            TensorData::new(self.features.apply(&rows.features), [indices.len(), self.shape.features])
        };
        let step = |w: &[Tensor<Autodiff<B>, 2>], indices: &[usize], _: &mut ChaCha8Rng| {
            let features = Tensor::from_data(features(self.train, indices), &device);
            cross_entropy(
                risk(kind, w, features),
                &self.train.labels(kind, indices, &device),
                positive_weight,
            )
        };
        let judge = |w: &[Tensor<B, 2>], indices: &[usize]| {
            let features = Tensor::from_data(features(self.held_out, indices), &device);
            let labels = self.held_out.labels(kind, indices, &device);
            cross_entropy(risk(kind, w, features), &labels, positive_weight) * indices.len() as f64
        };
        let start = Start { name: kind.to_string(), weights, decay: params.weight_decay, random };
        let (weights, epochs) = self.fit(start, params, step, judge)?;
        let mut head = Head { kind, weights };
        calibrate(&mut head, positive_weight);
        Ok(Trained { head, epochs })
    }

    fn device(&self) -> B::Device {
        self.readout.device()
    }

    fn input<C: Backend<Device = B::Device>>(
        &self,
        examples: &Examples<'_>,
        indices: &[usize],
        kind: Corrector,
    ) -> Input<C> {
        let rows = examples.rows(indices, kind.reads_hidden());
        Input::new(&rows, self.shape, self.features, self.hidden, &self.device())
    }

    /// Hides a share of what a training step reads of hidden states, and of C3's inner units.
    fn hide<C: Backend<Device = B::Device>>(
        &self,
        input: &mut Input<C>,
        kind: Corrector,
        params: &TrainParams,
        random: &mut ChaCha8Rng,
    ) {
        let Some(hidden) = input.hidden.take() else { return };
        let [n, width] = hidden.dims();
        let mut mask = |width| dropped::<C>(n, width, params.dropout, random, &self.device());
        input.hidden = Some(mask(width).into_iter().fold(hidden, |hidden, mask| hidden * mask));
        if kind == Corrector::C3 {
            input.inner = mask(params.sizes.width);
        }
    }

    /// Steps down the loss until held-out documents stop gaining; the weights of the best pass.
    fn fit(
        &self,
        Start { name, weights: mut best, decay, mut random }: Start,
        params: &TrainParams,
        step: impl Fn(&[Tensor<Autodiff<B>, 2>], &[usize], &mut ChaCha8Rng) -> Tensor<Autodiff<B>, 1>,
        judge: impl Fn(&[Tensor<B, 2>], &[usize]) -> Tensor<B, 1>,
    ) -> Result<(Vec<Matrix>, Vec<Epoch>), DgapError> {
        let device = self.device();
        let start: Vec<Tensor<B, 2>> = best.iter().map(|matrix| matrix.tensor(&device)).collect();
        let held_out = |w: &[Tensor<B, 2>]| mean(self.held_out.len(), |indices| scalar(judge(w, indices)));
        let mut least = held_out(&start);
        let steps = self.train.len().div_ceil(params.batch) * params.epochs;
        let mut adam = Adam::new(start, decay, Rate { height: params.learning_rate, steps });
        let mut order: Vec<usize> = (0..self.train.len()).collect();
        let (mut epochs, mut waited) = (Vec::new(), 0);
        while epochs.len() < params.epochs && waited < params.patience {
            order.shuffle(&mut random);
            let mut sum = 0.0;
            for indices in order.chunks(params.batch) {
                if self.observer.interrupted() {
                    return Err(DgapError::Interrupted);
                }
                let weights: Vec<_> = adam.weights().map(|w| Tensor::from_inner(w).require_grad()).collect();
                let loss = step(&weights, indices, &mut random);
                sum += scalar(loss.clone().inner()) * indices.len() as f64;
                let gradients = loss.backward();
                adam.step(weights.iter().map(|w| w.grad(&gradients)));
            }
            let weights: Vec<_> = adam.weights().collect();
            let epoch = Epoch { loss: sum / order.len() as f64, held_out: held_out(&weights) };
            epochs.push(epoch);
            if !(epoch.loss.is_finite() && epoch.held_out.is_finite()) {
                let loss = if epoch.loss.is_finite() { epoch.held_out } else { epoch.loss };
                return Err(DgapError::Loss { head: name, loss, epoch: epochs.len() });
            }
            waited += 1;
            if epoch.held_out < least {
                (least, waited) = (epoch.held_out, 0);
                best.iter_mut().zip(weights).for_each(|(matrix, w)| matrix.data = crate::model::to_host(w));
            }
        }
        Ok((best, epochs))
    }
}

/// Only C3 has weights enough to miss no candidate; the others would spend theirs on unlikely ones.
fn loss_of(kind: Corrector, weights: LossWeights) -> LossWeights {
    LossWeights { margins: if kind == Corrector::C3 { weights.margins } else { 0.0 }, ..weights }
}

/// Zeros at a rate, and elsewhere what keeps the mean: `[n, width]`; `None` at a rate of 0.
fn dropped<B: Backend>(
    n: usize,
    width: usize,
    rate: f64,
    random: &mut ChaCha8Rng,
    device: &B::Device,
) -> Option<Tensor<B, 2>> {
    let keep = 1.0 - rate;
    let draw = |_| if random.random::<f64>() < keep { (1.0 / keep) as f32 } else { 0.0 };
    let mask = || (0..n * width).map(draw).collect::<Vec<f32>>();
    (rate > 0.0).then(|| Tensor::from_data(TensorData::new(mask(), [n, width]), device))
}

/// Positions that are judged at a time.
const CHUNK: usize = 256;

fn mean(count: usize, sum: impl Fn(&[usize]) -> f64) -> f64 {
    let all: Vec<usize> = (0..count).collect();
    all.chunks(CHUNK).map(sum).sum::<f64>() / count.max(1) as f64
}

fn scalar<B: DecoderBackend>(tensor: Tensor<B, 1>) -> f64 {
    f64::from(tensor.into_scalar())
}

/// What a drifted step counts for, against one of a quiet step.
fn positive_weight(examples: &Examples<'_>) -> f64 {
    let positives = examples.drifted.iter().filter(|&&drifted| drifted).count();
    let negatives = examples.len() - positives;
    if positives == 0 || negatives == 0 { 1.0 } else { negatives as f64 / positives as f64 }
}

/// Takes the weight of the classes off the last bias, so that risks are probabilities again.
fn calibrate(head: &mut Head<Detector>, positive_weight: f64) {
    if let Some(bias) = head.weights.last_mut() {
        bias.data.iter_mut().for_each(|bias| *bias -= positive_weight.ln() as f32);
    }
}
