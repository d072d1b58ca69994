//! Rows of a CSV file, told apart by their columns and refused where a figure has no place for them.

use std::path::Path;

use super::PlotError;
use crate::bench::BenchRow;
use crate::report::analysis_rows::PatternRow;
use crate::report::dgap_rows::DgapRow;
use crate::report::files::read_text;
use crate::report::rows::{ParetoRow, SensitivityRow};
use crate::report::table::read_csv;

/// What a CSV file holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Dgap,
    Pareto,
    Sensitivity,
    Heads,
    Bench,
}

impl Kind {
    /// Each kind's file, and the columns that it is known by.
    const ALL: [(Self, &'static str, &'static [&'static str]); 5] = [
        (Self::Pareto, "`pareto.csv`", &["map", "role", "search_loss"]),
        (Self::Sensitivity, "`sensitivity.csv`", &["layer", "pair", "e_o_l1"]),
        (Self::Heads, "`heads.csv`", &["layer", "head", "concentration", "e_o_l1"]),
        (Self::Dgap, "`dgap.csv`", &["setting", "head", "gate", "js"]),
        (Self::Bench, "the CSV of `kvtune bench`", &["cell", "configuration", "step_ms"]),
    ];

    pub(super) fn of(rows: &Path) -> Result<Self, PlotError> {
        let text = read_text(rows)?;
        if text.trim().is_empty() {
            return Err(PlotError::Empty { path: rows.to_owned() });
        }
        let header: Vec<&str> = text.lines().next().unwrap_or_default().trim().split(',').collect();
        let has = |columns: &[&str]| columns.iter().all(|column| header.contains(column));
        // Rows of heads have layers too.
        let fits = |kind: Self| kind != Self::Sensitivity || !has(&["head"]);
        let found = Self::ALL.into_iter().find(|&(kind, _, columns)| has(columns) && fits(kind));
        found.map(|(kind, ..)| kind).ok_or_else(|| PlotError::Columns { path: rows.to_owned() })
    }

    /// Every kind of CSV in words.
    pub(super) fn expected() -> String {
        let said = Self::ALL.map(|(_, file, columns)| {
            let columns: Vec<String> = columns.iter().map(|column| format!("`{column}`")).collect();
            format!("{} as in {file}", columns.join(", "))
        });
        said.join("; or ")
    }
}

pub(super) fn pareto(path: &Path) -> Result<Vec<ParetoRow>, PlotError> {
    let rows: Vec<ParetoRow> = read_csv(path)?;
    refuse_empty(path, rows.len())?;
    for (i, row) in rows.iter().enumerate() {
        let columns = [
            ("equivalent_bits", Some(row.equivalent_bits)),
            ("search_loss", Some(row.search_loss)),
            ("select_loss", row.select_loss),
            ("select_upper", row.select_upper),
            ("test_loss", row.test_loss),
            ("test_low", row.test_low),
            ("test_high", row.test_high),
        ];
        refuse_not_finite(path, i + 1, &columns)?;
    }
    Ok(rows)
}

pub(super) fn sensitivity(path: &Path) -> Result<Vec<SensitivityRow>, PlotError> {
    let rows: Vec<SensitivityRow> = read_csv(path)?;
    refuse_empty(path, rows.len())?;
    for (i, row) in rows.iter().enumerate() {
        refuse_not_finite(path, i + 1, &[("e_o_l1", Some(row.e_o_l1))])?;
    }
    Ok(rows)
}

pub(super) fn dgap(path: &Path) -> Result<Vec<DgapRow>, PlotError> {
    let rows: Vec<DgapRow> = read_csv(path)?;
    refuse_empty(path, rows.len())?;
    for (i, row) in rows.iter().enumerate() {
        refuse_not_finite(path, i + 1, &[("js", Some(row.js)), ("trigger_rate", Some(row.trigger_rate))])?;
    }
    Ok(rows)
}

/// Errors may be infinite: a head whose output was all zero.
pub(super) fn heads(path: &Path) -> Result<Vec<PatternRow>, PlotError> {
    let rows: Vec<PatternRow> = read_csv(path)?;
    refuse_empty(path, rows.len())?;
    for (i, row) in rows.iter().enumerate() {
        refuse_not_finite(path, i + 1, &[("concentration", Some(row.concentration))])?;
    }
    Ok(rows)
}

pub(super) fn bench(path: &Path) -> Result<Vec<BenchRow>, PlotError> {
    let rows: Vec<BenchRow> = read_csv(path)?;
    refuse_empty(path, rows.len())?;
    for (i, row) in rows.iter().enumerate() {
        let columns = [
            ("step_ms", Some(row.step_ms)),
            ("step_ms_least", Some(row.step_ms_least)),
            ("step_ms_greatest", Some(row.step_ms_greatest)),
        ];
        refuse_not_finite(path, i + 1, &columns)?;
    }
    Ok(rows)
}

fn refuse_empty(path: &Path, rows: usize) -> Result<(), PlotError> {
    if rows == 0 { Err(PlotError::Empty { path: path.to_owned() }) } else { Ok(()) }
}

fn refuse_not_finite(
    path: &Path,
    row: usize,
    columns: &[(&'static str, Option<f64>)],
) -> Result<(), PlotError> {
    let found = columns.iter().find_map(|&(column, value)| Some((column, value.filter(|v| !v.is_finite())?)));
    match found {
        Some((column, found)) => Err(PlotError::NotFinite { path: path.to_owned(), row, column, found }),
        None => Ok(()),
    }
}
