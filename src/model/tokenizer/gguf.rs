//! Byte-level BPE from the vocabulary that a GGUF file carries.

use tokenizers::AddedToken;
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::{BPE, Merges, Vocab};

use super::Tokenizer;
use super::pre::Pre;
use crate::model::weights::gguf::{Gguf, Metadata};
use crate::model::{Config, ModelError};

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";

pub(super) fn build(gguf: &Gguf, config: &Config) -> Result<Tokenizer, ModelError> {
    let metadata = gguf.metadata();
    let pre = pre_tokenizer(gguf)?;
    let tokens = metadata.texts(TOKENS)?.ok_or_else(|| metadata.missing(TOKENS, "a list of texts"))?;
    if tokens.len() != config.vocab_size {
        let expected = format!("one for each of the {} rows of `token_embd.weight`", config.vocab_size);
        return Err(ModelError::key(gguf.path(), TOKENS, format!("a list of {}", tokens.len()), expected));
    }
    let wrong =
        |error: tokenizers::Error| ModelError::key(gguf.path(), MERGES, error, "merges of known tokens");
    let bpe = BPE::builder()
        .vocab_and_merges(vocabulary(gguf, &tokens)?, merges(gguf)?)
        .ignore_merges(pre.ignores_merges())
        .build()
        .map_err(wrong)?;
    let mut inner = tokenizers::Tokenizer::new(bpe);
    inner.with_pre_tokenizer(Some(pre.build().map_err(wrong)?)).with_decoder(Some(ByteLevel::default()));
    add_special(&mut inner, metadata, &tokens)?;
    let begins_texts = metadata.flag("tokenizer.ggml.add_bos_token")?.unwrap_or(pre.begins_texts());
    Ok(Tokenizer { path: gguf.path().to_path_buf(), inner, bos: config.bos_token_id, begins_texts })
}

fn pre_tokenizer(gguf: &Gguf) -> Result<Pre, ModelError> {
    let key = "tokenizer.ggml.model";
    let model = gguf.metadata().required_text(key)?;
    if model != "gpt2" {
        let expected = "`gpt2` (byte-level BPE); for other kinds use a directory with tokenizer.json";
        return Err(ModelError::key(gguf.path(), key, format!("`{model}`"), expected));
    }
    let key = "tokenizer.ggml.pre";
    let name = gguf.metadata().text(key)?.unwrap_or("default");
    Pre::named(name).ok_or_else(|| ModelError::key(gguf.path(), key, format!("`{name}`"), Pre::KNOWN))
}

fn vocabulary(gguf: &Gguf, tokens: &[&str]) -> Result<Vocab, ModelError> {
    let mut vocabulary = Vocab::with_capacity(tokens.len());
    for (id, &token) in (0..).zip(tokens) {
        if let Some(first) = vocabulary.insert(token.to_owned(), id) {
            let found = format!("a list with `{token}` at {first} and {id}");
            return Err(ModelError::key(gguf.path(), TOKENS, found, "each token once"));
        }
    }
    Ok(vocabulary)
}

/// Pairs written with one space between; a token may begin with a space of its own.
fn merges(gguf: &Gguf) -> Result<Merges, ModelError> {
    let lines =
        gguf.metadata().texts(MERGES)?.ok_or_else(|| gguf.metadata().missing(MERGES, "a list of texts"))?;
    let pair = |line: &&str| {
        let after_first = line.chars().next().map_or(0, char::len_utf8);
        let space = line[after_first..].find(' ').map(|at| after_first + at);
        space.map(|at| (line[..at].to_owned(), line[at + 1..].to_owned())).ok_or_else(|| {
            ModelError::key(gguf.path(), MERGES, format!("`{line}`"), "two tokens and a space")
        })
    };
    lines.iter().map(pair).collect()
}

/// Makes the tokens that are not text (types 2, unknown, and 3, control) and those that users added (4) known.
fn add_special(
    inner: &mut tokenizers::Tokenizer,
    metadata: &Metadata,
    tokens: &[&str],
) -> Result<(), ModelError> {
    let types = metadata.sizes(TYPES)?.unwrap_or_default();
    let added = tokens.iter().zip(types).filter_map(|(&token, kind)| match kind {
        2 | 3 => Some(AddedToken::from(token, true).normalized(false)),
        4 => Some(AddedToken::from(token, false).normalized(false)),
        _ => None,
    });
    inner.add_tokens(&added.collect::<Vec<_>>());
    Ok(())
}
