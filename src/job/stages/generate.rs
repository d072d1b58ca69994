use std::collections::BTreeMap;
use std::io;

use super::dgap::restoration::Repair;
use super::dgap::setting;
use super::session::Session;
use super::{Continuation, Generation, StageError, fit};
use crate::cache::{Simulation, Units};
use crate::dgap::heads::Readout;
use crate::model::generate::{Batch, Chosen, Next, continue_each};
use crate::model::restore::{AsIs, Restore};
use crate::model::{BosPolicy, ChatTemplate, Decoder, DecoderBackend, Message, ModelError, Tokenizer};
use crate::precision::PrecisionMap;
use crate::score::simulation;

/// Continues the first prompt, and passes the text on as it grows.
pub(super) fn stream<B: DecoderBackend>(
    request: &Generation,
    session: &Session<'_>,
    each: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<(), StageError> {
    let work = Work::<B>::prepare(request, session, 1)?;
    let (mut tokens, mut written) = (Vec::new(), 0);
    work.run(&mut |chosen| {
        if work.is_end(chosen.token) {
            return Ok(());
        }
        tokens.push(chosen.token);
        let text = grown(&work.tokenizer, &tokens, written)?;
        written += text.len();
        Ok(each(&text)?)
    })
}

/// Continues all prompts side by side, and passes each on when it and all before it are done.
pub(super) fn many<B: DecoderBackend>(
    request: &Generation,
    session: &Session<'_>,
    each: &mut dyn FnMut(&Continuation) -> io::Result<()>,
) -> Result<(), StageError> {
    let work = Work::<B>::prepare(request, session, request.prompts.len())?;
    let mut going = vec![Vec::new(); request.prompts.len()];
    let (mut done, mut next, mut count) = (BTreeMap::new(), 0, 0);
    work.run(&mut |chosen| {
        going[chosen.prompt].push(chosen.token);
        if !chosen.is_last {
            return Ok(());
        }
        let tokens = std::mem::take(&mut going[chosen.prompt]);
        count += tokens.len();
        done.insert(chosen.prompt, work.continuation(chosen.prompt, tokens)?);
        while let Some(continuation) = done.remove(&next) {
            each(&continuation)?;
            next += 1;
        }
        Ok(())
    })?;
    session.observer().end(&format!("{next} prompts, {count} tokens"));
    Ok(())
}

/// Everything that generation needs, and checked.
struct Work<'a, B: DecoderBackend> {
    request: &'a Generation,
    session: &'a Session<'a>,
    tokenizer: Tokenizer,
    prompts: Vec<Vec<u32>>,
    map: PrecisionMap,
    decoder: Decoder<B>,
    simulation: Simulation,
    repair: Option<Repair<'a>>,
}

impl<'a, B: DecoderBackend> Work<'a, B> {
    /// For the first `count` prompts.
    fn prepare(request: &'a Generation, session: &'a Session<'a>, count: usize) -> Result<Self, StageError> {
        let map = session.map(&request.configuration)?;
        let repair = repair(request, session)?;
        let tokenizer = session.tokenizer()?;
        let prompts = encode(request, session, &tokenizer, count)?;
        fit::context(&prompts, request.max_new_tokens, session)?;
        fit::memory(request, &map, &prompts, session)?;
        let decoder = session.decoder::<B>(request.weights)?;
        let longest = prompts.iter().map(Vec::len).max().unwrap_or(0) + request.max_new_tokens;
        let simulation =
            simulation(&decoder, &request.configuration.scheme, longest).map_err(ModelError::from)?;
        Ok(Self { request, session, tokenizer, prompts, map, decoder, simulation, repair })
    }

    fn run(&self, each: &mut dyn FnMut(Chosen) -> Result<(), StageError>) -> Result<(), StageError> {
        match &self.repair {
            None => self.run_with(&AsIs, each),
            Some(repair) => {
                let readout = Readout::new(self.decoder.head_weight());
                self.run_with(&repair.restorer(&readout)?, each)
            }
        }
    }

    fn run_with<R: Restore>(
        &self,
        restore: &R,
        each: &mut dyn FnMut(Chosen) -> Result<(), StageError>,
    ) -> Result<(), StageError> {
        let Self { request, session, prompts, map, decoder, simulation, .. } = self;
        let caches = |prompt: usize| {
            let units = Units::prompt(prompts[prompt].len(), simulation.scheme().prefill);
            Ok(simulation.any(request.cache, map, &units)?)
        };
        let batch = Batch {
            max_new: request.max_new_tokens,
            lanes: request.lanes,
            threads: session.context.threads,
            sampling: request.sampling,
        };
        let tokens: Vec<&[u32]> = prompts.iter().map(|prompt| &prompt[..]).collect();
        let mut failed = None;
        continue_each(decoder, caches, &tokens, &batch, restore, |chosen| {
            let interrupted = session.observer().interrupted();
            let heard = if interrupted { Err(StageError::Interrupted) } else { each(chosen) };
            match heard {
                Ok(()) => Next::GoOn,
                Err(error) => {
                    failed = Some(error);
                    Next::Stop
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn continuation(&self, index: usize, tokens: Vec<u32>) -> Result<Continuation, StageError> {
        let ended = tokens.last().is_some_and(|&token| self.is_end(token));
        let text = self.tokenizer.decode(&tokens[..tokens.len() - usize::from(ended)])?;
        Ok(Continuation { index, prompt: self.request.prompts[index].clone(), text, tokens })
    }

    fn is_end(&self, token: u32) -> bool {
        self.decoder.config().eos_token_ids.contains(&token)
    }
}

/// The heads that were asked for, if they are for this model and this cache.
fn repair<'a>(request: &'a Generation, session: &Session<'_>) -> Result<Option<Repair<'a>>, StageError> {
    let Some(restoration) = &request.restoration else { return Ok(None) };
    let repair = Repair::open(restoration, session)?;
    repair.check(&setting(session, &request.configuration)?)?;
    Ok(Some(repair))
}

fn encode(
    request: &Generation,
    session: &Session<'_>,
    tokenizer: &Tokenizer,
    count: usize,
) -> Result<Vec<Vec<u32>>, StageError> {
    let template = if request.chat { Some(template(session, tokenizer)?) } else { None };
    let encode = |(index, prompt): (usize, &String)| {
        let tokens = match &template {
            // A template writes its own BOS.
            Some(template) => tokenizer.encode(&template.render(&[Message::user(prompt)], true)?)?,
            None => tokenizer.encode_from_start(prompt, BosPolicy::Auto)?,
        };
        if tokens.is_empty() {
            let which = if count == 1 { String::from("the prompt") } else { format!("prompt {index}") };
            let hint = Some("give the model at least one token to go on from".into());
            return Err(StageError::Unmet { message: format!("{which} is empty"), hint });
        }
        Ok(tokens)
    };
    request.prompts.iter().take(count).enumerate().map(encode).collect()
}

fn template(session: &Session<'_>, tokenizer: &Tokenizer) -> Result<ChatTemplate, StageError> {
    ChatTemplate::load(&session.checkpoint, tokenizer)?.ok_or_else(|| StageError::Unmet {
        message: format!("`{}` has no chat template", session.resolved.id),
        hint: Some("leave `--chat` out to continue the text as it is".into()),
    })
}

/// What the text has gained since `written` bytes of it, less a character that is not whole yet.
fn grown(tokenizer: &Tokenizer, tokens: &[u32], written: usize) -> Result<String, StageError> {
    let text = tokenizer.decode(tokens)?;
    let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
    Ok(whole.get(written..).unwrap_or_default().to_owned())
}
