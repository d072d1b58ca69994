use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::report::plot::short;

/// What other commands may leave in a job's folder: a section, the starts of its files' names, and its title.
const SECTIONS: [(&str, &[&str], &str); 3] = [
    ("bench", &["bench"], "Time and memory, measured"),
    ("analysis", &["heads", "attention", "channels", "lemma", "knockout"], "Why layers are sensitive"),
    ("dgap", &["dgap"], "DGAP: repairing the output of the most aggressive settings"),
];

/// Rows of a table that are shown; the file has them all.
const MOST_ROWS: usize = 60;

/// Figures and tables of one command.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Section {
    id: &'static str,
    title: &'static str,
    figures: Vec<Picture>,
    tables: Vec<Table>,
}

/// An image as it lies in the folder.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Picture {
    file: String,
    /// The image itself, as a `data:` address.
    source: String,
    /// What a screen reader says: the text beside it (same name, `.txt`), or the file's name.
    label: String,
}

/// A CSV file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Table {
    file: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    left_out: usize,
}

/// The sections whose files are there: `bench.csv`, `heads.svg`, `attention-0.1.png` and the like.
pub(super) fn sections(folder: &Path) -> Vec<Section> {
    let names = names(folder);
    SECTIONS.iter().filter_map(|&(id, stems, title)| section(folder, &names, (id, stems), title)).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn section(
    folder: &Path,
    names: &[String],
    (id, stems): (&'static str, &[&str]),
    title: &'static str,
) -> Option<Section> {
    let own = |name: &&String| {
        let rests = stems.iter().filter_map(|stem| name.strip_prefix(stem));
        rests.into_iter().any(|rest| rest.starts_with(['-', '.']))
    };
    let of_kind = |endings: &'static [&'static str]| {
        let ends = move |name: &&String| endings.iter().any(|ending| name.ends_with(ending));
        names.iter().filter(own).filter(ends)
    };
    let figures: Vec<Picture> = of_kind(&[".svg", ".png"]).filter_map(|name| picture(folder, name)).collect();
    let tables: Vec<Table> = of_kind(&[".csv"]).filter_map(|name| table(folder, name)).collect();
    (!figures.is_empty() || !tables.is_empty()).then_some(Section { id, title, figures, tables })
}

fn picture(folder: &Path, name: &str) -> Option<Picture> {
    let path = folder.join(name);
    let bytes = std::fs::read(&path).ok()?;
    let kind = if name.ends_with(".svg") { "svg+xml" } else { "png" };
    let label = std::fs::read_to_string(path.with_extension("txt"));
    Some(Picture {
        file: name.to_owned(),
        source: format!("data:image/{kind};base64,{}", STANDARD.encode(bytes)),
        label: label.map_or_else(|_| name.to_owned(), |text| text.trim().to_owned()),
    })
}

fn table(folder: &Path, name: &str) -> Option<Table> {
    let text = std::fs::read_to_string(folder.join(name)).ok()?;
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let columns: Vec<String> = reader.headers().ok()?.iter().map(str::to_owned).collect();
    let rows: Vec<Vec<String>> =
        reader.records().filter_map(|row| Some(row.ok()?.iter().map(cell).collect())).collect();
    let left_out = rows.len().saturating_sub(MOST_ROWS);
    Some(Table { file: name.to_owned(), columns, rows: rows.into_iter().take(MOST_ROWS).collect(), left_out })
}

/// A fraction in few digits; other text as it is.
fn cell(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(number) if text.contains(['.', 'e']) && number.is_finite() => short(number),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_there_when_its_files_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        write("benchmark.csv", "a\n1\n");
        assert!(sections(folder.path()).is_empty());
        write("heads.svg", "<svg/>");
        write("heads.txt", "Entropy of each head\n");
        write("bench.csv", &("cell,ms\n".to_owned() + &"1x512,0.123456\n".repeat(61)));
        let found = sections(folder.path());
        assert_eq!(found.iter().map(|section| section.id).collect::<Vec<_>>(), ["bench", "analysis"]);
        assert_eq!(found[0].tables[0].rows[0], ["1x512", "0.123"]);
        assert_eq!((found[0].tables[0].rows.len(), found[0].tables[0].left_out), (60, 1));
        assert_eq!(found[1].figures[0].label, "Entropy of each head");
        assert_eq!(found[1].figures[0].source, "data:image/svg+xml;base64,PHN2Zy8+");
    }
}
