//! Precision maps on questions: a population of lanes, each a question on a cache of its own.

mod chosen;
mod written;

use crate::cache::{AnyCache, CacheKind, Simulation, Units};
use crate::model::restore::{AsIs, Restore};
use crate::model::{Decoder, DecoderBackend, ModelError, Tokenizer};
use crate::parallel::in_order;
use crate::precision::PrecisionMap;
use crate::progress::Observer;
use crate::tasks::answers::Response;

use super::ScoreError;
use super::prefixes::Prefixes;

/// One kind of cache and its map, and what repairs its steps.
pub struct Configured<'a, R = AsIs> {
    /// Makes the caches.
    pub simulation: &'a Simulation,
    /// Which kind it makes.
    pub kind: CacheKind,
    /// Whose pairs it makes them for; full-precision caches do not look at it.
    pub map: &'a PrecisionMap,
    /// Changes the logits of each question's steps, if anything.
    pub restore: Option<&'a R>,
}

impl<R> Configured<'_, R> {
    /// Whether both are made by the same simulation for the same map.
    pub(super) fn has_caches_of(&self, other: &Self) -> bool {
        std::ptr::eq(self.simulation, other.simulation)
            && std::ptr::eq(self.map, other.map)
            && self.kind == other.kind
    }
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
    /// Tokens written, with the one that ended the text; none where the model chose.
    pub tokens: Vec<u32>,
}

impl Question {
    /// Tokens of the prompt.
    pub fn prompt_len(&self) -> usize {
        self.prefix.len() + self.rest.len()
    }

    /// Tokens in the cache once the question is answered; the last one chosen is counted as an engine holds it.
    pub fn length(&self, reply: &Reply) -> usize {
        match &self.ask {
            TokenAsk::Write { .. } => self.prompt_len() + reply.tokens.len(),
            TokenAsk::Choose { .. } => self.longest(),
        }
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

/// The reply that a limit of `most` tokens would have let the model write; a choice as it is.
///
/// Greedy texts grow by tokens at their end alone, so the shorter answer is the beginning of the longer one.
///
/// # Errors
/// What the tokenizer says of the tokens.
pub fn cut(
    reply: &Reply,
    question: &Question,
    most: usize,
    (eos, tokenizer): (&[u32], &Tokenizer),
) -> Result<Reply, ModelError> {
    let TokenAsk::Write { stop, .. } = &question.ask else { return Ok(reply.clone()) };
    let tokens = reply.tokens[..reply.tokens.len().min(most)].to_vec();
    let text = written::said(&tokens, stop, eos, tokenizer)?.text;
    Ok(Reply { response: Response::Text(text), tokens })
}

/// Puts every question to every configuration; one row a configuration, one reply a question.
///
/// Each (question, configuration) is a lane: up to `lanes` of them share every step of decoding, so that weights are
/// read once for all of them, and a lane's answer does not depend on its neighbors. Choices are scored under teacher
/// forcing. Where a configuration has its logits changed, a text goes on with what is chosen from the changed ones, and
/// a choice is as likely as they say: the first step of both is the one that the prompt's last token makes.
/// The observer hears one step for each.
///
/// # Errors
/// [`ScoreError`]; nothing is kept then.
pub fn answer<B: DecoderBackend, R: Restore>(
    decoder: &Decoder<B>,
    tokenizer: &Tokenizer,
    configurations: &[Configured<'_, R>],
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
struct Run<'a, B: DecoderBackend, R> {
    decoder: &'a Decoder<B>,
    tokenizer: &'a Tokenizer,
    configurations: &'a [Configured<'a, R>],
    questions: &'a [Question],
    prefixes: Prefixes<'a, B, R>,
    observer: &'a dyn Observer,
}

impl<B: DecoderBackend, R: Restore> Run<'_, B, R> {
    fn units(&self) -> usize {
        self.configurations.len() * self.questions.len()
    }

    fn question(&self, unit: usize) -> &Question {
        &self.questions[unit / self.configurations.len()]
    }

    fn configuration(&self, unit: usize) -> &Configured<'_, R> {
        &self.configurations[unit % self.configurations.len()]
    }

    /// Caches of a unit, with the question's prefix in them.
    fn caches(&self, unit: usize) -> Result<Vec<AnyCache>, ModelError> {
        let question = self.question(unit);
        if !question.prefix.is_empty() {
            return self.prefixes.fork(unit % self.configurations.len(), question);
        }
        let &Configured { simulation, kind, map, .. } = self.configuration(unit);
        let units = Units::prompt(question.rest.len(), simulation.scheme().prefill);
        Ok(simulation.any(kind, map, &units)?)
    }
}
