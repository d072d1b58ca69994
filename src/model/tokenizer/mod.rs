//! Text ↔ token ids, from `tokenizer.json` or from a GGUF file's vocabulary and merges.

mod bos;
mod gguf;
mod pre;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use super::special::SpecialTokens;
use super::{Checkpoint, Config, ModelError};

pub use bos::BosPolicy;

/// A model's tokenizer.
///
/// Special tokens written in a text are read as such; none is added unless [`BosPolicy`] asks for it.
#[derive(Debug)]
pub struct Tokenizer {
    path: PathBuf,
    inner: tokenizers::Tokenizer,
    bos: Option<u32>,
    begins_texts: bool,
}

impl Tokenizer {
    /// The tokenizer that comes with a model.
    ///
    /// # Errors
    /// A tokenizer that is missing, damaged, of an unknown kind, or made for another vocabulary.
    pub fn load(checkpoint: &Checkpoint) -> Result<Self, ModelError> {
        let tokenizer = match checkpoint.gguf() {
            Some(gguf) => gguf::build(gguf, checkpoint.config())?,
            None => Self::read_directory(checkpoint.path(), checkpoint.config())?,
        };
        tokenizer.check_vocabulary(checkpoint.config())?;
        Ok(tokenizer)
    }

    fn read_directory(directory: &Path, config: &Config) -> Result<Self, ModelError> {
        let path = directory.join("tokenizer.json");
        let bytes = std::fs::read(&path).map_err(ModelError::read(&path))?;
        let wrong = |error: tokenizers::Error| {
            ModelError::file(&path, format!("does not parse: {error}"), "a `tokenizers` file")
        };
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(wrong)?;
        // Some files carry the settings of their last training batch.
        inner.with_padding(None).with_truncation(None).map_err(wrong)?;
        let special = SpecialTokens::read(directory)?;
        let named = special.bos().and_then(|token| inner.token_to_id(token));
        let bos = named.or(config.bos_token_id);
        let begins_texts = match special.add_bos_token {
            Some(add) => add,
            None => bos.is_some() && first_added(&inner).map_err(wrong)? == bos,
        };
        Ok(Self { path, inner, bos, begins_texts })
    }

    /// Token ids of a text, nothing added.
    ///
    /// # Errors
    /// A text that the tokenizer's rules cannot be run on.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        let encoding = self.inner.encode_fast(text, false).map_err(|error| self.failed("encode", &error))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Token ids of a text from its beginning: with the token that begins a text where `policy` says so, once.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_from_start(&self, text: &str, policy: BosPolicy) -> Result<Vec<u32>, ModelError> {
        let mut ids = self.encode(text)?;
        if let Some(bos) = self.bos(policy).filter(|&bos| ids.first() != Some(&bos)) {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    /// Tokens of a text from its beginning, as [`Self::encode_from_start`] makes them by the tokenizer's own policy.
    ///
    /// A text that cannot be encoded counts as none: whoever asks for its tokens then is told why.
    pub fn count_from_start(&self, text: &str) -> usize {
        self.encode_from_start(text, BosPolicy::Auto).map_or(0, |ids| ids.len())
    }

    /// Text of token ids, special tokens left out.
    ///
    /// # Errors
    /// Ids that the tokenizer's rules cannot be run on.
    pub fn decode(&self, ids: &[u32]) -> Result<String, ModelError> {
        self.inner.decode(ids, true).map_err(|error| self.failed("decode", &error))
    }

    /// Text of token ids, special tokens written out.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_with_special(&self, ids: &[u32]) -> Result<String, ModelError> {
        self.inner.decode(ids, false).map_err(|error| self.failed("decode", &error))
    }

    /// The token that `policy` puts before a text.
    pub fn bos(&self, policy: BosPolicy) -> Option<u32> {
        let wanted = match policy {
            BosPolicy::Auto => self.begins_texts,
            BosPolicy::Always => true,
            BosPolicy::Never => false,
        };
        self.bos.filter(|_| wanted)
    }

    /// A token as it is written in the vocabulary.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    fn check_vocabulary(&self, config: &Config) -> Result<(), ModelError> {
        let rows = config.vocab_size;
        let vocabulary = self.inner.get_vocab(true);
        if let Some((token, &id)) =
            vocabulary.iter().max_by_key(|&(_, id)| id).filter(|&(_, &id)| id as usize >= rows)
        {
            let found = format!("`{token}` with id {id}");
            return Err(ModelError::key(
                &self.path,
                "vocabulary",
                found,
                format!("ids below the model's {rows}"),
            ));
        }
        for &id in config.eos_token_ids.iter().chain(&config.bos_token_id) {
            if self.token(id).is_none() {
                let expected = format!("a token with the model's special id {id}");
                return Err(ModelError::key(
                    &self.path,
                    "vocabulary",
                    format!("of {}", vocabulary.len()),
                    expected,
                ));
            }
        }
        Ok(())
    }

    fn failed(&self, what: &'static str, error: &tokenizers::Error) -> ModelError {
        ModelError::Tokenize { path: self.path.clone(), what, why: error.to_string() }
    }
}

/// The token that the file's own rules put before a text.
fn first_added(inner: &tokenizers::Tokenizer) -> tokenizers::Result<Option<u32>> {
    Ok(inner.encode("", true)?.get_ids().first().copied())
}
