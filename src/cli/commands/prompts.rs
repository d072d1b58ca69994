use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use crate::cli::exit::UsageError;
use crate::report::FileError;

/// A file's text, or standard input's for `-`.
pub(super) fn read(path: &Path) -> Result<String, FileError> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|source| FileError::Read { path: path.to_owned(), source })
}

/// One line of a file of JSON lines; other keys are no affair of ours.
#[derive(Deserialize)]
struct Line {
    prompt: String,
}

/// The prompts of a text, one a line that is not blank: JSON if the first is an object, else as they stand.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<String>, UsageError> {
    let lines = || (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let Some((_, first)) = lines().next() else {
        return Err(UsageError { message: format!("`{}` holds no prompt", path.display()), hint: None });
    };
    if !serde_json::from_str(first).is_ok_and(|value: serde_json::Value| value.is_object()) {
        return Ok(lines().map(|(_, line)| line.to_owned()).collect());
    }
    let of_line = |(number, line): (usize, &str)| {
        let line: Result<Line, _> = serde_json::from_str(line);
        line.map(|line| line.prompt).map_err(|error| UsageError {
            message: format!("`{}`, line {number}: {error}", path.display()),
            hint: Some(String::from(
                "its first line is JSON: then all are objects with a text under `prompt`",
            )),
        })
    };
    lines().map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompts(text: &str) -> Result<Vec<String>, String> {
        parse(Path::new("p.txt"), text).map_err(|error| error.to_string())
    }

    fn both(first: &str, second: &str) -> Result<Vec<String>, String> {
        Ok(vec![first.to_owned(), second.to_owned()])
    }

    #[test]
    fn a_line_is_a_prompt() {
        assert_eq!(prompts("one \n\n  two\n"), both("one ", "  two"));
        assert_eq!(prompts("{x} is a set\n[1]"), both("{x} is a set", "[1]"));
    }

    #[test]
    fn json_lines_may_hold_more_than_the_prompt() {
        let text = "{\"id\": 7, \"prompt\": \"a\\nb\"}\n{\"prompt\": \"\"}\n";
        assert_eq!(prompts(text), both("a\nb", ""));
    }

    #[test]
    fn what_is_no_prompt_is_named_with_its_line() {
        assert_eq!(prompts(" \n"), Err(String::from("`p.txt` holds no prompt")));
        let found = prompts("{\"prompt\": \"a\"}\n\nb").expect_err("not JSON");
        assert!(found.starts_with("`p.txt`, line 3: expected value"), "{found}");
        let found = prompts("{\"text\": \"a\"}").expect_err("no prompt");
        assert!(found.starts_with("`p.txt`, line 1: missing field `prompt`"), "{found}");
    }
}
