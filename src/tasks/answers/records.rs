//! Files of questions as records with named fields, whatever they are written in.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::AnswerError;

/// One row of a file.
#[derive(Clone, Debug)]
pub(super) struct Record {
    path: PathBuf,
    place: String,
    fields: Map<String, Value>,
}

impl Record {
    /// The file without folder and extension.
    pub(super) fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    /// A record of the same place with the fields of an object inside it.
    pub(super) fn inner(&self, name: &str) -> Result<Self, AnswerError> {
        match self.field(name)? {
            Value::Object(fields) => Ok(Self { fields: fields.clone(), ..self.clone() }),
            other => Err(self.wrong(name, other, "an object")),
        }
    }

    pub(super) fn object(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// A text; numbers are taken as they are written.
    pub(super) fn text(&self, name: &str) -> Result<String, AnswerError> {
        match self.field(name)? {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            other => Err(self.wrong(name, other, "a text")),
        }
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>, AnswerError> {
        let field = self.field(name)?;
        let texts = field.as_array().map(|list| list.iter().map(|text| text.as_str().map(str::to_owned)));
        texts
            .and_then(Iterator::collect::<Option<Vec<String>>>)
            .ok_or_else(|| self.wrong(name, field, "a list of texts"))
    }

    /// A right answer, which is not empty: an answer without a word would be right.
    pub(super) fn gold(&self, name: &str) -> Result<String, AnswerError> {
        let text = self.text(name)?;
        self.filled(name, &text)?;
        Ok(text)
    }

    /// Right answers, at least one and none of them empty.
    pub(super) fn golds(&self, name: &str) -> Result<Vec<String>, AnswerError> {
        let texts = self.texts(name)?;
        if texts.is_empty() {
            return Err(self.error(format!("`{name}` is empty, expected at least one right answer")));
        }
        texts.iter().try_for_each(|text| self.filled(name, text))?;
        Ok(texts)
    }

    /// Complains of a right answer without text.
    pub(super) fn filled(&self, name: &str, answer: &str) -> Result<(), AnswerError> {
        match answer.trim() {
            "" => Err(self.error(format!("`{name}` has an empty right answer"))),
            _ => Ok(()),
        }
    }

    /// The number of a letter, `A` being 0.
    pub(super) fn letter(&self, name: &str, choices: usize) -> Result<usize, AnswerError> {
        let text = self.text(name)?;
        self.letter_of(&text, name, choices)
    }

    pub(super) fn letter_of(&self, text: &str, name: &str, choices: usize) -> Result<usize, AnswerError> {
        let choice = match text.trim().as_bytes() {
            [letter @ b'A'..=b'Z'] => usize::from(letter - b'A'),
            _ => usize::MAX,
        };
        if choice < choices {
            return Ok(choice);
        }
        let last = char::from(b'A' + (choices.clamp(1, 26) - 1) as u8);
        Err(self.error(format!("`{name}` is `{text}`, expected a letter from A to {last}")))
    }

    pub(super) fn error(&self, message: String) -> AnswerError {
        AnswerError::Line { path: self.path.clone(), place: self.place.clone(), message }
    }

    /// Complains of all of `expected` that are not there.
    pub(super) fn expect(&self, expected: &[&str]) -> Result<(), AnswerError> {
        let missing: Vec<String> =
            expected.iter().filter(|name| !self.has(name)).map(|&name| name.to_owned()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let found = self.fields.keys().cloned().collect();
        Err(AnswerError::Columns { path: self.path.clone(), place: self.place.clone(), found, missing })
    }

    fn field(&self, name: &str) -> Result<&Value, AnswerError> {
        self.expect(&[name])?;
        Ok(&self.fields[name])
    }

    fn wrong(&self, name: &str, found: &Value, expected: &str) -> AnswerError {
        let found: String = found.to_string().chars().take(40).collect();
        self.error(format!("`{name}` is `{found}`, expected {expected}"))
    }
}

/// The records of JSON lines, of a JSON list, or of the list under `under`; of a folder, of all its files by name.
pub(super) fn json(path: &Path, under: Option<&str>) -> Result<Vec<Record>, AnswerError> {
    let read = |path: &PathBuf| json_file(path, under);
    some(path, files(path, &["json", "jsonl", "txt"])?.iter().map(read))
}

/// The records of a CSV file with a header; of a folder, of all its files by name.
pub(super) fn csv(path: &Path) -> Result<Vec<Record>, AnswerError> {
    some(path, files(path, &["csv"])?.iter().map(|path| csv_file(path, None)))
}

/// The records of a CSV file without header, whose columns are named here; of a folder, of all its files by name.
pub(super) fn csv_of(path: &Path, columns: &[&str]) -> Result<Vec<Record>, AnswerError> {
    some(path, files(path, &["csv"])?.iter().map(|path| csv_file(path, Some(columns))))
}

fn some(
    path: &Path,
    files: impl Iterator<Item = Result<Vec<Record>, AnswerError>>,
) -> Result<Vec<Record>, AnswerError> {
    let records: Vec<Record> = files.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    if records.is_empty() {
        return Err(AnswerError::Empty { path: path.to_owned(), expected: "at least one record" });
    }
    Ok(records)
}

fn files(path: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, AnswerError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let error = |source| AnswerError::Read { path: path.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(error)? {
        let file = entry.map_err(error)?.path();
        let known = file.extension().is_some_and(|found| extensions.iter().any(|known| found == *known));
        if known && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// A file's text without the mark that some programs put before UTF-8.
pub(super) fn read(path: &Path) -> Result<String, AnswerError> {
    let text =
        fs::read_to_string(path).map_err(|source| AnswerError::Read { path: path.to_owned(), source })?;
    Ok(text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned))
}

fn json_file(path: &Path, under: Option<&str>) -> Result<Vec<Record>, AnswerError> {
    let text = read(path)?;
    let record = |place: String, value: Value| match value {
        Value::Object(fields) => Ok(Record { path: path.to_owned(), place, fields }),
        _ => {
            Err(AnswerError::Line { path: path.to_owned(), place, message: "expected a JSON object".into() })
        }
    };
    if let Some(list) = whole_list(&text, under) {
        return (1..).zip(list).map(|(entry, value)| record(format!("entry {entry}"), value)).collect();
    }
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let of_line = |(number, line): (usize, &str)| {
        let place = format!("line {number}");
        match serde_json::from_str(line) {
            Ok(value) => record(place, value),
            Err(error) => {
                let message = format!("not a JSON object: {error}");
                Err(AnswerError::Line { path: path.to_owned(), place, message })
            }
        }
    };
    lines.map(of_line).collect()
}

/// The list that the text is, or holds; a single object over several lines is a list of one.
fn whole_list(text: &str, under: Option<&str>) -> Option<Vec<Value>> {
    match serde_json::from_str(text).ok()? {
        Value::Array(list) => Some(list),
        Value::Object(mut fields) => match under.and_then(|name| fields.remove(name)) {
            Some(Value::Array(list)) => Some(list),
            Some(_) => None,
            None if text.trim().contains('\n') => Some(vec![Value::Object(fields)]),
            None => None,
        },
        _ => None,
    }
}

fn csv_file(path: &Path, columns: Option<&[&str]>) -> Result<Vec<Record>, AnswerError> {
    let text = read(path)?;
    let mut reader =
        ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut names: Option<Vec<String>> =
        columns.map(|names| names.iter().map(|&name| name.to_owned()).collect());
    let mut records = Vec::new();
    for row in reader.records() {
        let error = |place, message| AnswerError::Line { path: path.to_owned(), place, message };
        let row = row.map_err(|cause| {
            let line = cause.position().map_or(0, ::csv::Position::line);
            error(format!("line {line}"), format!("not CSV: {cause}"))
        })?;
        let place = format!("line {}", row.position().map_or(0, ::csv::Position::line));
        let Some(names) = &names else {
            names = Some(row.iter().map(|name| name.trim().to_owned()).collect());
            continue;
        };
        if row.len() != names.len() {
            let message = format!("found {} columns, expected {}", row.len(), names.len());
            return Err(error(place, message));
        }
        let cells = row.iter().map(|cell| Value::String(cell.to_owned()));
        let fields = names.iter().cloned().zip(cells).collect();
        records.push(Record { path: path.to_owned(), place, fields });
    }
    Ok(records)
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use super::*;

    /// A file of that text.
    pub(in super::super) fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(text.as_bytes()).expect("it takes the text");
        file
    }

    fn message(result: Result<Vec<Record>, AnswerError>, file: &tempfile::NamedTempFile) -> String {
        let name = file.path().display().to_string();
        result.expect_err("refused").to_string().replace(&name, "FILE")
    }

    #[test]
    fn a_malformed_line_is_named() {
        let file = file("{\"a\": 1}\n\n{\"a\": \n");
        let found = message(json(file.path(), None), &file);
        assert!(found.starts_with("`FILE`, line 3: not a JSON object: "), "{found}");
        let file = self::file("{\"a\": 1}\n7\n");
        assert_eq!(message(json(file.path(), None), &file), "`FILE`, line 2: expected a JSON object");
    }

    #[test]
    fn wrong_columns_are_listed_beside_those_expected() {
        let file = file("{\"q\": 1, \"b\": 2}\n");
        let record = json(file.path(), None).expect("a record").remove(0);
        let error = record.expect(&["question", "answer"]).expect_err("neither is there").to_string();
        assert!(
            error.ends_with(", line 1: found the columns `b`, `q`, but `question`, `answer` is missing"),
            "{error}"
        );
        let file = self::file("q,A,B,C,D,A\nq,A,B\n");
        let columns = ["question", "A", "B", "C", "D", "answer"];
        assert_eq!(
            message(csv_of(file.path(), &columns), &file),
            "`FILE`, line 2: found 3 columns, expected 6"
        );
    }

    #[test]
    fn an_empty_file_is_an_error() {
        for text in ["", "\n \n", "[]"] {
            let file = file(text);
            let found = message(json(file.path(), None), &file);
            assert_eq!(found, "`FILE` is empty, expected at least one record");
        }
        let file = file("question,A\n");
        assert!(message(csv(file.path()), &file).contains("is empty"));
    }

    #[test]
    fn lists_lines_and_lists_below_a_key_are_alike() {
        for text in [
            "{\"a\": \"1\"}\n{\"a\": \"2\"}",
            "[{\"a\": \"1\"}, {\"a\": \"2\"}]",
            "{\"Data\": [{\"a\": \"1\"}, {\"a\": \"2\"}]}",
        ] {
            let file = file(text);
            let records = json(file.path(), Some("Data")).expect("records");
            let texts: Vec<String> = records.iter().map(|record| record.text("a").expect("a text")).collect();
            assert_eq!(texts, ["1", "2"]);
        }
    }

    #[test]
    fn csv_cells_may_hold_commas_quotes_and_lines() {
        let file = file("id,question\n1,\"a, \"\"b\"\"\nc\"\n2,d\n");
        let records = csv(file.path()).expect("records");
        assert_eq!(records[0].text("question").expect("a text"), "a, \"b\"\nc");
        let error = records[1].letter("question", 4).expect_err("no letter").to_string();
        assert!(error.ends_with("line 4: `question` is `d`, expected a letter from A to D"), "{error}");
    }
}
