use crate::nearest::nearest;
use std::path::{Path, PathBuf};

/// What is wrong with a job or search space file: always something its author can mend.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The file cannot be read at all.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not YAML, or not a mapping.
    #[error("`{}` is not a {what}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// `job` or `search space`.
        what: &'static str,
        /// What the parser says, with line and column.
        message: String,
    },
    /// A field that does not exist.
    #[error("`{}` has an unknown field `{field}`", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Path of the field inside the file, `search.max_bit`.
        field: String,
        /// The fields that exist there.
        known: Vec<String>,
    },
    /// A field that a later version will have.
    #[error("`{}` asks for `{field}`, which this version of kvtune does not do", path.display())]
    Reserved {
        /// The file.
        path: PathBuf,
        /// The field.
        field: &'static str,
    },
    /// A field of the wrong type, or a value that does not exist or is out of range.
    #[error("`{}`: field `{field}`: {message}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Path of the field inside the file.
        field: String,
        /// Found against expected.
        message: String,
    },
    /// A file that the job names is in neither place.
    #[error("`{}`: field `{field}` names `{named}`, which is neither beside the file nor in the current directory",
        path.display())]
    NotFound {
        /// The file.
        path: PathBuf,
        /// The field.
        field: &'static str,
        /// What it names.
        named: String,
    },
}

impl JobError {
    /// What the author may do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { .. } | Self::Syntax { .. } => None,
            Self::Unknown { field, known, .. } => Some(unknown_hint(field, known)),
            Self::Reserved { field, .. } => Some(format!("remove `{field}:` from the job")),
            Self::Value { message, .. } => nearest_variant(message),
            Self::NotFound { field, .. } => {
                Some(format!("write the path of a file that exists after `{field}:`"))
            }
        }
    }

    pub(crate) fn value(path: &Path, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Value { path: path.to_owned(), field: field.into(), message: message.into() }
    }
}

fn unknown_hint(field: &str, known: &[String]) -> String {
    let (parent, name) = field.rsplit_once('.').unwrap_or(("", field));
    let prefix = if parent.is_empty() { String::new() } else { format!("{parent}.") };
    let fields = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let place = if parent.is_empty() { String::from("here") } else { format!("of `{parent}`") };
    match nearest(name, known.iter().map(String::as_str)) {
        Some(nearest) => format!("did you mean `{prefix}{nearest}`? the fields {place} are {fields}"),
        None => format!("the fields {place} are {fields}"),
    }
}

/// "unknown variant `moed`, expected one of `moead`, …", as serde says it, with the nearest of them.
fn nearest_variant(message: &str) -> Option<String> {
    let known = ["unknown variant `", "unknown task `"];
    let (_, rest) = known.into_iter().find_map(|start| message.split_once(start))?;
    let (found, expected) = rest.split_once('`')?;
    let known = expected.split('`').skip(1).step_by(2);
    nearest(found, known).map(|nearest| format!("did you mean `{nearest}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_with_its_path() {
        let known = ["algorithm", "max_bits", "max_loss"].map(String::from).to_vec();
        assert_eq!(
            unknown_hint("search.max_bit", &known),
            "did you mean `search.max_bits`? the fields of `search` are `algorithm`, `max_bits`, `max_loss`"
        );
        assert_eq!(unknown_hint("qqq", &known), "the fields here are `algorithm`, `max_bits`, `max_loss`");
    }

    #[test]
    fn a_misspelt_variant_is_answered_with_the_nearest() {
        let hint = nearest_variant("unknown variant `moed`, expected one of `moead`, `nsga2`, `random`");
        assert_eq!(hint.as_deref(), Some("did you mean `moead`?"));
        assert_eq!(nearest_variant("invalid type: string"), None);
    }
}
