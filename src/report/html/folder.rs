use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::ReportError;
use crate::job::{Job, Overrides};
use crate::report::{
    AnalysisFile, EvaluationRow, FileError, ParetoRow, PrecisionFile, PromptRow, Role, RunRecord,
    SensitivityRow, SpaceFile, read_csv,
};
use crate::trace::{Trace, TraceMeta};

/// The files that a report is made from, in the order in which a job writes them.
pub(super) const NAMES: [&str; 8] = [
    "job.yaml",
    "run.yaml",
    "trace.safetensors",
    "sensitivity.csv",
    "space.yaml",
    "evaluations.csv",
    "pareto.csv",
    "precision.yaml",
];

/// What a job's folder holds.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) job: Option<Job>,
    pub(super) run: Option<RunRecord>,
    pub(super) trace: Option<TraceMeta>,
    pub(super) sensitivity: Vec<SensitivityRow>,
    pub(super) prompts: Vec<PromptRow>,
    pub(super) space: Option<SpaceFile>,
    pub(super) evaluations: Vec<EvaluationRow>,
    pub(super) pareto: Vec<ParetoRow>,
    pub(super) precision: Option<PrecisionFile>,
    /// Where the folder was analyzed.
    pub(super) analysis: Option<AnalysisFile>,
    pub(super) gaps: Vec<Gap>,
}

/// A file that the page has to do without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) file: &'static str,
    /// What is wrong with it; nothing where it is not there.
    pub(super) damage: Option<String>,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.damage {
            Some(damage) => write!(f, "`{}` cannot be used: {damage}", self.file),
            None => write!(f, "`{}` is missing", self.file),
        }
    }
}

impl Folder {
    /// The analysis, where it is of the model whose page this is.
    pub(super) fn own_analysis(&self) -> Option<&AnalysisFile> {
        let foreign =
            |file: &AnalysisFile| self.run.as_ref().is_some_and(|run| run.model.sha256 != file.model.sha256);
        self.analysis.as_ref().filter(|file| !foreign(file))
    }

    pub(super) fn read(path: &Path) -> Result<Self, ReportError> {
        std::fs::read_dir(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
        if !NAMES.iter().any(|name| path.join(name).exists()) {
            return Err(ReportError::Nothing { folder: path.to_owned() });
        }
        let mut reader = Reader { folder: path, gaps: Vec::new() };
        let prompts = path.join("sensitivity-prompts.csv");
        let folder = Self {
            job: reader.file("job.yaml", |path| Job::read(path, &Overrides::default())),
            run: reader.file("run.yaml", RunRecord::read),
            trace: reader.file("trace.safetensors", |path| Trace::read(path).map(|trace| trace.meta)),
            sensitivity: reader.rows("sensitivity.csv"),
            prompts: read_csv(&prompts).unwrap_or_default(),
            space: reader.file("space.yaml", SpaceFile::read),
            evaluations: reader.rows("evaluations.csv"),
            pareto: reader.rows("pareto.csv"),
            precision: reader.file("precision.yaml", PrecisionFile::read),
            analysis: reader.optional("analysis.yaml", AnalysisFile::read),
            path: path.to_owned(),
            gaps: reader.gaps,
        };
        folder.refuse_mixture()?;
        Ok(folder)
    }

    /// The chosen map's row of the front.
    pub(super) fn chosen(&self) -> Option<&ParetoRow> {
        self.pareto.iter().find(|row| row.role == Role::Chosen)
    }

    /// As the user named the model, where any file says it.
    pub(super) fn model(&self) -> Option<&str> {
        let provenance = self.precision.as_ref().and_then(|file| file.provenance.as_ref());
        let of_run = self.run.as_ref().map(|run| run.model.id.as_str());
        of_run
            .or(provenance.map(|provenance| provenance.model.id.as_str()))
            .or(self.trace.as_ref().map(|meta| meta.model_id.as_str()))
            .or(self.job.as_ref().map(|job| job.model.as_str()))
    }

    fn refuse_mixture(&self) -> Result<(), ReportError> {
        refuse_other(&self.path, &self.fingerprints())?;
        refuse_other(&self.path, &self.layers())
    }

    /// Each file that names its model, with what it says.
    fn fingerprints(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        let mut claim = |file: &str, id: Option<&str>, sha256: &str| {
            let start: String = sha256.chars().take(12).collect();
            let said = id
                .map_or(format!("the model of sha256 {start}…"), |id| format!("`{id}` (sha256 {start}…)"));
            claims.push(Claim { file: file.to_owned(), key: sha256.to_owned(), said });
        };
        if let Some(run) = &self.run {
            claim("run.yaml", Some(&run.model.id), &run.model.sha256);
        }
        if let Some(meta) = &self.trace {
            claim("trace.safetensors", Some(&meta.model_id), &meta.model_fingerprint);
        }
        if let Some(space) = &self.space {
            claim("space.yaml", None, &space.model);
        }
        if let Some(provenance) = self.precision.as_ref().and_then(|file| file.provenance.as_ref()) {
            claim("precision.yaml", Some(&provenance.model.id), &provenance.model.sha256);
        }
        claims
    }

    /// Each file that knows how many layers its model has, with the count.
    fn layers(&self) -> Vec<Claim> {
        let counts = [
            ("run.yaml", self.run.as_ref().map(|run| run.model.layers)),
            ("sensitivity.csv", self.sensitivity.iter().map(|row| row.layer + 1).max()),
            ("space.yaml", self.space.as_ref().map(|file| file.space.n_layers())),
            ("evaluations.csv", self.evaluations.iter().map(|row| row.map.n_layers()).max()),
            ("pareto.csv", self.pareto.iter().map(|row| row.map.n_layers()).max()),
            ("precision.yaml", self.precision.as_ref().map(|file| file.map.n_layers())),
        ];
        let claim = |(file, count): (&str, Option<usize>)| {
            let count = count?;
            Some(Claim {
                file: file.to_owned(),
                key: count.to_string(),
                said: format!("a model of {count} layers"),
            })
        };
        counts.into_iter().filter_map(claim).collect()
    }
}

/// What a file says of its model.
struct Claim {
    file: String,
    key: String,
    said: String,
}

fn refuse_other(folder: &Path, claims: &[Claim]) -> Result<(), ReportError> {
    let Some(first) = claims.first() else { return Ok(()) };
    match claims.iter().find(|claim| claim.key != first.key) {
        None => Ok(()),
        Some(second) => Err(ReportError::Mixed {
            folder: folder.to_owned(),
            first: first.file.clone(),
            first_model: first.said.clone(),
            second: second.file.clone(),
            second_model: second.said.clone(),
        }),
    }
}

/// Reads what can be read, and remembers what cannot.
struct Reader<'a> {
    folder: &'a Path,
    gaps: Vec<Gap>,
}

impl Reader<'_> {
    fn file<T, E: fmt::Display>(
        &mut self,
        file: &'static str,
        read: impl FnOnce(&Path) -> Result<T, E>,
    ) -> Option<T> {
        let path = self.folder.join(file);
        if !path.exists() {
            self.gaps.push(Gap { file, damage: None });
            return None;
        }
        let damaged = |error: E| self.gaps.push(Gap { file, damage: Some(error.to_string()) });
        read(&path).map_err(damaged).ok()
    }

    /// A file that most folders do without.
    fn optional<T, E: fmt::Display>(
        &mut self,
        file: &'static str,
        read: impl FnOnce(&Path) -> Result<T, E>,
    ) -> Option<T> {
        if self.folder.join(file).exists() { self.file(file, read) } else { None }
    }

    fn rows<R: DeserializeOwned>(&mut self, file: &'static str) -> Vec<R> {
        self.file(file, read_csv).unwrap_or_default()
    }
}
