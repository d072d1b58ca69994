use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::files::{FileError, read_text, write_atomic};

/// Writes rows as CSV: a header, `.` decimals, each float as the shortest text that reads back as itself, so that
/// equal values give equal bytes. No rows give an empty file.
///
/// # Errors
/// [`FileError::Write`].
pub fn write_csv<R: Serialize>(path: &Path, rows: &[R]) -> Result<(), FileError> {
    write_atomic(path, |file| {
        let mut writer = csv::Writer::from_writer(file);
        rows.iter().try_for_each(|row| writer.serialize(row)).map_err(io::Error::other)?;
        writer.flush()
    })
}

/// Reads what [`write_csv`] wrote.
///
/// # Errors
/// [`FileError::Read`], or [`FileError::Content`] naming line and column.
pub fn read_csv<R: DeserializeOwned>(path: &Path) -> Result<Vec<R>, FileError> {
    let text = read_text(path)?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().cloned().unwrap_or_default();
    reader.deserialize().map(|row| row.map_err(|error| content_error(path, &headers, &error))).collect()
}

fn content_error(path: &Path, headers: &csv::StringRecord, error: &csv::Error) -> FileError {
    let line = error.position().map_or(String::new(), |position| format!(", line {}", position.line()));
    let csv::ErrorKind::Deserialize { err, .. } = error.kind() else {
        return FileError::content(path, line, error.to_string());
    };
    let column = err.field().and_then(|index| headers.get(usize::try_from(index).ok()?));
    let column = column.map_or(String::new(), |name| format!(", column `{name}`"));
    FileError::content(path, format!("{line}{column}"), err.kind().to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::rows::{EvaluationKind, EvaluationRow, ParetoRow, Role, SensitivityRow};
    use super::super::text::parse_map;
    use super::*;

    fn pareto_row() -> ParetoRow {
        ParetoRow {
            map: parse_map("0-1 KV8, 2 K8V4").expect("a map"),
            role: Role::Chosen,
            equivalent_bits: 22.0 / 3.0,
            storage_bits: 8.25,
            cache_bytes: 123,
            search_loss: 1e-7,
            select_loss: Some(0.1 + 0.2),
            select_upper: None,
            test_loss: None,
            test_low: None,
            test_high: None,
        }
    }

    #[test]
    fn a_row_is_written_as_it_should_look() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pareto.csv");
        write_csv(&path, &[pareto_row()]).expect("written");
        assert_eq!(
            read_text(&path).expect("read"),
            "map,role,equivalent_bits,storage_bits,cache_bytes,search_loss,select_loss,select_upper,test_loss,\
             test_low,test_high\n\"0-1 KV8, 2 K8V4\",chosen,7.333333333333333,8.25,123,1e-7,0.30000000000000004,,,,\n"
        );
        assert_eq!(read_csv::<ParetoRow>(&path).expect("read"), [pareto_row()]);
    }

    #[test]
    fn a_damaged_cell_is_named_by_line_and_column() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pareto.csv");
        let text = "map,role,equivalent_bits\n0 KV8,front,much\n";
        std::fs::write(&path, text).expect("written");
        let error = read_csv::<ParetoRow>(&path).expect_err("not a number");
        assert!(
            error.to_string().ends_with(", line 2, column `equivalent_bits`: invalid float literal"),
            "{error}"
        );
        std::fs::write(&path, "map,role\n0 KV8,front\n").expect("written");
        let error = read_csv::<ParetoRow>(&path).expect_err("a column is missing");
        assert!(error.to_string().ends_with(", line 2: missing field `equivalent_bits`"), "{error}");
    }

    proptest! {
        #[test]
        fn any_float_reads_back_as_itself(loss in prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("evaluations.csv");
            let row = EvaluationRow {
                index: 3,
                key: String::from("ab"),
                kind: EvaluationKind::Isolated,
                genome: vec![0, 2, 1],
                map: parse_map("0 KV8").expect("a map"),
                equivalent_bits: 8.0,
                storage_bits: loss,
                cache_bytes: u64::MAX,
                flips: loss,
                kl: loss,
                nll: -loss,
                loss,
            };
            write_csv(&path, std::slice::from_ref(&row)).expect("written");
            prop_assert_eq!(read_csv::<EvaluationRow>(&path).expect("read"), [row]);
        }

        #[test]
        fn any_text_is_answered(text in "\\PC{0,60}") {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("sensitivity.csv");
            std::fs::write(&path, text).expect("written");
            let _ = read_csv::<SensitivityRow>(&path);
        }
    }
}
