use burn::prelude::*;
use burn::tensor::TensorData;

use super::drift::{Correction, drift};
use super::features::{Features, History, Step};
use super::heads::{Detector, Rows};
use super::loss::Target;
use super::oracle::{Oracle, log_sum_of, oracle};
use super::traced::Traced;

/// Positions of some documents, laid out for training and for evaluation.
///
/// Hidden states are not among them: they stay in the file until a batch asks for them.
pub struct Examples<'a> {
    traced: &'a Traced,
    k: usize,
    /// Document and position of each example.
    pub places: Vec<(usize, usize)>,
    rows: Rows,
    /// Full-precision probabilities of the candidates, and of all other tokens together.
    p: Vec<f32>,
    p_rest: Vec<f32>,
    /// Quantized ones.
    q: Vec<f32>,
    /// Σ exp of the logits of all other tokens.
    rest: Vec<f32>,
    order: Vec<i32>,
    /// Whether the step has drifted: more than the limit, or another most likely token.
    pub drifted: Vec<bool>,
    /// Bits of drift that full precision's order of the candidates would take away, 0 to 1.
    reducible: Vec<f32>,
}

/// Weighted draws of the ranking loss; what comes later hardly matters to what is chosen.
const RANKED: usize = 10;

impl<'a> Examples<'a> {
    /// All positions of the given documents, with `k` candidates each. A step has drifted if its Jensen–Shannon
    /// divergence over candidates and rest is above `limit` bits or its most likely token is another one.
    pub fn new(traced: &'a Traced, documents: &[usize], k: usize, limit: f64) -> Self {
        let features = Features::new(k);
        let mut examples = Self {
            traced,
            k,
            places: Vec::new(),
            rows: Rows::default(),
            p: Vec::new(),
            p_rest: Vec::new(),
            q: Vec::new(),
            rest: Vec::new(),
            order: Vec::new(),
            drifted: Vec::new(),
            reducible: Vec::new(),
        };
        for &document in documents {
            let mut history = History::default();
            for position in 0..traced.sheet(document).positions() {
                examples.push(document, position, features, &mut history, limit);
            }
        }
        examples
    }

    fn push(&mut self, document: usize, at: usize, features: Features, history: &mut History, limit: f64) {
        let k = self.k;
        let position = self.traced.sheet(document).position(at);
        let row = position.row;
        let step = Step {
            margins: &position.logits[..k],
            log_sum: row.log_sum,
            entropy: row.entropy,
            length: row.length,
        };
        self.places.push((document, at));
        self.rows.margins.extend(step.margins);
        self.rows.ids.extend(&position.ids[..k]);
        self.rows.features.extend(features.of(&step, history));
        let full = &position.full[..k];
        let share = |z: f32, log_sum: f32| (z - log_sum).exp();
        self.p.extend(full.iter().map(|&z| share(z, row.full_log_sum)));
        self.q.extend(step.margins.iter().map(|&z| share(z, row.log_sum)));
        let outside =
            |logits: &[f32], log_sum: f32| (1.0 - (log_sum_of(logits) - f64::from(log_sum)).exp()).max(0.0);
        self.p_rest.push(outside(full, row.full_log_sum) as f32);
        self.rest.push((outside(step.margins, row.log_sum) * f64::from(row.log_sum).exp()) as f32);
        let mut order: Vec<i32> = (0..k as i32).collect();
        order.sort_by(|&a, &b| full[b as usize].total_cmp(&full[a as usize]).then(a.cmp(&b)));
        self.order.extend(order);
        let now = drift(&position, &Correction::none(&position, k));
        self.drifted.push(now.bins.js > limit || now.flip);
        let least = drift(&position, &oracle(&position, k, Oracle::Order));
        self.reducible.push((now.bins.js - least.bins.js).clamp(0.0, 1.0) as f32);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Candidates of each.
    pub fn top_k(&self) -> usize {
        self.k
    }

    /// The trace that they are of.
    pub fn traced(&self) -> &'a Traced {
        self.traced
    }

    /// Features of one example, as they are.
    pub fn features(&self, index: usize) -> &[f32] {
        let width = Features::new(self.k).width();
        &self.rows.features[index * width..(index + 1) * width]
    }

    /// Hidden states of one example, as they are.
    pub fn hidden(&self, index: usize) -> Vec<f32> {
        let mut states = Vec::new();
        let (document, position) = self.places[index];
        self.traced.hidden(document, position, &mut states);
        states
    }

    /// Some examples as heads read them.
    pub fn rows(&self, indices: &[usize], with_hidden: bool) -> Rows {
        let (k, width) = (self.k, Features::new(self.k).width());
        let hidden =
            if with_hidden { indices.iter().flat_map(|&index| self.hidden(index)).collect() } else { vec![] };
        Rows {
            margins: picked(&self.rows.margins, indices, k),
            features: picked(&self.rows.features, indices, width),
            ids: picked(&self.rows.ids, indices, k),
            hidden,
        }
    }

    /// What a corrector should make of some examples; steps that have not drifted shall stay as they are.
    pub fn target<B: Backend>(&self, indices: &[usize], device: &B::Device) -> Target<B> {
        self.toward(indices, |index| !self.drifted[index], device)
    }

    /// Full precision, at every step.
    pub fn truth<B: Backend>(&self, indices: &[usize], device: &B::Device) -> Target<B> {
        self.toward(indices, |_| false, device)
    }

    fn toward<B: Backend>(
        &self,
        indices: &[usize],
        quiet: impl Fn(usize) -> bool,
        device: &B::Device,
    ) -> Target<B> {
        let k = self.k;
        let (mut p, mut p_rest, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for &index in indices {
            let range = index * k..(index + 1) * k;
            let full = &self.p[range.clone()];
            let order = &self.order[range.clone()];
            if quiet(index) {
                p.extend(&self.q[range]);
                p_rest.push((1.0 - self.q[index * k..(index + 1) * k].iter().sum::<f32>()).max(0.0));
                weights.extend(std::iter::repeat_n(0.0, k));
            } else {
                p.extend(full);
                p_rest.push(self.p_rest[index]);
                let inside: f32 = full.iter().sum::<f32>().max(f32::MIN_POSITIVE);
                let weight = |(rank, &id): (usize, &i32)| {
                    if rank < RANKED { full[id as usize] / inside } else { 0.0 }
                };
                weights.extend(order.iter().enumerate().map(weight));
            }
        }
        let n = indices.len();
        let matrix =
            |data: Vec<f32>, width| Tensor::<B, 2>::from_data(TensorData::new(data, [n, width]), device);
        Target {
            p: matrix(p, k),
            p_rest: matrix(p_rest, 1),
            rest: matrix(picked(&self.rest, indices, 1), 1),
            order: Tensor::from_data(TensorData::new(picked(&self.order, indices, k), [n, k]), device),
            order_weights: matrix(weights, k),
            quiet: matrix(indices.iter().map(|&index| f32::from(u8::from(quiet(index)))).collect(), 1),
        }
    }

    /// What a detector should come to at some examples, `[n, 1]`: 1 where the step has drifted, else 0; or the bits
    /// to be gained, which lie between.
    pub fn labels<B: Backend>(&self, kind: Detector, indices: &[usize], device: &B::Device) -> Tensor<B, 2> {
        let label = |&index: &usize| match kind {
            Detector::Gain => self.reducible[index],
            Detector::Logistic | Detector::Mlp => f32::from(u8::from(self.drifted[index])),
        };
        let labels: Vec<f32> = indices.iter().map(label).collect();
        Tensor::from_data(TensorData::new(labels, [indices.len(), 1]), device)
    }
}

fn picked<T: Copy>(table: &[T], indices: &[usize], width: usize) -> Vec<T> {
    indices.iter().flat_map(|&index| table[index * width..(index + 1) * width].iter().copied()).collect()
}
