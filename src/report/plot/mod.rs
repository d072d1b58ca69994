//! Figures from the CSV files: the Pareto front, the error of each layer at each pair, what DGAP leaves of drift,
//! how long a step takes.
//!
//! A figure is first a list of shapes (`figure`), then drawn by plotters' SVG or bitmap backend (`draw`), so
//! both formats show the same. Text in PNGs and all text widths come from the embedded font; SVGs name it first.

mod attention;
mod bench;
mod dgap;
mod draw;
mod figure;
mod font;
mod heads;
mod heatmap;
mod inline;
mod labels;
mod page;
mod palette;
mod pareto;
mod progress;
mod scale;
mod strip;

pub(in crate::report) use page::{Drawing, heatmap_drawing, pareto_drawing, progress_drawing, strip_drawing};
pub(in crate::report) use progress::Progress;
pub(in crate::report) use scale::short;

use std::path::{Path, PathBuf};

use crate::bench::BenchRow;
use crate::job::{Job, Overrides};
use crate::score::Objective;

use super::analysis_rows::PatternRow;
use super::dgap_rows::DgapRow;
use super::files::{FileError, read_text, write_atomic};
use super::rows::{ParetoRow, SensitivityRow};
use super::run_record::RunRecord;
use super::table::read_csv;

pub use self::attention::AttentionPicture;

/// What can go wrong with a plot.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// Reading the rows or writing the figure.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file whose columns are of none of the known kinds.
    #[error("`{}` has the columns of no file that can be plotted, expected {}", path.display(), Kind::expected())]
    Columns {
        /// The file.
        path: PathBuf,
    },
    /// Only a header, or not even that.
    #[error("`{}` has no rows to plot", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A value that has no place on an axis.
    #[error("`{}`, row {row}: `{column}` is {found}, expected a finite number", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// Number of the row, from 1.
        row: usize,
        /// The column.
        column: &'static str,
        /// The value.
        found: f64,
    },
    /// Neither `.svg` nor `.png`.
    #[error("cannot tell the format of `{}`, expected a name that ends in `.svg` or `.png`", path.display())]
    Format {
        /// The file.
        path: PathBuf,
    },
    /// The drawing library refused.
    #[error("cannot draw `{}`: {message}", path.display())]
    Draw {
        /// The file.
        path: PathBuf,
        /// What it says.
        message: String,
    },
}

impl PlotError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::File(error) => error.hint(),
            _ => None,
        }
    }
}

/// Draws `pareto.csv`, `sensitivity.csv`, `heads.csv`, `dgap.csv` or what `kvtune bench --format csv` printed, told
/// apart by their columns, as SVG or PNG by the ending of `out`.
///
/// Where `run.yaml` and `job.yaml` stand beside the rows, the figure names the model, the objective and the limit.
///
/// # Errors
/// [`PlotError`], naming the file; nothing is written then.
pub fn plot(rows: &Path, out: &Path) -> Result<(), PlotError> {
    let format = Format::of(out)?;
    let context = Context::beside(rows);
    let figure = match Kind::of(rows)? {
        Kind::Pareto => pareto::figure(&read_pareto(rows)?, &context),
        Kind::Dgap => dgap::figure(&read_dgap(rows)?, &context),
        Kind::Sensitivity => heatmap::figure(&read_sensitivity(rows)?, &context),
        Kind::Heads => heads::figure(&read_heads(rows)?, &context),
        Kind::Bench => bench::figure(&read_bench(rows)?, &context),
    };
    write(&figure, format, out)
}

/// Draws the attention of one head, as SVG or PNG by the ending of `out`.
///
/// # Errors
/// [`PlotError`], naming the file; nothing is written then.
pub fn plot_attention(picture: &AttentionPicture<'_>, out: &Path) -> Result<(), PlotError> {
    write(&attention::figure(picture), Format::of(out)?, out)
}

fn write(figure: &figure::Figure, format: Format, out: &Path) -> Result<(), PlotError> {
    let bytes = match format {
        Format::Svg => draw::svg(figure).map(String::into_bytes),
        Format::Png => draw::png(figure),
    };
    let bytes = bytes.map_err(|message| PlotError::Draw { path: out.to_owned(), message })?;
    Ok(write_atomic(out, |file| file.write_all(&bytes))?)
}

#[derive(Clone, Copy)]
enum Format {
    Svg,
    Png,
}

impl Format {
    fn of(out: &Path) -> Result<Self, PlotError> {
        let ending = out.extension().unwrap_or_default().to_ascii_lowercase();
        match ending.to_str() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            _ => Err(PlotError::Format { path: out.to_owned() }),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
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

    fn of(rows: &Path) -> Result<Self, PlotError> {
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

    /// Every kind in words.
    fn expected() -> String {
        let said = Self::ALL.map(|(_, file, columns)| {
            let columns: Vec<String> = columns.iter().map(|column| format!("`{column}`")).collect();
            format!("{} as in {file}", columns.join(", "))
        });
        said.join("; or ")
    }
}

/// What the files beside the rows say of them.
#[derive(Clone, Debug, Default)]
pub(in crate::report) struct Context {
    model: Option<String>,
    scheme: Option<String>,
    objective: Option<&'static str>,
    max_loss: Option<f64>,
}

impl Context {
    /// A figure is worth having without its neighbors, so what cannot be read is left out.
    pub(in crate::report) fn beside(rows: &Path) -> Self {
        let folder = rows.parent().unwrap_or(Path::new(""));
        let record = RunRecord::read(&folder.join("run.yaml")).ok();
        let job = Job::read(&folder.join("job.yaml"), &Overrides::default()).ok();
        Self {
            model: record.map(|record| record.model.id).or_else(|| job.as_ref().map(|job| job.model.clone())),
            scheme: job.as_ref().map(|job| job.scheme_slug().to_owned()),
            objective: job.as_ref().map(|job| axis_title(job.search.objective)),
            max_loss: job.map(|job| job.search.max_loss),
        }
    }

    fn title(&self, what: &str) -> String {
        let of = [self.model.as_deref(), self.scheme.as_deref()];
        let of: Vec<&str> = of.into_iter().flatten().collect();
        if of.is_empty() { what.to_owned() } else { format!("{what}: {}", of.join(", ")) }
    }
}

fn axis_title(objective: Objective) -> &'static str {
    match objective {
        Objective::Flips => "flips (share of positions)",
        Objective::Kl => "KL divergence (nats a token)",
        Objective::Nll => "difference of NLL (nats a token)",
        Objective::Accuracy => "accuracy lost (share of the score)",
    }
}

fn read_pareto(path: &Path) -> Result<Vec<ParetoRow>, PlotError> {
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

fn read_sensitivity(path: &Path) -> Result<Vec<SensitivityRow>, PlotError> {
    let rows: Vec<SensitivityRow> = read_csv(path)?;
    refuse_empty(path, rows.len())?;
    for (i, row) in rows.iter().enumerate() {
        refuse_not_finite(path, i + 1, &[("e_o_l1", Some(row.e_o_l1))])?;
    }
    Ok(rows)
}

fn read_dgap(path: &Path) -> Result<Vec<DgapRow>, PlotError> {
    let rows: Vec<DgapRow> = read_csv(path)?;
    refuse_empty(path, rows.len())?;
    for (i, row) in rows.iter().enumerate() {
        refuse_not_finite(path, i + 1, &[("js", Some(row.js)), ("trigger_rate", Some(row.trigger_rate))])?;
    }
    Ok(rows)
}

/// Errors may be infinite: a head whose output was all zero.
fn read_heads(path: &Path) -> Result<Vec<PatternRow>, PlotError> {
    let rows: Vec<PatternRow> = read_csv(path)?;
    refuse_empty(path, rows.len())?;
    for (i, row) in rows.iter().enumerate() {
        refuse_not_finite(path, i + 1, &[("concentration", Some(row.concentration))])?;
    }
    Ok(rows)
}

fn read_bench(path: &Path) -> Result<Vec<BenchRow>, PlotError> {
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

#[cfg(test)]
mod tests {
    use super::super::rows::Role;
    use super::super::table::write_csv;
    use super::*;

    fn row(loss: f64) -> ParetoRow {
        ParetoRow::made("0-1 KV8", Role::Front, loss)
    }

    #[test]
    fn the_ending_decides_the_format() {
        let folder = tempfile::tempdir().expect("a folder");
        let rows = folder.path().join("pareto.csv");
        write_csv(&rows, &[row(0.1)]).expect("written");
        for (name, magic) in [("a.svg", b"<svg".as_slice()), ("a.PNG", b"\x89PNG")] {
            let out = folder.path().join(name);
            plot(&rows, &out).expect("drawn");
            assert!(std::fs::read(&out).expect("read").starts_with(magic), "{name}");
        }
        let error = plot(&rows, &folder.path().join("a.pdf")).expect_err("no such format");
        assert!(error.to_string().contains("expected a name that ends in `.svg` or `.png`"), "{error}");
    }

    #[test]
    fn a_job_beside_the_rows_names_axis_and_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let rows = folder.path().join("pareto.csv");
        write_csv(&rows, &[row(0.1)]).expect("written");
        std::fs::write(folder.path().join("job.yaml"), "{model: m, search: {objective: kl, max_loss: 0.02}}")
            .expect("written");
        let out = folder.path().join("pareto.svg");
        plot(&rows, &out).expect("drawn");
        let svg = read_text(&out).expect("read");
        for text in ["Pareto front: m, kivi", "KL divergence (nats a token), search split", "limit 0.02"] {
            assert!(svg.contains(text), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_named_and_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let (rows, out) = (folder.path().join("pareto.csv"), folder.path().join("out.svg"));
        let refused = |text: &str| {
            std::fs::write(&rows, text).expect("written");
            plot(&rows, &out).expect_err("nothing to draw").to_string()
        };
        assert!(refused("").ends_with("has no rows to plot"));
        let foreign = refused("a,b\n1,2\n");
        assert!(
            foreign.contains("has the columns of no file that can be plotted, expected `map`, `role`"),
            "{foreign}"
        );
        assert!(foreign.contains("; or `layer`, `pair`, `e_o_l1` as in `sensitivity.csv`; or "), "{foreign}");
        // Errors by head are no errors by layer.
        assert!(refused("layer,head,pair,e_o_l1\n0,0,KV2,0.1\n").contains("the columns of no file"));
        write_csv(&rows, &[row(f64::NAN)]).expect("written");
        let error = plot(&rows, &out).expect_err("not a number").to_string();
        assert!(error.ends_with("row 1: `search_loss` is NaN, expected a finite number"), "{error}");
        assert!(!out.exists());
    }
}
