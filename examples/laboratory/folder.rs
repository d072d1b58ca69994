//! What a job left in its folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kvtune::job::stages::read_space;
use kvtune::job::{Job, Overrides};
use kvtune::precision::PrecisionMap;
use kvtune::report::{
    EvaluationKind, EvaluationRow, FileError, SensitivityRow, map_text, read_csv, write_csv,
};
use kvtune::score::Objective;
use kvtune::search::{Genome, Objectives};
use kvtune::space::Space;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bench::Bench;
use crate::statistics::reference;

/// A job's files, as far as experiments read them.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    pub(crate) job: Job,
    pub(crate) space: Space,
    pub(crate) sensitivity: Vec<SensitivityRow>,
    /// Empty where the job was not searched yet.
    pub(crate) evaluations: Vec<EvaluationRow>,
    /// `isolated.csv`, where the job's search did not measure groups alone and an experiment did.
    alone: Vec<Alone>,
}

/// A map in which one group alone is quantized.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Alone {
    #[serde(with = "map_text")]
    map: PrecisionMap,
    kl: f64,
}

impl Folder {
    /// A folder in memory.
    #[cfg(test)]
    pub(crate) fn of(
        space: Space,
        sensitivity: Vec<SensitivityRow>,
        evaluations: Vec<EvaluationRow>,
    ) -> Self {
        let (path, job, alone) = ("table".into(), Job::default(), Vec::new());
        Self { path, job, space, sensitivity, evaluations, alone }
    }

    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let file = |name: &str| path.join(name);
        let job = Job::read(&file("job.yaml"), &Overrides::default()).context("not the folder of a job")?;
        let space = read_space(&file("space.yaml"))?;
        let sensitivity = read_csv(&file("sensitivity.csv"))?;
        let evaluations = read_if_there(&file("evaluations.csv"))?;
        let alone = read_if_there(&file("isolated.csv"))?;
        Ok(Self { path: path.to_owned(), job, space, sensitivity, evaluations, alone })
    }

    /// Measures each choice of each group alone, and keeps the figures in `isolated.csv`.
    pub(crate) fn measure_isolated(&mut self, bench: &mut Bench) -> anyhow::Result<()> {
        let rows = bench.alone("groups alone", &self.space)?;
        self.alone = rows.into_iter().map(|row| Alone { map: row.map, kl: row.kl }).collect();
        Ok(write_csv(&self.path.join("isolated.csv"), &self.alone)?)
    }

    /// Genomes that the job's searcher evaluated.
    pub(crate) fn searched(&self) -> impl Iterator<Item = (Genome, &EvaluationRow)> {
        let searched = self.evaluations.iter().filter(|row| row.kind == EvaluationKind::Search);
        searched.map(|row| (Genome::new(row.genome.clone()), row))
    }

    /// The box of hypervolumes, from the uniform configurations.
    pub(crate) fn reference(&self, objective: Objective) -> anyhow::Result<Objectives> {
        let rows = self.evaluations.iter().filter(|row| row.kind == EvaluationKind::Uniform);
        let uniform: Vec<Objectives> = rows.map(|row| objectives(row, objective)).collect();
        if uniform.is_empty() {
            bail!("`{}` holds no uniform configuration", self.path.join("evaluations.csv").display());
        }
        Ok(reference(uniform))
    }

    /// KL of each choice of each group alone, if all of them were measured.
    pub(crate) fn isolated(&self) -> Option<Vec<Vec<f64>>> {
        let kl = |map: PrecisionMap| {
            let evaluated = self.evaluations.iter().find(|row| row.map == map).map(|row| row.kl);
            evaluated.or_else(|| self.alone.iter().find(|row| row.map == map).map(|row| row.kl))
        };
        let of_group = |group: usize| -> Option<Vec<f64>> {
            let choices = 0..self.space.groups()[group].candidates.len();
            choices.map(|choice| self.space.alone(group, choice).and_then(kl)).collect()
        };
        (0..self.space.groups().len()).map(of_group).collect()
    }
}

fn read_if_there<R: DeserializeOwned>(path: &Path) -> Result<Vec<R>, FileError> {
    if path.exists() { read_csv(path) } else { Ok(Vec::new()) }
}

/// A row's point under an objective, whichever one the job searched for.
pub(crate) fn objectives(row: &EvaluationRow, objective: Objective) -> Objectives {
    let loss = match objective {
        Objective::Flips => row.flips,
        Objective::Kl => row.kl,
        Objective::Nll | Objective::Accuracy => row.nll,
    };
    Objectives { bits: row.equivalent_bits, loss }
}
