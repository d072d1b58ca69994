//! What a job left in its folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kvtune::job::stages::read_space;
use kvtune::job::{Job, Overrides};
use kvtune::precision::PrecisionMap;
use kvtune::report::{EvaluationKind, EvaluationRow, SensitivityRow, read_csv};
use kvtune::score::Objective;
use kvtune::search::{Genome, Objectives};
use kvtune::space::Space;

use crate::statistics::reference;

/// A job's files, as far as experiments read them.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    pub(crate) job: Job,
    pub(crate) space: Space,
    pub(crate) sensitivity: Vec<SensitivityRow>,
    /// Empty where the job was not searched yet.
    pub(crate) evaluations: Vec<EvaluationRow>,
}

impl Folder {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let file = |name: &str| path.join(name);
        let job = Job::read(&file("job.yaml"), &Overrides::default()).context("not the folder of a job")?;
        let space = read_space(&file("space.yaml"))?;
        let sensitivity = read_csv(&file("sensitivity.csv"))?;
        let evaluations = file("evaluations.csv");
        let evaluations = if evaluations.exists() { read_csv(&evaluations)? } else { Vec::new() };
        Ok(Self { path: path.to_owned(), job, space, sensitivity, evaluations })
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

    /// KL of each choice of each group alone, if the job measured all of them.
    pub(crate) fn isolated(&self) -> Option<Vec<Vec<f64>>> {
        let kl = |map: PrecisionMap| self.evaluations.iter().find(|row| row.map == map).map(|row| row.kl);
        let of_group = |group: usize| -> Option<Vec<f64>> {
            let choices = 0..self.space.groups()[group].candidates.len();
            choices.map(|choice| self.space.alone(group, choice).and_then(kl)).collect()
        };
        (0..self.space.groups().len()).map(of_group).collect()
    }
}

/// A row's point under an objective, whichever one the job searched for.
pub(crate) fn objectives(row: &EvaluationRow, objective: Objective) -> Objectives {
    let loss = match objective {
        Objective::Flips => row.flips,
        Objective::Kl => row.kl,
        Objective::Nll => row.nll,
    };
    Objectives { bits: row.equivalent_bits, loss }
}
