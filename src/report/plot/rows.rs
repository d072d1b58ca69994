//! Rows of a CSV file, told apart by their columns and refused where a figure has no place for them.

use std::path::Path;

use serde::de::DeserializeOwned;

use super::PlotError;
use crate::bench::BenchRow;
use crate::report::AccuracyRow;
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
    Accuracy,
}

impl Kind {
    /// Each kind's file, and the columns that it is known by.
    const ALL: [(Self, &'static str, &'static [&'static str]); 6] = [
        (Self::Pareto, "`pareto.csv`", &["map", "role", "search_loss"]),
        (Self::Sensitivity, "`sensitivity.csv`", &["layer", "pair", "e_o_l1"]),
        (Self::Heads, "`heads.csv`", &["layer", "head", "concentration", "e_o_l1"]),
        (Self::Dgap, "`dgap.csv`", &["setting", "head", "gate", "js"]),
        (Self::Bench, "the CSV of `kvtune bench`", &["cell", "configuration", "step_ms"]),
        (
            Self::Accuracy,
            "the CSV of `kvtune eval --task`",
            &["configuration", "metric", "cache_bytes", "score"],
        ),
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
    drawable(path, |row: &ParetoRow| {
        vec![
            ("equivalent_bits", Some(row.equivalent_bits)),
            ("search_loss", Some(row.search_loss)),
            ("select_loss", row.select_loss),
            ("select_upper", row.select_upper),
            ("test_loss", row.test_loss),
            ("test_low", row.test_low),
            ("test_high", row.test_high),
        ]
    })
}

pub(super) fn sensitivity(path: &Path) -> Result<Vec<SensitivityRow>, PlotError> {
    drawable(path, |row: &SensitivityRow| vec![("e_o_l1", Some(row.e_o_l1))])
}

pub(super) fn dgap(path: &Path) -> Result<Vec<DgapRow>, PlotError> {
    drawable(path, |row: &DgapRow| vec![("js", Some(row.js)), ("trigger_rate", Some(row.trigger_rate))])
}

/// Errors may be infinite: a head whose output was all zero.
pub(super) fn heads(path: &Path) -> Result<Vec<PatternRow>, PlotError> {
    drawable(path, |row: &PatternRow| vec![("concentration", Some(row.concentration))])
}

pub(super) fn bench(path: &Path) -> Result<Vec<BenchRow>, PlotError> {
    drawable(path, |row: &BenchRow| {
        vec![
            ("step_ms", Some(row.step_ms)),
            ("step_ms_least", Some(row.step_ms_least)),
            ("step_ms_greatest", Some(row.step_ms_greatest)),
        ]
    })
}

/// Scores over memory have no place where a cache takes none.
pub(super) fn accuracy(path: &Path) -> Result<Vec<AccuracyRow>, PlotError> {
    let positive = |bytes: f64| if bytes > 0.0 { bytes } else { f64::NEG_INFINITY };
    drawable(path, |row: &AccuracyRow| {
        vec![
            ("cache_bytes", Some(positive(row.cache_bytes))),
            ("score", Some(row.score)),
            ("standard_error", Some(row.standard_error)),
        ]
    })
}

/// A column's name and its value in one row, where it has one.
type Coordinate = (&'static str, Option<f64>);

/// The rows of a file, if there are any and all coordinates are finite.
fn drawable<R: DeserializeOwned>(
    path: &Path,
    coordinates: impl Fn(&R) -> Vec<Coordinate>,
) -> Result<Vec<R>, PlotError> {
    let rows: Vec<R> = read_csv(path)?;
    if rows.is_empty() {
        return Err(PlotError::Empty { path: path.to_owned() });
    }
    let bad = rows.iter().zip(1..).find_map(|(row, number)| {
        let nowhere = |(column, value): Coordinate| Some((column, value.filter(|value| !value.is_finite())?));
        coordinates(row).into_iter().find_map(nowhere).map(|(column, found)| (number, column, found))
    });
    match bad {
        Some((row, column, found)) => Err(PlotError::NotFinite { path: path.to_owned(), row, column, found }),
        None => Ok(rows),
    }
}
