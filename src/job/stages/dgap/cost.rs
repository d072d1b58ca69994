use crate::dgap::heads::{Corrector, Detector, Head, Shape};
use crate::model::Config;

/// Multiply–adds of heads against those of the model's weights in a decode step; attention comes on top of the
/// latter, so shares are upper bounds.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    model: usize,
}

impl Cost {
    pub(super) fn of(config: &Config) -> Self {
        let shape = config.head_shape();
        let attention = config.hidden_size * (2 * shape.q_width() + 2 * shape.kv_width());
        let feed_forward = 3 * config.hidden_size * config.intermediate_size;
        let head = config.vocab_size * config.hidden_size;
        Self { model: config.num_hidden_layers * (attention + feed_forward) + head }
    }

    /// A detector's, one for each of its weights.
    pub(super) fn detector(self, head: &Head<Detector>) -> usize {
        elements(head)
    }

    /// A corrector's: one for each weight it uses, and the readout of K rows of the model's head.
    pub(super) fn corrector(self, head: &Head<Corrector>, shape: &Shape) -> usize {
        let readout = shape.top_k * shape.hidden;
        match head.kind {
            Corrector::Temperature | Corrector::TokenBias => shape.top_k,
            Corrector::C0 => elements(head),
            Corrector::C1 | Corrector::C3 => elements(head) + readout,
            // Each candidate goes through the net.
            Corrector::C2 => elements(head) * shape.top_k,
        }
    }

    pub(super) fn relative(self, adds: usize) -> f64 {
        1.0 + adds as f64 / self.model.max(1) as f64
    }
}

fn elements<K>(head: &Head<K>) -> usize {
    head.weights.iter().map(|matrix| matrix.data.len()).sum()
}
