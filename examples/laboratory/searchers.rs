//! Every searcher against a table of all configurations: what each finds for so many evaluations.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::bail;
use kvtune::report::{write_csv, write_text};
use kvtune::score::Objective;
use kvtune::search::{
    Algorithm, Archive, Genome, LossTable, Objectives, Problem, Search, SearchOptions, Searcher, replay,
};
use serde::Serialize;

use crate::folder::{Folder, objectives};
use crate::proxy::{measured, output_errors, scaled};
use crate::statistics::{Mean, SEEDS};

const BUDGETS: [usize; 3] = [50, 100, 200];

/// What a searcher knows before its first question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// KL of every choice of every group alone; one evaluation each.
    Isolated,
    /// The same for nothing: what the table would be worth if it were free.
    IsolatedFree,
    /// KL of so many choices of a group alone, the rest scaled by e_o; one evaluation for each measured.
    Scaled(usize),
    /// e_o, which costs no evaluation.
    OutputErrors,
    /// The uniform configurations only.
    Uniform,
    /// Nothing.
    Nothing,
}

impl Start {
    fn name(self) -> &'static str {
        match self {
            Self::Isolated => "isolated-kl (charged)",
            Self::IsolatedFree => "isolated-kl (not charged)",
            Self::Scaled(1) => "isolated-kl of 1 choice a group, rest by e_o (charged)",
            Self::Scaled(_) => "isolated-kl of 2 choices a group, rest by e_o (charged)",
            Self::OutputErrors => "e_o",
            Self::Uniform => "uniform",
            Self::Nothing => "none",
        }
    }
}

fn contestants() -> Vec<(Algorithm, Start)> {
    use Start::{Isolated, IsolatedFree, Nothing, OutputErrors, Scaled, Uniform};
    let starts = [Isolated, Scaled(2), Scaled(1), OutputErrors, Uniform, Nothing, IsolatedFree];
    let tables = [Isolated, Scaled(2), Scaled(1), OutputErrors, IsolatedFree];
    let mut all: Vec<_> = starts.map(|start| (Algorithm::Moead, start)).to_vec();
    all.extend(starts.map(|start| (Algorithm::Nsga2, start)));
    all.extend(tables.map(|start| (Algorithm::Additive, start)));
    all.extend(
        [Algorithm::Random, Algorithm::Edges, Algorithm::KeyFirst].map(|algorithm| (algorithm, Nothing)),
    );
    all
}

/// One line of `searchers.csv`.
#[derive(Clone, Debug, Serialize)]
struct Row {
    objective: Objective,
    algorithm: Algorithm,
    seed_table: &'static str,
    evaluations: usize,
    /// Evaluations that went into the table.
    measurements: usize,
    /// Mean over the seeds of the hypervolume, as a share of the exact front's; empty where the table alone takes
    /// the budget.
    hypervolume: Option<f64>,
    /// Half the width of the 95 % interval of that mean.
    half_width_95: Option<f64>,
    /// The least of any seed.
    least: Option<f64>,
}

/// Replays all searchers on the table in `folder`; writes `searchers.csv` and `searchers.md` into `out`.
///
/// With `max_bits` only configurations within it count, as in a job with that limit.
pub(crate) fn run(folder: &Folder, max_bits: Option<f64>, out: &Path) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for objective in [Objective::Kl, Objective::Flips] {
        let arena = Arena::of(folder, objective, max_bits)?;
        for (algorithm, start) in contestants() {
            for evaluations in BUDGETS {
                rows.extend(arena.compete(algorithm, start, evaluations)?);
            }
        }
    }
    write_csv(&out.join("searchers.csv"), &rows)?;
    let text = markdown(&rows);
    write_text(&out.join("searchers.md"), &text)?;
    Ok(text)
}

/// A table of all configurations under one objective.
struct Arena {
    objective: Objective,
    problem: Problem,
    table: BTreeMap<Genome, Objectives>,
    reference: Objectives,
    exact: f64,
    errors: Vec<Vec<f64>>,
    isolated: Option<Vec<Vec<f64>>>,
}

impl Arena {
    fn of(folder: &Folder, objective: Objective, max_bits: Option<f64>) -> anyhow::Result<Self> {
        // All layers of a model that kvtune reads have one KV width, so any width gives the bits.
        let mut problem = Problem::of_space(&folder.space, &vec![1; folder.space.n_layers()])?;
        let table: BTreeMap<Genome, Objectives> =
            folder.searched().map(|(genome, row)| (genome, objectives(row, objective))).collect();
        if problem.size().exact != Some(table.len() as u64) {
            bail!(
                "`{}` has {} of the space's 10^{:.1} configurations; run the job with `algorithm: exhaustive` and \
                 no limit on bits",
                folder.path.join("evaluations.csv").display(),
                table.len(),
                problem.size().log10
            );
        }
        let mut reference = folder.reference(objective)?;
        if let Some(max) = max_bits {
            problem = problem.with_max_bits(max)?;
            reference.bits = reference.bits.min(1.1 * max);
        }
        let mut front = Archive::default();
        for (genome, &at) in table.iter().filter(|(genome, _)| problem.is_within_limits(genome)) {
            front.insert(genome, Objectives { bits: problem.bits().of(genome), ..at });
        }
        let exact = front.hypervolume(reference);
        let errors = output_errors(&folder.space, &folder.sensitivity, &folder.job);
        let isolated = folder.isolated();
        if isolated.is_none() {
            eprintln!(
                "no group was measured alone and there is no trace to do so on: rows with isolated-kl are left out"
            );
        }
        Ok(Self { objective, problem, table, reference, exact, errors, isolated })
    }

    /// Nothing where the start needs measurements that the folder lacks.
    fn compete(&self, algorithm: Algorithm, start: Start, evaluations: usize) -> anyhow::Result<Option<Row>> {
        let Some((table, measurements)) = self.start(start)? else { return Ok(None) };
        let left = evaluations.saturating_sub(measurements);
        let mut shares = Vec::new();
        if left > 0 {
            let uniform = !matches!(start, Start::Nothing);
            let options = SearchOptions { evaluations: left, table, uniform, ..SearchOptions::default() };
            for seed in 0..SEEDS {
                shares.push(self.share(algorithm, &SearchOptions { seed, ..options.clone() })?);
            }
        }
        let mean = (!shares.is_empty()).then(|| Mean::of(&shares));
        Ok(Some(Row {
            objective: self.objective,
            algorithm,
            seed_table: start.name(),
            evaluations,
            measurements,
            hypervolume: mean.map(|mean| mean.mean),
            half_width_95: mean.map(|mean| mean.half_width),
            least: shares.into_iter().reduce(f64::min),
        }))
    }

    /// The table of a start, and what it took to measure.
    fn start(&self, start: Start) -> anyhow::Result<Option<(Option<LossTable>, usize)>> {
        let (losses, charged) = match (start, &self.isolated) {
            (Start::Nothing | Start::Uniform, _) => return Ok(Some((None, 0))),
            (Start::OutputErrors, _) => (self.errors.clone(), 0),
            (Start::Isolated, Some(kl)) => (kl.clone(), kl.iter().map(Vec::len).sum()),
            (Start::IsolatedFree, Some(kl)) => (kl.clone(), 0),
            (Start::Scaled(points), Some(kl)) => {
                let of_group = |(errors, kl): (&Vec<f64>, &Vec<f64>)| scaled(errors, kl, points);
                let charged = kl.iter().map(|kl| measured(kl.len(), points).len()).sum();
                (self.errors.iter().zip(kl).map(of_group).collect(), charged)
            }
            (_, None) => return Ok(None),
        };
        Ok(Some((Some(LossTable::proxy(losses, &self.problem)?), charged)))
    }

    /// Hypervolume of one search, as a share of the exact front's.
    fn share(&self, algorithm: Algorithm, options: &SearchOptions) -> anyhow::Result<f64> {
        let mut search = Search::new(self.problem.clone(), algorithm, options)?;
        let open = replay(&mut search, &self.table);
        if let Some(genome) = open.first() {
            bail!("the table lacks `{genome}`");
        }
        Ok(search.archive().hypervolume(self.reference) / self.exact)
    }
}

fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    for objective in [Objective::Kl, Objective::Flips] {
        let budgets = BUDGETS.map(|budget| format!(" {budget} |")).concat();
        let _ = writeln!(text, "| {objective}: algorithm | start | measured |{budgets}");
        let _ = writeln!(text, "|---|---|---:|{}", "---:|".repeat(BUDGETS.len()));
        let mine: Vec<&Row> = rows.iter().filter(|row| row.objective == objective).collect();
        for contestant in mine.chunk_by(|a, b| (a.algorithm, a.seed_table) == (b.algorithm, b.seed_table)) {
            let Row { algorithm, seed_table, measurements, .. } = contestant[0];
            let cells: String = contestant.iter().map(|row| format!(" {} |", cell(row))).collect();
            let _ = writeln!(text, "| {algorithm} | {seed_table} | {measurements} |{cells}");
        }
        text.push('\n');
    }
    text
}

fn cell(row: &Row) -> String {
    match (row.hypervolume, row.half_width_95) {
        // Equal runs differ by rounding of their mean at most.
        (Some(mean), Some(half_width)) if half_width >= 5e-5 => format!("{mean:.4} ± {half_width:.4}"),
        (Some(mean), _) => format!("{mean:.4}"),
        (None, _) => String::from("–"),
    }
}

#[cfg(test)]
mod tests;
