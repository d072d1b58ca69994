use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::tasks::{DocumentCounts, TaskSpec};

/// The most tokens a continuation may be asked to have.
const MAX_NEW_TOKENS: usize = 1 << 20;

/// What to record: the `trace:` part of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceParams {
    /// Name of the task.
    pub task: String,
    /// The file of a task that reads one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Worked examples at least, of a task that has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shots: Option<usize>,
    /// Documents per split.
    pub documents: DocumentCounts,
    /// Tokens of a prompt, at least.
    pub min_tokens: usize,
    /// Tokens of a continuation, at most.
    pub max_new_tokens: usize,
    /// Decides everything that is drawn.
    pub seed: u64,
}

impl Default for TraceParams {
    fn default() -> Self {
        Self {
            task: "arithmetic-chain".to_owned(),
            path: None,
            shots: None,
            documents: DocumentCounts::default(),
            min_tokens: 256,
            max_new_tokens: 96,
            seed: 0,
        }
    }
}

/// A value of [`TraceParams`] that nothing can be recorded with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceParamsError {
    /// No continuation, or a longer one than any model here can give.
    #[error("`max_new_tokens` is {found}, but it must lie in 1..={MAX_NEW_TOKENS}")]
    MaxNewTokens {
        /// What was given.
        found: usize,
    },
}

impl TraceParams {
    /// The part that makes the prompts.
    pub fn task_spec(&self) -> TaskSpec {
        TaskSpec {
            name: self.task.clone(),
            min_tokens: self.min_tokens,
            documents: self.documents,
            seed: self.seed,
            path: self.path.clone(),
            shots: self.shots,
        }
    }

    /// Whether `max_new_tokens` makes sense; the rest is checked by [`crate::tasks::prompts`].
    ///
    /// # Errors
    /// [`TraceParamsError::MaxNewTokens`].
    pub fn check(&self) -> Result<(), TraceParamsError> {
        if (1..=MAX_NEW_TOKENS).contains(&self.max_new_tokens) {
            Ok(())
        } else {
            Err(TraceParamsError::MaxNewTokens { found: self.max_new_tokens })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_job_part_is_the_default() {
        let read: TraceParams = serde_yaml::from_str("{}").expect("every field has a default");
        assert_eq!(read, TraceParams::default());
        let text = "{task: plain-text, path: a.txt, documents: {search: 1}, min_tokens: 9, seed: 3}";
        let read: TraceParams = serde_yaml::from_str(text).expect("fields by name");
        assert_eq!(read.documents, DocumentCounts { search: 1, select: 8, test: 8 });
        assert_eq!(read.task_spec().path, Some("a.txt".into()));
    }

    #[test]
    fn an_unknown_field_is_an_error() {
        let error = serde_yaml::from_str::<TraceParams>("{min_token: 9}").expect_err("a typing error");
        assert!(error.to_string().contains("unknown field `min_token`"), "{error}");
    }

    #[test]
    fn a_trace_without_continuation_is_refused() {
        let params = TraceParams { max_new_tokens: 0, ..TraceParams::default() };
        assert_eq!(
            params.check().expect_err("nothing to record").to_string(),
            "`max_new_tokens` is 0, but it must lie in 1..=1048576"
        );
    }
}
