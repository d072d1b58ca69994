//! Rows for people and for programs.

use serde::Serialize;

use super::args::Format;

/// Version of the JSON that tables are printed as.
const FORMAT_VERSION: u32 = 1;

/// Rows as text in the format asked for; `name` is the key of the list in JSON.
///
/// The table's columns are the fields of the rows, as CSV has them, but for those that no row fills.
pub(super) fn render<R: Serialize>(rows: &[R], name: &str, format: Format) -> anyhow::Result<String> {
    match format {
        Format::Json => json(rows, name),
        Format::Csv => csv(rows),
        Format::Table => Ok(aligned(&filled(cells(&csv(rows)?)?))),
    }
}

fn json<R: Serialize>(rows: &[R], name: &str) -> anyhow::Result<String> {
    let mut object = serde_json::Map::new();
    object.insert(String::from("format_version"), FORMAT_VERSION.into());
    object.insert(name.to_owned(), serde_json::to_value(rows)?);
    Ok(serde_json::to_string_pretty(&object)? + "\n")
}

fn csv<R: Serialize>(rows: &[R]) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn cells(csv: &str) -> anyhow::Result<Vec<Vec<String>>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(csv.as_bytes());
    reader.records().map(|record| Ok(record?.iter().map(shortened).collect())).collect()
}

/// Without the columns that are empty below their head.
fn filled(rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let is_filled = |column: usize| rows.len() < 2 || rows[1..].iter().any(|row| !row[column].is_empty());
    let kept: Vec<usize> =
        (0..rows.first().map_or(0, Vec::len)).filter(|&column| is_filled(column)).collect();
    rows.iter().map(|row| kept.iter().map(|&column| row[column].clone()).collect()).collect()
}

/// A number with six significant digits at most; other text as it is.
fn shortened(cell: &str) -> String {
    match cell.parse::<f64>() {
        Ok(number) if cell.contains(['.', 'e']) => {
            let digits = 5 - number.abs().max(1e-6).log10().floor() as i32;
            let rounded = format!("{number:.*}", digits.clamp(0, 8) as usize);
            if rounded.contains('.') {
                rounded.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                rounded
            }
        }
        _ => cell.to_owned(),
    }
}

/// Columns as wide as their widest cell, two spaces apart; numbers to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let numeric = |column: usize| rows.iter().skip(1).all(|row| row[column].parse::<f64>().is_ok());
    let shape: Vec<(usize, bool)> = (0..columns).map(|column| (width(column), numeric(column))).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&shape).map(|(cell, &(width, numeric))| {
            if numeric { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Row {
        name: &'static str,
        loss: f64,
        size: u64,
    }

    const ROWS: [Row; 2] =
        [Row { name: "a", loss: 0.123_456_789, size: 5 }, Row { name: "long", loss: 12.0, size: 1000 }];

    #[test]
    fn a_table_aligns_numbers_right() {
        let table = render(&ROWS, "rows", Format::Table).expect("a table");
        assert_eq!(table, "name      loss  size\na     0.123457     5\nlong        12  1000\n");
    }

    #[test]
    fn a_table_leaves_out_what_no_row_has() {
        let render = |rows: &[[&str; 3]]| {
            let cells = rows.iter().map(|row| row.map(String::from).to_vec());
            aligned(&filled(cells.collect()))
        };
        let head = ["name", "a", "b"];
        assert_eq!(render(&[head, ["x", "", "1"], ["y", "", ""]]), "name  b\nx     1\ny\n");
        assert_eq!(render(&[head]), "name  a  b\n");
    }

    #[test]
    fn json_carries_a_version_and_every_digit() {
        let json = render(&ROWS, "rows", Format::Json).expect("JSON");
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(value["format_version"], 1);
        assert_eq!(value["rows"][0]["loss"], 0.123_456_789);
    }

    #[test]
    fn csv_has_a_header() {
        assert_eq!(
            render(&ROWS, "rows", Format::Csv).expect("CSV"),
            "name,loss,size\na,0.123456789,5\nlong,12.0,1000\n"
        );
    }
}
