//! Items → tokens, and which of them fit.

use crate::job::stages::StageError;
use crate::job::stages::session::Session;
use crate::model::{BosPolicy, ChatTemplate, Message, Role, Tokenizer};
use crate::score::{Question, TokenAsk};
use crate::tasks::answers::{Ask, Item, ItemPrompt, WhenLong};

/// Items that fit the model's context, as text and as tokens.
pub(in crate::job::stages) struct Asked {
    pub(in crate::job::stages) items: Vec<Item>,
    pub(in crate::job::stages) questions: Vec<Question>,
    /// Items left out.
    pub(in crate::job::stages) skipped: usize,
    /// Items whose middle was cut out.
    pub(in crate::job::stages) cut: usize,
}

/// The tokens of all items that fit, or can be made to.
pub(in crate::job::stages) fn encode(
    items: Vec<Item>,
    session: &Session<'_>,
    tokenizer: &Tokenizer,
) -> Result<Asked, StageError> {
    let most = session.checkpoint.config().max_position_embeddings;
    let is_chat = items.iter().any(|item| matches!(item.prompt, ItemPrompt::Chat { .. }));
    let template = if is_chat { Some(template(session, tokenizer)?) } else { None };
    let encoder = Encoder { tokenizer, template };
    let mut asked = Asked { items: Vec::new(), questions: Vec::new(), skipped: 0, cut: 0 };
    for item in items {
        let mut question = encoder.question(&item)?;
        let is_long = question.longest() > most;
        if is_long && !(item.when_long == WhenLong::CutMiddle && cut_middle(&mut question, most)) {
            asked.skipped += 1;
            continue;
        }
        asked.cut += usize::from(is_long);
        asked.items.push(item);
        asked.questions.push(question);
    }
    if asked.items.is_empty() {
        return Err(StageError::Unmet {
            message: format!(
                "none of {} items fits: `{}` is made for {most} tokens",
                asked.skipped, session.resolved.id
            ),
            hint: Some("ask for shorter items: lower `length`, `shots` or the tokens of an answer".into()),
        });
    }
    Ok(asked)
}

fn template(session: &Session<'_>, tokenizer: &Tokenizer) -> Result<ChatTemplate, StageError> {
    ChatTemplate::load(&session.checkpoint, tokenizer)?.ok_or_else(|| StageError::Unmet {
        message: format!("`{}` has no chat template", session.resolved.id),
        hint: Some("use a task without conversation, such as `gsm8k`".into()),
    })
}

/// Takes tokens out of the middle until prompt and answer fit; says whether anything of the prompt is left.
fn cut_middle(question: &mut Question, most: usize) -> bool {
    let over = question.longest().saturating_sub(most);
    let Some(left) = question.rest.len().checked_sub(over).filter(|&left| left > 0) else { return false };
    let head = left.div_ceil(2);
    question.rest.drain(head..head + over);
    true
}

struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    template: Option<ChatTemplate>,
}

impl Encoder<'_> {
    fn question(&self, item: &Item) -> Result<Question, StageError> {
        // A template writes its own BOS.
        let (prefix, rest, bos) = match &item.prompt {
            ItemPrompt::Text { prefix, rest } => (prefix.clone(), rest.clone(), BosPolicy::Auto),
            ItemPrompt::Chat { examples, question } => {
                let (prefix, rest) = self.conversation(examples, question)?;
                (prefix, rest, BosPolicy::Never)
            }
        };
        let question = Question {
            ask: self.ask(&item.ask, &rest)?,
            rest: match prefix.is_empty() {
                true => self.tokenizer.encode_from_start(&rest, bos)?,
                false => self.following(&prefix, &rest)?,
            },
            prefix: match prefix.is_empty() {
                true => Vec::new(),
                false => self.tokenizer.encode_from_start(&prefix, bos)?,
            },
        };
        let is_empty = match &question.ask {
            TokenAsk::Write { .. } => question.rest.is_empty(),
            TokenAsk::Choose { continuations } => {
                question.rest.is_empty() || continuations.iter().any(Vec::is_empty)
            }
        };
        if is_empty {
            return Err(StageError::Unmet {
                message: format!("item `{}` has a part without tokens", item.id),
                hint: Some("every question and choice needs a text".into()),
            });
        }
        Ok(question)
    }

    fn ask(&self, ask: &Ask, rest: &str) -> Result<TokenAsk, StageError> {
        Ok(match ask {
            Ask::Write { stop, max_new_tokens } => {
                TokenAsk::Write { stop: stop.clone(), max_new_tokens: *max_new_tokens }
            }
            Ask::Choose { continuations } => {
                let tokens = continuations.iter().map(|text| self.following(rest, text));
                TokenAsk::Choose { continuations: tokens.collect::<Result<_, _>>()? }
            }
        })
    }

    /// The tokens of a text as it stands behind another, which some tokenizers write otherwise than by itself; by itself
    /// where the two have a token in common.
    fn following(&self, before: &str, text: &str) -> Result<Vec<u32>, StageError> {
        let whole = self.tokenizer.encode(&format!("{before}{text}"))?;
        Ok(match whole.strip_prefix(&self.tokenizer.encode(before)?[..]) {
            Some(own) => own.to_vec(),
            None => self.tokenizer.encode(text)?,
        })
    }

    /// The text of the worked examples, and the rest of the conversation up to where the model speaks.
    ///
    /// Where a template writes earlier turns in another way once others follow, nothing is shared.
    fn conversation(
        &self,
        examples: &[(String, String)],
        question: &str,
    ) -> Result<(String, String), StageError> {
        let Some(template) = &self.template else { return Ok((String::new(), question.to_owned())) };
        let mut messages: Vec<Message> = examples
            .iter()
            .flat_map(|(asked, answered)| {
                let answer = Message { role: Role::Assistant, content: answered.clone() };
                [Message::user(asked.clone()), answer]
            })
            .collect();
        let prefix = if messages.is_empty() { String::new() } else { template.render(&messages, false)? };
        messages.push(Message::user(question));
        let whole = template.render(&messages, true)?;
        Ok(match whole.strip_prefix(prefix.as_str()) {
            Some(rest) if !rest.is_empty() => (prefix, rest.to_owned()),
            _ => (String::new(), whole),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(len: u32, max_new_tokens: usize) -> Question {
        let ask = TokenAsk::Write { stop: vec![], max_new_tokens };
        Question { prefix: vec![], rest: (0..len).collect(), ask }
    }

    #[test]
    fn the_middle_is_cut_and_both_ends_stay() {
        let mut long = question(10, 3);
        assert!(cut_middle(&mut long, 8));
        assert_eq!(long.rest, [0, 1, 2, 8, 9]);
        assert_eq!(long.longest(), 8);
    }

    #[test]
    fn an_answer_longer_than_the_context_leaves_nothing_to_cut() {
        assert!(!cut_middle(&mut question(10, 8), 8));
    }
}
