use std::path::Path;

use burn::prelude::*;
use burn::tensor::TensorData;
use burn::tensor::activation::sigmoid;

use super::error::DgapError;
use super::heads::{
    Bounds, Corrector, Detector, Head, Input, Readout, Rows, Shape, Standard, bounded, correct, risk,
};
use super::set::Heads;
use crate::model::{DecoderBackend, to_host};

/// One detector and one corrector on a device, ready for steps.
pub struct Loaded<'a, B: DecoderBackend> {
    shape: Shape,
    features: &'a Standard,
    hidden: &'a Standard,
    bounds: Bounds,
    readout: &'a Readout<B>,
    detector: (Detector, Vec<Tensor<B, 2>>),
    corrector: (Corrector, Vec<Tensor<B, 2>>),
}

impl<'a, B: DecoderBackend> Loaded<'a, B> {
    /// Puts the deciding detector of some heads, read from `path`, and one corrector on the device of the model's
    /// head.
    ///
    /// # Errors
    /// [`DgapError::NoHead`].
    pub fn new(
        heads: &'a Heads,
        path: &Path,
        corrector: Option<Corrector>,
        readout: &'a Readout<B>,
    ) -> Result<Self, DgapError> {
        Ok(Self::of(heads, heads.detector(path)?, heads.corrector(path, corrector)?, readout))
    }

    /// The same with heads that are at hand.
    pub fn of(
        heads: &'a Heads,
        detector: &Head<Detector>,
        corrector: &Head<Corrector>,
        readout: &'a Readout<B>,
    ) -> Self {
        let device = readout.device();
        Self {
            shape: heads.about.shape,
            features: &heads.features,
            hidden: &heads.hidden,
            bounds: heads.about.training.bounds,
            readout,
            detector: (detector.kind, detector.tensors(&device)),
            corrector: (corrector.kind, corrector.tensors(&device)),
        }
    }

    /// Whether the corrector reads hidden states.
    pub fn reads_hidden(&self) -> bool {
        self.corrector.0.reads_hidden()
    }

    /// The probability of having drifted, of each step.
    pub fn risks(&self, rows: &Rows) -> Vec<f64> {
        let n = rows.margins.len() / self.shape.top_k;
        let data = TensorData::new(self.features.apply(&rows.features), [n, self.shape.features]);
        let features = Tensor::from_data(data, &self.readout.device());
        let risks = to_host(sigmoid(risk(self.detector.0, &self.detector.1, features)));
        risks.into_iter().map(f64::from).collect()
    }

    /// What each candidate's logit gains: `[n, K]`.
    pub fn shifts(&self, rows: &Rows) -> Vec<f32> {
        let device = self.readout.device();
        let input = Input::new(rows, self.shape, self.features, self.hidden, &device);
        let raw = correct(self.corrector.0, &self.corrector.1, &input, self.readout);
        to_host(bounded(raw, &input.margins, self.bounds))
    }
}
