//! Questions that are answered by the likeliest of several continuations.

use kvtune_kernels::statistics::log_sum_exp;

use super::{Reply, Run, TokenAsk};
use crate::model::restore::Restore;
use crate::model::{DecoderBackend, ModelError};
use crate::score::ScoreError;
use crate::score::pass::Pass;
use crate::tasks::answers::Response;

/// Positions whose logits are in memory at once.
const CHUNK: usize = 32;

impl<B: DecoderBackend, R: Restore> Run<'_, B, R> {
    /// The reply of a unit that chooses.
    pub(super) fn choose(&self, unit: usize) -> Result<Reply, ScoreError> {
        if self.observer.interrupted() {
            return Err(ScoreError::Interrupted);
        }
        let TokenAsk::Choose { continuations } = &self.question(unit).ask else {
            return Ok(Reply { response: Response::LogLikelihoods(Vec::new()), tokens: Vec::new() });
        };
        // Continuations of one token each are all answered by the last position of the prompt.
        let values = if continuations.iter().all(|tokens| tokens.len() == 1) {
            let firsts: Vec<u32> = continuations.iter().map(|tokens| tokens[0]).collect();
            self.last_logs(unit, &firsts)?
        } else {
            continuations.iter().map(|tokens| self.log_likelihood(unit, tokens)).collect::<Result<_, _>>()?
        };
        self.observer.advance(1);
        Ok(Reply { response: Response::LogLikelihoods(values), tokens: Vec::new() })
    }

    /// The logarithm of each token's probability right after the prompt.
    fn last_logs(&self, unit: usize, tokens: &[u32]) -> Result<Vec<f64>, ModelError> {
        let rest = &self.question(unit).rest;
        let logits = self.pass(unit, rest)?.restored_logits(rest.len() - 1..rest.len());
        let sum = log_sum_exp(&logits);
        Ok(tokens.iter().map(|&token| f64::from(logits[token as usize]) - sum).collect())
    }

    /// The logarithm of a continuation's probability.
    fn log_likelihood(&self, unit: usize, tokens: &[u32]) -> Result<f64, ModelError> {
        let rest = &self.question(unit).rest;
        let mut pass = self.pass(unit, &[rest, &tokens[..tokens.len() - 1]].concat())?;
        let mut sum = 0.0;
        for (index, next) in tokens.chunks(CHUNK).enumerate() {
            let first = rest.len() - 1 + index * CHUNK;
            let logits = pass.restored_logits(first..first + next.len());
            let rows = logits.chunks_exact(self.decoder.config().vocab_size);
            sum += rows
                .zip(next)
                .map(|(row, &token)| f64::from(row[token as usize]) - log_sum_exp(row))
                .sum::<f64>();
        }
        Ok(sum)
    }

    /// Runs tokens that follow the question's prefix.
    fn pass(&self, unit: usize, tokens: &[u32]) -> Result<Pass<'_, B, R>, ModelError> {
        Pass::run(self.decoder, tokens, &mut self.caches(unit)?, self.configuration(unit).restore)
    }
}
