use std::error::Error;

/// Why a document could not be recorded; each but the last names it.
#[derive(Debug, thiserror::Error)]
pub enum RecordError<E: Error + 'static> {
    /// The model failed.
    #[error("the model failed on document `{id}`")]
    Model {
        /// The document.
        id: String,
        /// What it said.
        source: E,
    },
    /// The prompt has no token.
    #[error("the prompt of document `{id}` has no tokens, expected at least 1")]
    EmptyPrompt {
        /// The document.
        id: String,
    },
    /// The model generated nothing, not even EOS.
    #[error("the continuation of document `{id}` has no tokens, expected 1 to {max_new_tokens}")]
    EmptyContinuation {
        /// The document.
        id: String,
        /// As many as were asked for.
        max_new_tokens: usize,
    },
    /// A token that the model has no row for.
    #[error("document `{id}` has token {token}, but the vocabulary has {vocab_size}")]
    Token {
        /// The document.
        id: String,
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocab_size: usize,
    },
    /// The model's tables are not of the size it claims to have.
    #[error("document `{id}`: the model gave {found} values of {what}, expected {expected}")]
    Size {
        /// The document.
        id: String,
        /// Which table.
        what: &'static str,
        /// Its values.
        found: usize,
        /// Values it should have.
        expected: usize,
    },
    /// NaN or infinity.
    #[error("document `{id}`: {what} at position {position} are not finite")]
    NotFinite {
        /// The document.
        id: String,
        /// Which table.
        what: &'static str,
        /// Index into the document's tokens.
        position: usize,
    },
    /// The user asked to stop.
    #[error("interrupted after {done} of {total} documents")]
    Interrupted {
        /// Documents recorded and lost.
        done: usize,
        /// Documents asked for.
        total: usize,
    },
}
