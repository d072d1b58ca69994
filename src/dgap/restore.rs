use std::path::Path;

use kvtune_kernels::statistics::{divergence, log_sum_exp};

use super::error::DgapError;
use super::features::{self, Features, History};
use super::heads::{Corrector, Readout, Rows};
use super::loaded::Loaded;
use super::observe::side_by_side;
use super::set::Heads;
use crate::model::DecoderBackend;
use crate::model::restore::{Restore, Step};
use crate::trace::top_k;

/// Heads at work while a model decodes: after its logits, before a token is chosen. The cache stays as it is.
pub struct Restorer<'a, B: DecoderBackend> {
    loaded: Loaded<'a, B>,
    features: Features,
    top_k: usize,
    layers: &'a [usize],
    threshold: f64,
    /// Logits of a distribution that is the same for all tokens.
    flat: Vec<f32>,
}

impl<'a, B: DecoderBackend> Restorer<'a, B> {
    /// Of heads that were read from `path`, with their own corrector and threshold unless others are asked for.
    ///
    /// # Errors
    /// [`DgapError::NoHead`].
    pub fn new(
        heads: &'a Heads,
        path: &Path,
        corrector: Option<Corrector>,
        threshold: Option<f64>,
        readout: &'a Readout<B>,
    ) -> Result<Self, DgapError> {
        let about = &heads.about;
        Ok(Self {
            loaded: Loaded::new(heads, path, corrector, readout)?,
            features: Features::new(about.shape.top_k),
            top_k: about.shape.top_k,
            layers: &about.layers,
            threshold: threshold.unwrap_or(about.threshold.risk),
            flat: vec![0.0; about.shape.vocab],
        })
    }

    /// What heads read of a step, without hidden states; the step is in the history then.
    fn rows(&self, logits: &[f32], length: usize, history: &mut History) -> Rows {
        let best = top_k(logits, self.top_k);
        let margins: Vec<f32> = best.iter().map(|(_, logit)| logit - best[0].1).collect();
        let log_sum = log_sum_exp(logits);
        let flat_sum = (logits.len() as f64).ln();
        let step = features::Step {
            margins: &margins,
            log_sum: (log_sum - f64::from(best[0].1)) as f32,
            // Entropy is what is missing to that of the flat distribution.
            entropy: (flat_sum - divergence(logits, log_sum, &self.flat, flat_sum)) as f32,
            length: u32::try_from(length).unwrap_or(u32::MAX),
        };
        let features = self.features.of(&step, history);
        Rows { features, ids: best.iter().map(|&(id, _)| id).collect(), margins, hidden: Vec::new() }
    }
}

impl<B: DecoderBackend> Restore for Restorer<'_, B> {
    type State = History;

    fn layers(&self) -> &[usize] {
        self.layers
    }

    fn begin(&self, _prompt: usize) -> History {
        History::default()
    }

    fn restore(&self, history: &mut History, step: Step<'_>) {
        // Logits that are no numbers are the model's own affair.
        if step.logits.len() != self.flat.len() || step.logits.iter().any(|logit| logit.is_nan()) {
            return;
        }
        let mut rows = self.rows(step.logits, step.length, history);
        let is_at_risk = self.loaded.risks(&rows).first().is_some_and(|&risk| risk >= self.threshold);
        if !is_at_risk {
            return;
        }
        if self.loaded.reads_hidden() {
            let earlier: Vec<Vec<f32>> = step.earlier.iter().map(|states| states.to_vec()).collect();
            rows.hidden = side_by_side(step.last, &earlier, step.last.len());
        }
        for (&id, shift) in rows.ids.iter().zip(self.loaded.shifts(&rows)) {
            let logit = &mut step.logits[id as usize];
            // Nothing added leaves a logit as it is, to the bit.
            *logit = if shift.abs() > 0.0 { *logit + shift } else { *logit };
        }
    }
}
