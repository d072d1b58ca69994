use std::ops::ControlFlow;

use super::session::Session;
use super::{Generation, StageError};
use crate::model::{BosPolicy, ChatTemplate, DecoderBackend, Message, Tokenizer, generate};

/// Continues a text greedily with a full-precision cache.
pub(super) fn run<B: DecoderBackend>(
    request: &Generation,
    session: &Session<'_>,
    each: &mut dyn FnMut(&str) -> std::io::Result<()>,
) -> Result<(), StageError> {
    let tokenizer = session.tokenizer()?;
    let prompt = prompt(request, session, &tokenizer)?;
    let decoder = session.decoder::<B>(request.weights)?;
    let (mut tokens, mut written, mut failed) = (Vec::new(), 0, None);
    let eos = &decoder.config().eos_token_ids;
    generate::greedy(&decoder, &mut decoder.full_caches(), &prompt, request.max_new_tokens, |token| {
        if session.observer().interrupted() {
            failed = Some(StageError::Interrupted);
            return ControlFlow::Break(());
        }
        tokens.push(token);
        match grown(&tokenizer, &tokens, written).and_then(|text| Ok((each(&text)?, text.len()))) {
            Ok(((), len)) => {
                written += len;
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    debug_assert!(tokens.iter().all(|token| !eos.contains(token)), "an end token is not text");
    failed.map_or(Ok(()), Err)
}

fn prompt(
    request: &Generation,
    session: &Session<'_>,
    tokenizer: &Tokenizer,
) -> Result<Vec<u32>, StageError> {
    let tokens = if request.chat {
        let template =
            ChatTemplate::load(&session.checkpoint, tokenizer)?.ok_or_else(|| StageError::Unmet {
                message: format!("`{}` has no chat template", session.resolved.id),
                hint: Some("leave `--chat` out to continue the text as it is".into()),
            })?;
        // A template writes its own BOS.
        tokenizer.encode(&template.render(&[Message::user(&request.prompt)], true)?)?
    } else {
        tokenizer.encode_from_start(&request.prompt, BosPolicy::Auto)?
    };
    if tokens.is_empty() {
        let hint = Some("give the model at least one token to go on from".into());
        return Err(StageError::Unmet { message: "the prompt is empty".into(), hint });
    }
    Ok(tokens)
}

/// What the text has gained since `written` bytes of it, less a character that is not whole yet.
fn grown(tokenizer: &Tokenizer, tokens: &[u32], written: usize) -> Result<String, StageError> {
    let text = tokenizer.decode(tokens)?;
    let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
    Ok(whole.get(written..).unwrap_or_default().to_owned())
}
