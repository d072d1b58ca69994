//! Figures from a job's files: the Pareto front, the error of each layer at each pair, the bits of a map, what DGAP
//! leaves of drift, how long a step takes, what answers score for the memory that they take.
//!
//! A figure is first a list of shapes (`figure`), then drawn by plotters' SVG or bitmap backend (`draw`), so
//! both formats show the same. Text in PNGs and all text widths come from the embedded font; SVGs name it first.

mod accuracy;
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
mod rows;
mod scale;
mod strip;

pub(in crate::report) use page::{Drawing, heatmap_drawing, pareto_drawing, progress_drawing, strip_drawing};
pub(in crate::report) use progress::Progress;
pub(in crate::report) use scale::short;

use std::path::{Path, PathBuf};

use crate::job::{Job, Overrides};
use crate::score::Objective;

use super::files::{FileError, write_atomic};
use super::precision_file::PrecisionFile;
use super::run_record::RunRecord;
use super::space_file::{SpaceFile, group_letters};

pub use self::attention::AttentionPicture;
use self::rows::Kind;

/// What can go wrong with a plot.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// Reading the rows or writing the figure.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file whose columns are of none of the known kinds.
    #[error("`{}` has the columns of no file that can be plotted, expected {}; or a map in a file that ends in `.yaml`", path.display(), Kind::expected())]
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

/// Draws `pareto.csv`, `sensitivity.csv`, `heads.csv`, `dgap.csv` or what `kvtune bench` or `kvtune eval --task`
/// printed with `--format csv`, told apart by their columns, or a precision map, whose name ends in `.yaml` or `.yml`;
/// as SVG or PNG by the ending of `out`.
///
/// Where `run.yaml`, `job.yaml` and `space.yaml` stand beside the file, the figure names the model, the objective, the
/// limit and the groups.
///
/// # Errors
/// [`PlotError`], naming the file; nothing is written then.
pub fn plot(file: &Path, out: &Path) -> Result<(), PlotError> {
    let format = Format::of(out)?;
    let context = Context::beside(file);
    let figure = match is_map(file) {
        true => map_figure(file, &context)?,
        false => csv_figure(file, &context)?,
    };
    write(&figure, format, out)
}

fn is_map(file: &Path) -> bool {
    let ending = file.extension().unwrap_or_default();
    ending.eq_ignore_ascii_case("yaml") || ending.eq_ignore_ascii_case("yml")
}

fn csv_figure(file: &Path, context: &Context) -> Result<figure::Figure, PlotError> {
    Ok(match Kind::of(file)? {
        Kind::Pareto => pareto::figure(&rows::pareto(file)?, context),
        Kind::Dgap => dgap::figure(&rows::dgap(file)?, context),
        Kind::Sensitivity => heatmap::figure(&rows::sensitivity(file)?, context),
        Kind::Heads => heads::figure(&rows::heads(file)?, context),
        Kind::Bench => bench::figure(&rows::bench(file)?, context),
        Kind::Accuracy => accuracy::figure(&rows::accuracy(file)?, context),
    })
}

/// A map with the groups beside it, where they are of its model and of as many layers; it names its model itself.
fn map_figure(file: &Path, context: &Context) -> Result<figure::Figure, PlotError> {
    let PrecisionFile { map, provenance } = PrecisionFile::read(file)?;
    let own = |space: &SpaceFile| provenance.as_ref().is_none_or(|of| of.model.sha256 == space.model);
    let space = SpaceFile::read(&file.with_file_name("space.yaml")).ok().filter(own).map(|file| file.space);
    let groups = space.filter(|space| space.n_layers() == map.n_layers());
    let letters = groups.as_ref().map(group_letters).unwrap_or_default();
    let context = match provenance {
        Some(of) => Context {
            model: Some(of.model.id),
            scheme: Some(of.scheme.name.slug().to_owned()),
            ..context.clone()
        },
        None => context.clone(),
    };
    Ok(strip::figure(&map, &letters, &context))
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

/// What the files beside the rows say of them.
#[derive(Clone, Debug, Default)]
pub(in crate::report) struct Context {
    model: Option<String>,
    scheme: Option<String>,
    objective: Option<String>,
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
            objective: job.as_ref().map(axis_title),
            max_loss: job.map(|job| job.search.max_loss),
        }
    }

    fn title(&self, what: &str) -> String {
        let of = [self.model.as_deref(), self.scheme.as_deref()];
        let of: Vec<&str> = of.into_iter().flatten().collect();
        if of.is_empty() { what.to_owned() } else { format!("{what}: {}", of.join(", ")) }
    }
}

fn axis_title(job: &Job) -> String {
    match job.search.objective {
        Objective::Flips => "flips (share of positions)".into(),
        Objective::Kl => "KL divergence (nats a token)".into(),
        Objective::Nll => "difference of NLL (nats a token)".into(),
        Objective::Accuracy => format!("accuracy lost{} (share of the score)", job.lost_where()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::read_text;
    use super::super::rows::{ParetoRow, Role};
    use super::super::table::write_csv;
    use super::*;
    use crate::precision::{LayerId, PrecisionPair};
    use crate::space::{LayerGroup, Space};

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
    fn a_map_shows_the_groups_beside_it_where_they_are_of_its_model() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, out) = (folder.path().join("map.yaml"), folder.path().join("map.svg"));
        let kv4: PrecisionPair = "KV4".parse().expect("a pair");
        let group = |layer| LayerGroup { layers: vec![LayerId(layer)], candidates: vec![kv4], noise: false };
        let drawn = |map: &str, model: &str| {
            let space = Space::new(2, vec![kv4], vec![group(0), group(1)]).expect("a space");
            SpaceFile::new(space, model.to_owned())
                .write(&file.with_file_name("space.yaml"))
                .expect("written");
            PrecisionFile::made(map).write(&file).expect("written");
            plot(&file, &out).expect("drawn");
            read_text(&out).expect("read")
        };
        let svg = drawn("0-1 KV4", "b179");
        for text in ["Bits of each layer: smollm2-135m, kivi", "\ngroup\n", "\nA\n", "\nB\n"] {
            assert!(svg.contains(text), "{text} is missing from {svg}");
        }
        assert!(!drawn("0-1 KV4", "another").contains("\ngroup\n"), "of another model");
        assert!(!drawn("0-2 KV4", "b179").contains("\ngroup\n"), "of another number of layers");
    }

    #[test]
    fn a_map_is_drawn_and_refused_like_any_map() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, out) = (folder.path().join("map.yaml"), folder.path().join("map.svg"));
        std::fs::write(&file, "0: {nbits_key: 8, nbits_value: 4}\n1: {nbits_key: 2, nbits_value: 2}\n")
            .expect("written");
        plot(&file, &out).expect("drawn");
        let svg = read_text(&out).expect("read");
        assert!(svg.contains("Bits of each layer") && svg.contains("keys"), "{svg}");
        std::fs::write(&file, "0: {nbits_key: 8, nbits_value: 4}\n2: {nbits_key: 2, nbits_value: 2}\n")
            .expect("written");
        let error = plot(&file, &out).expect_err("no layer 1").to_string();
        assert!(error.contains("layer 1 is missing"), "{error}");
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
