use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether the token that begins a text (BOS) is put before a prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BosPolicy {
    /// As the model's own files say.
    #[default]
    Auto,
    /// Where the model has one.
    Always,
    /// Not at all.
    Never,
}

impl fmt::Display for BosPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}
