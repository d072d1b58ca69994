//! What the folder holds, checked against the model before any weight is read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::cache::{Simulation, Units};
use crate::job::stages::run::read_trace;
use crate::job::stages::sensitivity::{head_rows, rows};
use crate::job::stages::session::Session;
use crate::job::stages::{AnalysisRequest, Configuration, ConfigurationBits, StageError, space};
use crate::model::{Decoder, DecoderBackend};
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::report::{FileError, HeadRow, ParetoRow, PrecisionFile, RunRecord, SensitivityRow, read_csv};
use crate::sensitivity::{Table, isolated};
use crate::space::Space;
use crate::trace::{Document, Split, Trace};

/// Files of the stages before; only the trace must be there.
pub(super) struct Inputs {
    pub(super) trace: Trace,
    /// The chosen map.
    pub(super) map: Option<PrecisionMap>,
    /// Its groups.
    pub(super) space: Option<Space>,
    /// Maps of the front and uniform ones; none where the folder has no `pareto.csv`.
    pub(super) front: Vec<ParetoRow>,
    layers: Option<Vec<SensitivityRow>>,
    heads: Option<Vec<HeadRow>>,
}

/// Errors of all heads and layers at all pairs of the job.
pub(super) struct Errors {
    /// Whether they were read, not measured.
    pub(super) from_file: bool,
    heads: BTreeMap<(usize, usize, PrecisionPair), HeadRow>,
    layers: BTreeMap<(usize, PrecisionPair), SensitivityRow>,
}

impl Errors {
    /// Of one query head; `None` at a pair that the job does not name.
    pub(super) fn head(&self, layer: usize, head: usize, pair: PrecisionPair) -> Option<&HeadRow> {
        self.heads.get(&(layer, head, pair))
    }

    /// Of one layer; `None` at a pair that was not measured.
    pub(super) fn layer(&self, layer: usize, pair: PrecisionPair) -> Option<&SensitivityRow> {
        self.layers.get(&(layer, pair))
    }
}

impl Inputs {
    /// Reads what there is.
    ///
    /// # Errors
    /// A folder without a trace; a file of another model, or of other layers.
    pub(super) fn read(request: &AnalysisRequest, session: &Session<'_>) -> Result<Self, StageError> {
        refuse_test(request)?;
        if !session.file("trace.safetensors").exists() {
            return Err(StageError::Unmet {
                message: format!("`{}` has no `trace.safetensors`", request.folder.display()),
                hint: Some(format!("record one with `kvtune trace {}`", session.file("job.yaml").display())),
            });
        }
        let trace = read_trace(session)?;
        let run = session.file("run.yaml");
        if run.exists() {
            refuse_other(session, &run, &RunRecord::read(&run)?.model.sha256)?;
        }
        let inputs = Self {
            trace,
            map: existing(session, "precision.yaml", |path| map(session, path))?,
            space: existing(session, "space.yaml", |_| space::read(session))?,
            front: existing(session, "pareto.csv", |path| front(session, path))?.unwrap_or_default(),
            layers: existing(session, "sensitivity.csv", |path| Ok(read_csv(path)?))?,
            heads: existing(session, "sensitivity-heads.csv", |path| Ok(read_csv(path)?))?,
        };
        inputs.heads.as_ref().map_or(Ok(()), |rows| refuse_gaps(session, rows))?;
        Ok(inputs)
    }

    /// The errors of the folder where both files are there, else measured on the same documents.
    pub(super) fn errors<B: DecoderBackend>(
        &self,
        session: &Session<'_>,
        decoder: &Decoder<B>,
        simulation: &Simulation,
        documents: &[&Document],
    ) -> Result<Errors, StageError> {
        let (heads, layers, from_file) = match (&self.heads, &self.layers) {
            (Some(heads), Some(layers)) => (heads.clone(), layers.clone(), true),
            _ => {
                let table = measured(session, decoder, simulation, documents)?;
                (head_rows(&table), rows(&table), false)
            }
        };
        Ok(Errors {
            from_file,
            heads: heads.into_iter().map(|row| ((row.layer, row.head, row.pair), row)).collect(),
            layers: layers.into_iter().map(|row| ((row.layer, row.pair), row)).collect(),
        })
    }
}

fn existing<T>(
    session: &Session<'_>,
    name: &str,
    read: impl Fn(&Path) -> Result<T, StageError>,
) -> Result<Option<T>, StageError> {
    let path = session.file(name);
    path.exists().then(|| read(&path)).transpose()
}

/// The test split is read once, for the figure that is reported.
fn refuse_test(request: &AnalysisRequest) -> Result<(), StageError> {
    match request.split {
        Split::Search | Split::Select => Ok(()),
        Split::Test => Err(StageError::Unmet {
            message: "a map is not lowered on the test split, which is read once".into(),
            hint: Some("use `select` or `search`".into()),
        }),
    }
}

fn refuse_other(session: &Session<'_>, path: &Path, found: &str) -> Result<(), StageError> {
    if found == session.fingerprint {
        return Ok(());
    }
    Err(StageError::Unmet {
        message: format!(
            "`{}` is of a model with sha256 {found}, but `{}` has {}",
            path.display(),
            session.resolved.id,
            session.fingerprint
        ),
        hint: Some("analyze a folder with the model that it was made with".into()),
    })
}

fn map(session: &Session<'_>, path: &Path) -> Result<PrecisionMap, StageError> {
    let file = PrecisionFile::read(path)?;
    if let Some(provenance) = &file.provenance {
        refuse_other(session, path, &provenance.model.sha256)?;
    }
    of_layers(session, path, file.map)
}

fn front(session: &Session<'_>, path: &Path) -> Result<Vec<ParetoRow>, StageError> {
    let rows: Vec<ParetoRow> = read_csv(path)?;
    rows.iter().try_for_each(|row| of_layers(session, path, row.map.clone()).map(drop))?;
    Ok(rows)
}

/// The map, if it has the model's layers.
fn of_layers(session: &Session<'_>, path: &Path, map: PrecisionMap) -> Result<PrecisionMap, StageError> {
    session.map(&Configuration {
        name: path.display().to_string(),
        scheme: session.job.search_space.scheme.clone(),
        bits: ConfigurationBits::Map(map),
    })
}

fn measured<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    simulation: &Simulation,
    documents: &[&Document],
) -> Result<Table, StageError> {
    let observer = session.observer();
    observer.begin("errors", (documents.len() * session.n_layers()) as u64, "layers");
    let prefill = simulation.scheme().prefill;
    let units = |document: &Document| Units::prompt(document.prompt_len, prefill);
    let sequences: Vec<(&[u32], Units)> =
        documents.iter().map(|document| (&document.tokens[..], units(document))).collect();
    let (pairs, threads) = (session.job.search_space.pairs.expand(), session.context.threads);
    let tables = isolated::measure_all((decoder, simulation), &pairs, &sequences, threads, observer)?;
    observer.end(&format!("{} layers at {} pairs", session.n_layers(), pairs.len()));
    Ok(Table::pooled(&tables))
}

/// Every head has an error at every pair of the job.
fn refuse_gaps(session: &Session<'_>, rows: &[HeadRow]) -> Result<(), StageError> {
    let known: BTreeSet<_> = rows.iter().map(|row| (row.layer, row.head, row.pair)).collect();
    let pairs = session.job.search_space.pairs.expand();
    let heads = session.checkpoint.config().num_attention_heads;
    let cells = (0..session.n_layers()).flat_map(|layer| (0..heads).map(move |head| (layer, head)));
    let mut wanted = cells.flat_map(|(layer, head)| pairs.iter().map(move |&pair| (layer, head, pair)));
    match wanted.find(|wanted| !known.contains(wanted)) {
        Some((layer, head, pair)) => {
            let message = format!("no row for layer {layer}, head {head} at {pair}, which the job names");
            Err(FileError::content(&session.file("sensitivity-heads.csv"), "", message).into())
        }
        None => Ok(()),
    }
}
