//! Questions that are answered by a text.

use super::{Reply, Run, TokenAsk};
use crate::model::generate::{Batch, Chosen, Next, continue_each};
use crate::model::restore::{EachIts, Restore};
use crate::model::{DecoderBackend, ModelError, Sampling, Tokenizer};
use crate::score::ScoreError;
use crate::tasks::answers::Response;

impl<B: DecoderBackend, R: Restore> Run<'_, B, R> {
    /// The replies of units that write, in their order.
    pub(super) fn write(
        &self,
        units: &[usize],
        lanes: usize,
        threads: usize,
    ) -> Result<Vec<Reply>, ScoreError> {
        let prompts: Vec<&[u32]> = units.iter().map(|&unit| &self.question(unit).rest[..]).collect();
        let max_new = units.iter().map(|&unit| self.written(unit).1).max().unwrap_or(0);
        let batch = Batch { max_new, lanes, threads, sampling: Sampling::GREEDY };
        let restore = EachIts::new(units.iter().map(|&unit| self.configuration(unit).restore).collect());
        let mut drafts = vec![Draft::default(); units.len()];
        let mut failed = None;
        continue_each(
            self.decoder,
            |lane| self.caches(units[lane]),
            &prompts,
            &batch,
            &restore,
            |chosen| {
                if self.observer.interrupted() {
                    failed = Some(ScoreError::Interrupted);
                    return Next::Stop;
                }
                match self.grow(&mut drafts[chosen.prompt], units[chosen.prompt], chosen) {
                    Ok(Next::Leave) => {
                        self.observer.advance(1);
                        Next::Leave
                    }
                    Ok(next) => next,
                    Err(error) => {
                        failed = Some(error.into());
                        Next::Stop
                    }
                }
            },
        )?;
        let reply = |draft: Draft| Reply { response: Response::Text(draft.text), tokens: draft.tokens };
        failed.map_or_else(|| Ok(drafts.into_iter().map(reply).collect()), Err)
    }

    /// Stop strings and limit of a unit that writes.
    fn written(&self, unit: usize) -> (&[String], usize) {
        match &self.question(unit).ask {
            TokenAsk::Write { stop, max_new_tokens } => (stop, *max_new_tokens),
            TokenAsk::Choose { .. } => (&[], 0),
        }
    }

    /// Adds a token to a text, and says whether the text ends.
    fn grow(&self, draft: &mut Draft, unit: usize, chosen: Chosen) -> Result<Next, ModelError> {
        let (stop, most) = self.written(unit);
        draft.tokens.push(chosen.token);
        let eos = &self.decoder.config().eos_token_ids;
        let Said { text, is_stopped } = said(&draft.tokens, stop, eos, self.tokenizer)?;
        draft.text = text;
        let is_last = chosen.is_last || is_stopped || draft.tokens.len() >= most;
        Ok(if is_last { Next::Leave } else { Next::GoOn })
    }
}

/// What tokens say.
pub(super) struct Said {
    /// Up to the first stop string, which is cut off.
    pub(super) text: String,
    /// Whether there was one.
    pub(super) is_stopped: bool,
}

/// The text of an answer's tokens, without the end-of-sequence token that may end them.
pub(super) fn said(
    tokens: &[u32],
    stop: &[String],
    eos: &[u32],
    tokenizer: &Tokenizer,
) -> Result<Said, ModelError> {
    let ended = tokens.last().is_some_and(|token| eos.contains(token));
    let mut text = tokenizer.decode(&tokens[..tokens.len() - usize::from(ended)])?;
    let first = stop.iter().filter_map(|stop| text.find(stop.as_str())).min();
    if let Some(at) = first {
        text.truncate(at);
    }
    Ok(Said { text, is_stopped: first.is_some() })
}

/// A text that grows.
#[derive(Clone, Debug, Default)]
struct Draft {
    tokens: Vec<u32>,
    text: String,
}
