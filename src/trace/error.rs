use std::io;
use std::path::{Path, PathBuf};

use safetensors::SafeTensorError;

use super::FORMAT;

/// Why a trace file cannot be used or written; each names the file.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("cannot read trace `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write trace `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Truncated, or not safetensors.
    #[error("trace `{}` is not a whole safetensors file", path.display())]
    Container {
        /// The file.
        path: PathBuf,
        /// What the reader found.
        source: SafeTensorError,
    },
    /// A safetensors file of something else.
    #[error("`{}` is no trace: its header has no `kvtune` entry", path.display())]
    NoTrace {
        /// The file.
        path: PathBuf,
    },
    /// Written by another version of kvtune.
    #[error("trace `{}` has format {found}, but this kvtune reads format {FORMAT}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its version, as written.
        found: String,
    },
    /// The header's own description cannot be read or written.
    #[error("trace `{}`: the `kvtune` entry of its header is not what this version writes", path.display())]
    Meta {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A table or a value that cannot be right.
    #[error("trace `{}`: `{key}` is {found}, expected {expected}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The table, and the document where it is known.
        key: String,
        /// What stands there.
        found: String,
        /// What should.
        expected: String,
    },
    /// Another number of layers.
    #[error("trace `{}` has {found} layers, but `{model_id}` has {expected}", path.display())]
    OtherLayers {
        /// The file.
        path: PathBuf,
        /// Layers of the model it was recorded with.
        found: usize,
        /// The model at hand.
        model_id: String,
        /// Its layers.
        expected: usize,
    },
    /// Other weights.
    #[error(
        "trace `{}` was recorded with `{recorded_id}` (sha256 {}), but `{model_id}` has sha256 {}",
        path.display(), short(recorded), short(expected)
    )]
    OtherModel {
        /// The file.
        path: PathBuf,
        /// The model it was recorded with.
        recorded_id: String,
        /// That model's sha256.
        recorded: String,
        /// The model at hand.
        model_id: String,
        /// Its sha256.
        expected: String,
    },
}

impl TraceError {
    /// What the user could do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::OtherLayers { path, model_id, .. } | Self::OtherModel { path, model_id, .. } => Some(
                format!("record it again with `kvtune trace -m {model_id} -o {}`", folder(path).display()),
            ),
            Self::Container { path, .. }
            | Self::Format { path, .. }
            | Self::Meta { path, .. }
            | Self::Damaged { path, .. } => {
                Some(format!("record it again with `kvtune trace -o {}`", folder(path).display()))
            }
            Self::Read { .. } | Self::Write { .. } | Self::NoTrace { .. } => None,
        }
    }
}

/// The folder that `path` lies in, `.` where it names none.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Enough of a sha256 to tell two apart.
fn short(sha256: &str) -> String {
    sha256.chars().take(12).chain(['…']).collect()
}
