use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::folder::Folder;
use super::view::shown;
use crate::report::plot::short;
use crate::report::{KnockOutRow, PatternRow, analysis_words, read_csv};

/// What other commands may leave in a job's folder: a section, the starts of its files' names, and its title.
const SECTIONS: [(&str, &[&str], &str); 3] = [
    ("bench", &["bench"], "Time and memory, measured"),
    ("analysis", &["heads", "attention", "channels", "lemma", "knockout"], "Why layers are sensitive"),
    ("dgap", &["dgap"], "DGAP: repairing the output of the most aggressive settings"),
];

/// Figures and tables of one command.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Section {
    id: &'static str,
    title: &'static str,
    /// What was found, a line each.
    words: Vec<String>,
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
    title: String,
    file: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    left_out: usize,
}

/// The sections whose files are there: `bench.csv`, `heads.svg`, `attention-0.1.png` and the like.
pub(super) fn sections(folder: &Folder) -> Vec<Section> {
    let names = names(&folder.path);
    SECTIONS.iter().filter_map(|&(id, stems, title)| section(folder, &names, (id, stems), title)).collect()
}

/// What `kvtune analyze` said, where it was of this model.
fn words(folder: &Folder) -> Vec<String> {
    let Some(file) = folder.own_analysis() else { return Vec::new() };
    let heads: Vec<PatternRow> = read_csv(&folder.path.join("heads.csv")).unwrap_or_default();
    let lowered: Vec<KnockOutRow> = read_csv(&folder.path.join("knockout.csv")).unwrap_or_default();
    analysis_words(file, &heads, &lowered)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn section(
    folder: &Folder,
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
    let figures: Vec<Picture> =
        of_kind(&[".svg", ".png"]).filter_map(|name| picture(&folder.path, name)).collect();
    let tables: Vec<Table> = of_kind(&[".csv"]).filter_map(|name| table(&folder.path, name)).collect();
    let words = if id == "analysis" { words(folder) } else { Vec::new() };
    (!figures.is_empty() || !tables.is_empty()).then_some(Section { id, title, words, figures, tables })
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
    let rows = reader.records().filter_map(|row| Some(row.ok()?.iter().map(str::to_owned).collect()));
    let shown = shown(name, columns, rows.collect());
    let cells = |row: Vec<String>| row.iter().map(|text| cell(text)).collect();
    Some(Table {
        title: shown.title,
        file: name.to_owned(),
        columns: shown.columns,
        rows: shown.rows.into_iter().map(cells).collect(),
        left_out: shown.left_out,
    })
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
        write("pareto.csv", "");
        write("benchmark.csv", "a\n1\n");
        let read = || Folder::read(folder.path()).expect("a folder");
        assert!(sections(&read()).is_empty());
        write("heads.svg", "<svg/>");
        write("heads.txt", "Entropy of each head\n");
        write("bench.csv", &("cell,ms\n".to_owned() + &"1x512,0.123456\n".repeat(61)));
        let found = sections(&read());
        assert_eq!(found.iter().map(|section| section.id).collect::<Vec<_>>(), ["bench", "analysis"]);
        assert_eq!(found[0].tables[0].rows[0], ["1x512", "0.123"]);
        assert_eq!((found[0].tables[0].rows.len(), found[0].tables[0].left_out), (60, 1));
        assert_eq!(found[1].figures[0].label, "Entropy of each head");
        assert_eq!(found[1].figures[0].source, "data:image/svg+xml;base64,PHN2Zy8+");
    }
}
