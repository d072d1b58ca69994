use std::fmt;

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

impl Split {
    /// Every split, in the order in which a job needs them.
    pub const ALL: [Self; 3] = [Self::Search, Self::Select, Self::Test];
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Search => "search",
            Self::Select => "select",
            Self::Test => "test",
        })
    }
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

    /// Positions whose largest logit is that of the token chosen there; fewer than all where the parallel
    /// pass and token-by-token generation round a near tie differently.
    pub fn repeated_choices(&self) -> usize {
        let chosen = self.tokens[self.prompt_len..].iter();
        let top = self.top_ids.len() / self.positions().max(1);
        chosen.zip(self.top_ids.chunks(top.max(1))).filter(|(token, ids)| ids.first() == Some(token)).count()
    }
}

/// Tokens under which a sequence hardly uses its codes: with a residual of 32, over a tenth of it stays
/// exact.
const SHORT: usize = 256;

/// A warning that names the shortest sequence, if any has under 256 tokens.
pub fn short_sequences(documents: &[Document]) -> Option<String> {
    let short = documents.iter().filter(|document| document.tokens.len() < SHORT);
    let shortest = short.clone().min_by_key(|document| document.tokens.len())?;
    Some(format!(
        "{} of {} sequences have fewer than {SHORT} tokens (`{}` has {}): a short sequence hardly uses its codes; raise `min_tokens`",
        short.count(),
        documents.len(),
        shortest.id,
        shortest.tokens.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::super::example::trace;
    use super::*;

    #[test]
    fn short_sequences_are_named() {
        let mut documents = trace().documents;
        assert_eq!(
            short_sequences(&documents).expect("both are short"),
            "2 of 2 sequences have fewer than 256 tokens (`test-000` has 3): a short sequence hardly uses its codes; raise `min_tokens`"
        );
        for document in &mut documents {
            document.tokens.resize(256, 0);
        }
        assert_eq!(short_sequences(&documents), None);
    }

    #[test]
    fn a_choice_is_repeated_where_the_largest_logit_agrees() {
        let mut document = trace().documents.swap_remove(0);
        assert_eq!(document.repeated_choices(), 2);
        document.top_ids.swap(0, 1);
        assert_eq!(document.repeated_choices(), 1);
    }
}
