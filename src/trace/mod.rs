//! The calibration artifact: prompts, the full-precision model's own continuation, and what it computed there.

use serde::{Deserialize, Serialize};

/// Which stage may look at a document; the three never share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// Scored by the search.
    Search,
    /// Chooses from the front.
    Select,
    /// Read once, for the figure that is reported.
    Test,
}

/// One prompt with its greedy continuation and what the full-precision model computed at each position.
///
/// A continuation of T tokens has T positions, `prompt_len − 1 …= prompt_len + T − 2` of `tokens`: the one
/// whose logits choose each token. Row `t` of the tables below belongs to the choice of
/// `tokens[prompt_len + t]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Unique in the trace, `search-003`.
    pub id: String,
    /// What kind of text it is: `arithmetic`, `retrieval`, `prose`.
    pub domain: String,
    /// Who may look at it.
    pub split: Split,
    /// Prompt and continuation.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt, at least 1.
    pub prompt_len: usize,
    /// Ids of the largest logits, largest first, ties by id: `[T, TOP]`.
    pub top_ids: Vec<u32>,
    /// Their logits: `[T, TOP]`.
    pub top_logits: Vec<f32>,
    /// log Σ exp of all logits: `[T]`.
    pub log_sum_exp: Vec<f32>,
    /// Hidden states after the final norm: `[T, hidden_size]`.
    pub hidden: Vec<f32>,
}

impl Document {
    /// T, the number of scored positions.
    pub fn positions(&self) -> usize {
        self.tokens.len() - self.prompt_len
    }
}
