//! Precision maps on questions: a population of lanes, each a question on a cache of its own.

use crate::cache::{AnyCache, CacheKind, Simulation, Units};
use crate::model::generate::{AsIs, Batch, Chosen, Next, continue_each};
use crate::model::{Decoder, DecoderBackend, ModelError, Sampling, Tokenizer, to_host};
use crate::parallel::in_order;
use crate::precision::PrecisionMap;
use crate::progress::Observer;
use crate::tasks::answers::Response;
use kvtune_kernels::statistics::log_sum_exp;

use super::ScoreError;
use super::prefixes::Prefixes;

/// Positions whose logits are in memory at once.
const CHUNK: usize = 32;

/// One kind of cache and its map.
#[derive(Clone, Copy)]
pub struct Configured<'a> {
    /// Makes the caches.
    pub simulation: &'a Simulation,
    /// Which kind it makes.
    pub kind: CacheKind,
    /// Whose pairs it makes them for; full-precision caches do not look at it.
    pub map: &'a PrecisionMap,
}

/// An item as tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What several questions begin with: a prompt unit of its own. May be empty.
    pub prefix: Vec<u32>,
    /// The question's own part of the prompt, never empty.
    pub rest: Vec<u32>,
    /// What is asked.
    pub ask: TokenAsk,
}

/// What is asked of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenAsk {
    /// The most likely text, up to the first stop string, an end-of-sequence token or the limit.
    Write {
        /// Where the text ends; what is found is cut off.
        stop: Vec<String>,
        /// Tokens at most.
        max_new_tokens: usize,
    },
    /// How likely each of these is; none is empty.
    Choose {
        /// Tokens of the continuations.
        continuations: Vec<Vec<u32>>,
    },
}

/// What the model made of a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The answer.
    pub response: Response,
    /// Tokens written, 0 where the model chose.
    pub new_tokens: usize,
}

impl Question {
    /// Tokens of the prompt.
    pub fn prompt_len(&self) -> usize {
        self.prefix.len() + self.rest.len()
    }

    /// Tokens that may be in the cache at the end.
    pub fn longest(&self) -> usize {
        let answer = match &self.ask {
            TokenAsk::Write { max_new_tokens, .. } => *max_new_tokens,
            TokenAsk::Choose { continuations } => continuations.iter().map(Vec::len).max().unwrap_or(0),
        };
        self.prompt_len().saturating_add(answer)
    }
}

/// Puts every question to every configuration; one row a configuration, one reply a question.
///
/// Each (question, configuration) is a lane: up to `lanes` of them share every step of decoding, so that weights are
/// read once for all of them, and a lane's answer does not depend on its neighbors. Choices are scored under teacher
/// forcing. The observer hears one step for each.
///
/// # Errors
/// [`ScoreError`]; nothing is kept then.
pub fn answer<B: DecoderBackend>(
    decoder: &Decoder<B>,
    tokenizer: &Tokenizer,
    configurations: &[Configured<'_>],
    questions: &[Question],
    (lanes, threads): (usize, usize),
    observer: &dyn Observer,
) -> Result<Vec<Vec<Reply>>, ScoreError> {
    let prefixes = Prefixes::new(decoder, configurations);
    let run = Run { decoder, tokenizer, configurations, questions, prefixes, observer };
    let is_written = |unit: &usize| matches!(run.question(*unit).ask, TokenAsk::Write { .. });
    let (written, chosen): (Vec<usize>, Vec<usize>) = (0..run.units()).partition(is_written);
    let mut replies: Vec<Option<Reply>> = vec![None; run.units()];
    for (unit, reply) in written.iter().zip(run.write(&written, lanes, threads)?) {
        replies[*unit] = Some(reply);
    }
    let scored = in_order(threads, chosen.len(), |index| run.choose(chosen[index]))?;
    for (unit, reply) in chosen.iter().zip(scored) {
        replies[*unit] = Some(reply);
    }
    let row = |configuration: usize| {
        replies.iter().skip(configuration).step_by(configurations.len().max(1)).flatten().cloned().collect()
    };
    Ok((0..configurations.len()).map(row).collect())
}

/// Everything a lane needs. Units are numbered question by question, so that lanes of one question stand side by side.
struct Run<'a, B: DecoderBackend> {
    decoder: &'a Decoder<B>,
    tokenizer: &'a Tokenizer,
    configurations: &'a [Configured<'a>],
    questions: &'a [Question],
    prefixes: Prefixes<'a, B>,
    observer: &'a dyn Observer,
}

impl<B: DecoderBackend> Run<'_, B> {
    fn units(&self) -> usize {
        self.configurations.len() * self.questions.len()
    }

    fn question(&self, unit: usize) -> &Question {
        &self.questions[unit / self.configurations.len()]
    }

    /// Caches of a unit, with the question's prefix in them.
    fn caches(&self, unit: usize) -> Result<Vec<AnyCache>, ModelError> {
        let (question, configuration) = (self.question(unit), unit % self.configurations.len());
        if !question.prefix.is_empty() {
            return self.prefixes.fork(configuration, question);
        }
        let Configured { simulation, kind, map } = self.configurations[configuration];
        let units = Units::prompt(question.rest.len(), simulation.scheme().prefill);
        Ok(simulation.any(kind, map, &units)?)
    }

    fn write(&self, units: &[usize], lanes: usize, threads: usize) -> Result<Vec<Reply>, ScoreError> {
        let prompts: Vec<&[u32]> = units.iter().map(|&unit| &self.question(unit).rest[..]).collect();
        let max_new = units.iter().map(|&unit| self.written(unit).1).max().unwrap_or(0);
        let batch = Batch { max_new, lanes, threads, sampling: Sampling::GREEDY };
        let mut drafts = vec![Draft::default(); units.len()];
        let mut failed = None;
        continue_each(
            self.decoder,
            |lane| self.caches(units[lane]),
            &prompts,
            &batch,
            &AsIs,
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
        let reply =
            |draft: Draft| Reply { response: Response::Text(draft.text), new_tokens: draft.tokens.len() };
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
        let ended = self.decoder.config().eos_token_ids.contains(&chosen.token);
        let said = &draft.tokens[..draft.tokens.len() - usize::from(ended)];
        draft.text = self.tokenizer.decode(said)?;
        let first = stop.iter().filter_map(|stop| draft.text.find(stop.as_str())).min();
        if let Some(at) = first {
            draft.text.truncate(at);
        }
        let is_last = chosen.is_last || first.is_some() || draft.tokens.len() >= most;
        Ok(if is_last { Next::Leave } else { Next::GoOn })
    }

    fn choose(&self, unit: usize) -> Result<Reply, ScoreError> {
        if self.observer.interrupted() {
            return Err(ScoreError::Interrupted);
        }
        let TokenAsk::Choose { continuations } = &self.question(unit).ask else {
            return Ok(Reply { response: Response::LogLikelihoods(Vec::new()), new_tokens: 0 });
        };
        // Continuations of one token each are all answered by the last position of the prompt.
        let values = if continuations.iter().all(|tokens| tokens.len() == 1) {
            let firsts: Vec<u32> = continuations.iter().map(|tokens| tokens[0]).collect();
            self.last_logs(unit, &firsts)?
        } else {
            continuations.iter().map(|tokens| self.log_likelihood(unit, tokens)).collect::<Result<_, _>>()?
        };
        self.observer.advance(1);
        Ok(Reply { response: Response::LogLikelihoods(values), new_tokens: 0 })
    }

    /// The logarithm of each token's probability right after the prompt.
    fn last_logs(&self, unit: usize, tokens: &[u32]) -> Result<Vec<f64>, ModelError> {
        let rest = &self.question(unit).rest;
        let hidden = self.decoder.forward(rest, &mut self.caches(unit)?)?;
        let logits = to_host(self.decoder.logits(hidden.narrow(0, rest.len() - 1, 1)));
        let sum = log_sum_exp(&logits);
        Ok(tokens.iter().map(|&token| f64::from(logits[token as usize]) - sum).collect())
    }

    /// The logarithm of a continuation's probability.
    fn log_likelihood(&self, unit: usize, tokens: &[u32]) -> Result<f64, ModelError> {
        let rest = &self.question(unit).rest;
        let fed = [rest, &tokens[..tokens.len() - 1]].concat();
        let hidden = self.decoder.forward(&fed, &mut self.caches(unit)?)?;
        let mut sum = 0.0;
        for (index, next) in tokens.chunks(CHUNK).enumerate() {
            let first = rest.len() - 1 + index * CHUNK;
            let logits = to_host(self.decoder.logits(hidden.clone().narrow(0, first, next.len())));
            let rows = logits.chunks_exact(self.decoder.config().vocab_size);
            sum += rows
                .zip(next)
                .map(|(row, &token)| f64::from(row[token as usize]) - log_sum_exp(row))
                .sum::<f64>();
        }
        Ok(sum)
    }
}

/// A text that grows.
#[derive(Clone, Debug, Default)]
struct Draft {
    tokens: Vec<u32>,
    text: String,
}
