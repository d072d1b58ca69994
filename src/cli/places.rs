//! Where results may go.

use std::path::Path;

use super::exit::UsageError;

/// Refuses a place that is a folder, or one of the files that a command reads.
///
/// `typed` is the option that names the place, as people type it.
pub(super) fn check(typed: &str, out: &Path, inputs: &[&Path]) -> Result<(), UsageError> {
    if out.is_dir() {
        let message = format!("{typed}: `{}` is a folder, expected a file", out.display());
        return Err(UsageError { message, hint: Some(format!("name a file in it after {typed}")) });
    }
    let Ok(place) = out.canonicalize() else { return Ok(()) };
    let same = |input: &&&Path| input.canonicalize().is_ok_and(|input| input == place);
    match inputs.iter().find(same) {
        None => Ok(()),
        Some(input) => Err(UsageError {
            message: format!("{typed}: `{}` would be written over, and it is read", input.display()),
            hint: Some(format!("name another file after {typed}")),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_read_and_a_folder_are_no_places_for_results() {
        let folder = tempfile::tempdir().expect("a folder");
        let (read, other) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&read, "x").expect("written");
        let detour = folder.path().join(".").join("a");
        assert!(check("`-o`", &detour, &[&other, &read]).is_err());
        assert!(check("`-o`", folder.path(), &[]).is_err());
        assert!(check("`-o`", &other, &[&read]).is_ok());
    }
}
