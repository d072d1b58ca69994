//! `tokenizer_config.json`: special tokens and the chat template.

use std::path::Path;

use serde::Deserialize;

use super::ModelError;

/// The keys we read; all may be absent, and so may the file.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SpecialTokens {
    bos_token: Option<Token>,
    eos_token: Option<Token>,
    pub(super) add_bos_token: Option<bool>,
    pub(super) chat_template: Option<Templates>,
}

/// A token as text, or as an object with more than its text.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a token, or an object with its `content`")]
enum Token {
    Text(String),
    Object { content: String },
}

/// One template, or several with names.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a template, or a list of `name` and `template`")]
pub(super) enum Templates {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Debug, Deserialize)]
pub(super) struct NamedTemplate {
    name: String,
    template: String,
}

impl SpecialTokens {
    pub(super) fn read(directory: &Path) -> Result<Self, ModelError> {
        let path = directory.join("tokenizer_config.json");
        if !path.is_file() {
            return Ok(Self::default());
        }
        let bytes = std::fs::read(&path).map_err(ModelError::read(&path))?;
        serde_json::from_slice(&bytes).map_err(|error| {
            ModelError::file(&path, format!("does not parse: {error}"), "a tokenizer's configuration")
        })
    }

    pub(super) fn bos(&self) -> Option<&str> {
        self.bos_token.as_ref().map(Token::text)
    }

    pub(super) fn eos(&self) -> Option<&str> {
        self.eos_token.as_ref().map(Token::text)
    }
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Object { content: text } => text,
        }
    }
}

impl Templates {
    /// The only template, or the one named `default`.
    pub(super) fn default_template(&self) -> Option<&str> {
        match self {
            Self::One(template) => Some(template),
            Self::Named(templates) => {
                templates.iter().find(|named| named.name == "default").map(|named| named.template.as_str())
            }
        }
    }
}
