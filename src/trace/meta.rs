use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Trace, TraceError};
use crate::tasks::TaskSpec;

/// Version of the file's layout; a file of another one is not read.
pub const FORMAT: u32 = 1;

/// How many of the largest logits a position keeps.
pub const TOP: usize = 64;

/// Where a trace comes from: all that is needed to record it again, and to tell whether it fits a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceMeta {
    /// Always [`FORMAT`] in a trace that was read.
    pub format: u32,
    /// Version of kvtune that recorded it.
    pub version: String,
    /// What the user called the model.
    pub model_id: String,
    /// sha256 of the model's files, hexadecimal.
    pub model_fingerprint: String,
    /// Layers of the model.
    pub n_layers: usize,
    /// Channels of a hidden state.
    pub hidden_size: usize,
    /// Rows of the model's head.
    pub vocab_size: usize,
    /// The task as it was asked for; its seed is the trace's.
    pub task: TaskSpec,
    /// Whether and why a BOS token stands first.
    pub bos: String,
    /// Name of the template that the prompts went through.
    pub prompt_template: String,
    /// Largest logits kept per position: [`TOP`], or the whole vocabulary where that is smaller.
    pub top: usize,
    /// Tokens after which a continuation ends without EOS.
    pub max_new_tokens: usize,
}

impl Trace {
    /// Whether this trace, read from `path`, was recorded for the model at hand.
    ///
    /// # Errors
    /// [`TraceError::OtherLayers`] or [`TraceError::OtherModel`]; both hint at recording it again.
    pub fn check_model(
        &self,
        path: &Path,
        model_id: &str,
        model_fingerprint: &str,
        n_layers: usize,
    ) -> Result<(), TraceError> {
        let meta = &self.meta;
        if meta.n_layers != n_layers {
            return Err(TraceError::OtherLayers {
                path: path.to_owned(),
                found: meta.n_layers,
                model_id: model_id.to_owned(),
                expected: n_layers,
            });
        }
        if meta.model_fingerprint != model_fingerprint {
            return Err(TraceError::OtherModel {
                path: path.to_owned(),
                recorded_id: meta.model_id.clone(),
                recorded: meta.model_fingerprint.clone(),
                model_id: model_id.to_owned(),
                expected: model_fingerprint.to_owned(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::trace;
    use super::*;

    #[test]
    fn a_trace_of_another_model_is_refused_with_the_way_out() {
        let path = Path::new("runs/tiny/trace.safetensors");
        let trace = trace();
        let fingerprint = trace.meta.model_fingerprint.clone();
        assert!(trace.check_model(path, "renamed", &fingerprint, 2).is_ok());

        let error = trace.check_model(path, "org/big", &fingerprint, 36).expect_err("36 layers");
        assert_eq!(
            error.to_string(),
            "trace `runs/tiny/trace.safetensors` has 2 layers, but `org/big` has 36"
        );
        assert_eq!(
            error.hint().as_deref(),
            Some("record it again with `kvtune trace -m org/big -o runs/tiny`")
        );

        let error = trace.check_model(path, "org/big", &"cd".repeat(32), 2).expect_err("other weights");
        assert_eq!(
            error.to_string(),
            "trace `runs/tiny/trace.safetensors` was recorded with `tiny` (sha256 abababababab…), but `org/big` has sha256 cdcdcdcdcdcd…"
        );
        assert_eq!(
            error.hint().as_deref(),
            Some("record it again with `kvtune trace -m org/big -o runs/tiny`")
        );
    }
}
