//! `report.html`: all of a job on one page that needs no network.
//!
//! What a folder lacks is said on the page and left out of it; files of two models are refused. Nothing here
//! depends on when or how long a stage ran, so equal jobs give equal pages.
//!
//! | file | what |
//! |---|---|
//! | `folder` | what is there, what is missing, whether it belongs together |
//! | `answer` | the chosen map in words |
//! | `memory` | what the cache takes at several lengths |
//! | `sections` | figures and tables below the answer |
//! | `example` | a token that the map changes, and what follows |
//! | `extras` | findings, figures and tables that other commands left in the folder |
//! | `view` | what of such a table is shown |
//! | `page` | all of it, as the template takes it |

mod answer;
mod example;
mod extras;
mod folder;
mod memory;
mod page;
mod sections;
mod view;

use std::path::{Path, PathBuf};

use super::files::{FileError, write_text};
use folder::Folder;

/// Name of the page in a job's folder.
pub const FILE: &str = "report.html";

/// What can go wrong with a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Writing the page, or a folder that cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A folder without a single result.
    #[error("`{}` holds none of a job's files, expected some of {}", folder.display(), folder::NAMES.join(", "))]
    Nothing {
        /// The folder.
        folder: PathBuf,
    },
    /// Files that are not of one model.
    #[error(
        "`{}` mixes the files of two models: `{first}` is of {first_model}, but `{second}` is of {second_model}",
        folder.display()
    )]
    Mixed {
        /// The folder.
        folder: PathBuf,
        /// A file.
        first: String,
        /// Its model.
        first_model: String,
        /// A file of another model.
        second: String,
        /// That model.
        second_model: String,
    },
    /// The template and its data do not go together.
    #[error("cannot fill in the report's template: {0}")]
    Template(#[from] minijinja::Error),
    /// Data that JSON cannot hold.
    #[error("cannot write the report's data: {0}")]
    Data(#[from] serde_json::Error),
}

impl ReportError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::File(error) => return error.hint(),
            Self::Nothing { .. } => "name the folder that a job wrote, such as runs/smollm2-135m/kivi",
            Self::Mixed { .. } => "keep the files of one model in a folder of their own",
            Self::Template(_) | Self::Data(_) => return None,
        };
        Some(hint.to_owned())
    }
}

/// A page that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The page.
    pub path: PathBuf,
    /// What the folder lacked or could not be read there, a line each.
    pub gaps: Vec<String>,
}

/// Writes the page of a job's folder into it, or to `out`.
///
/// # Errors
/// [`ReportError`]; nothing is written then.
pub fn write(folder: &Path, out: Option<&Path>) -> Result<Written, ReportError> {
    let found = Folder::read(folder)?;
    let text = page::render(&found)?;
    let path = out.map_or_else(|| folder.join(FILE), Path::to_owned);
    write_text(&path, &text)?;
    Ok(Written { path, gaps: found.gaps.iter().map(ToString::to_string).collect() })
}

#[cfg(test)]
mod tests;
