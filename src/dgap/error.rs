use std::path::{Path, PathBuf};

use crate::report::FileError;

/// Why heads cannot be trained, read or used.
#[derive(Debug, thiserror::Error)]
pub enum DgapError {
    /// Reading or writing a file.
    #[error(transparent)]
    File(#[from] FileError),
    /// More candidates than a position of the trace keeps, or fewer than there is an order among.
    #[error(
        "`--top-k` is {found}, but it must lie in 2..={held}, the candidates that a position of the trace holds"
    )]
    TopK {
        /// What was asked for.
        found: usize,
        /// What there is.
        held: usize,
    },
    /// A split without positions.
    #[error("no position to {purpose}: the trace has too few documents on its `{split}` split")]
    NoPositions {
        /// What it was needed for.
        purpose: &'static str,
        /// Where it should have been.
        split: &'static str,
    },
    /// A loss that is no number.
    #[error("training of `{head}` gave a loss of {loss} in epoch {epoch}")]
    Loss {
        /// The head.
        head: String,
        /// The loss.
        loss: f64,
        /// The epoch, from 1.
        epoch: usize,
    },
    /// Heads of another model.
    #[error("heads `{}` were trained for `{found}` (sha256 {found_sha256}), but the model is `{expected}` (sha256 {expected_sha256})", path.display())]
    OtherModel {
        /// The file.
        path: PathBuf,
        /// Its model.
        found: String,
        /// The start of that model's sha256.
        found_sha256: String,
        /// The model at hand.
        expected: String,
        /// The start of its sha256.
        expected_sha256: String,
    },
    /// Heads of another setting of the cache.
    #[error("heads `{}` were trained for {found}, but the cache is {expected}", path.display())]
    OtherSetting {
        /// The file.
        path: PathBuf,
        /// Its setting.
        found: String,
        /// The one at hand.
        expected: String,
    },
    /// A corrector that the file does not hold.
    #[error("heads `{}` hold no `{found}`, but {known}", path.display())]
    NoHead {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        found: String,
        /// What there is.
        known: String,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl DgapError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::File(error) => return error.hint(),
            Self::NoPositions { .. } => "record more documents: raise `trace.documents` in the job",
            Self::Loss { .. } => "lower `--learning-rate`",
            Self::OtherModel { .. } => "train heads for this model with `kvtune dgap train`",
            Self::OtherSetting { .. } => {
                "train heads for this setting with `kvtune dgap train`, or use theirs"
            }
            Self::TopK { .. } | Self::NoHead { .. } | Self::Interrupted => return None,
        };
        Some(hint.to_owned())
    }

    pub(super) fn damaged(path: &Path, message: impl Into<String>) -> Self {
        Self::File(FileError::content(path, "", message))
    }
}

/// Enough of a sha256 to tell two apart.
pub(super) fn short(sha256: &str) -> String {
    sha256.chars().take(12).chain(['…']).collect()
}
