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
mod tests {
    use kvtune::precision::PrecisionPair;
    use kvtune::report::{EvaluationKind, EvaluationRow, SensitivityRow};
    use kvtune::space::Space;

    use super::*;

    const BITS: [f64; 3] = [2.0, 4.0, 8.0];
    /// KL of each choice of each group alone; losses add up.
    const KL: [[f64; 3]; 2] = [[9.0, 4.0, 0.0], [3.0, 1.0, 0.0]];

    fn row(space: &Space, kind: EvaluationKind, genome: &[usize], kl: f64) -> EvaluationRow {
        let alone = |genome: &[usize]| space.alone(genome[0], genome[1]).expect("a candidate");
        let whole = |genome: &[usize]| space.map(&Genome::new(genome.to_vec())).expect("a genome");
        let map = if kind == EvaluationKind::Isolated { alone(genome) } else { whole(genome) };
        let bits = genome.iter().map(|&choice| BITS[choice]).sum::<f64>() / 2.0;
        let genome = if kind == EvaluationKind::Search { genome.to_vec() } else { Vec::new() };
        EvaluationRow {
            index: 0,
            key: String::new(),
            kind,
            genome,
            map,
            equivalent_bits: bits,
            storage_bits: bits,
            cache_bytes: 0,
            flips: kl / 20.0,
            kl,
            nll: kl,
            loss: kl,
        }
    }

    fn error(layer: usize, pair: PrecisionPair) -> SensitivityRow {
        SensitivityRow {
            layer,
            pair,
            equivalent_bits: pair.mean_bits(),
            e_k_l1: 0.0,
            e_k_elementwise: 0.0,
            e_v_l1: 0.0,
            e_v_elementwise: 0.0,
            e_a: 0.0,
            e_o_l1: 1.0 / pair.mean_bits(),
            e_o_elementwise: 0.0,
        }
    }

    fn folder() -> Folder {
        let text = "
n_layers: 2
pairs: [KV8, KV4, KV2]
groups: [{layers: [0], candidates: [KV2, KV4, KV8]}, {layers: [1], candidates: [KV2, KV4, KV8]}]
";
        let space: Space = serde_yaml::from_str(text).expect("a space");
        let mut evaluations = Vec::new();
        for (a, b) in (0..3).flat_map(|a| (0..3).map(move |b| (a, b))) {
            let kinds = [EvaluationKind::Search, EvaluationKind::Uniform];
            for kind in kinds.into_iter().take(if a == b { 2 } else { 1 }) {
                evaluations.push(row(&space, kind, &[a, b], KL[0][a] + KL[1][b]));
            }
        }
        for (group, choice) in (0..2).flat_map(|group| (0..3).map(move |choice| (group, choice))) {
            evaluations.push(row(&space, EvaluationKind::Isolated, &[group, choice], KL[group][choice]));
        }
        let pairs = || space.pairs().iter().copied();
        let sensitivity = (0..2).flat_map(|layer| pairs().map(move |pair| error(layer, pair))).collect();
        Folder::of(space, sensitivity, evaluations)
    }

    fn arena(folder: &Folder, max_bits: Option<f64>) -> Arena {
        Arena::of(folder, Objective::Kl, max_bits).expect("a whole table")
    }

    #[test]
    fn the_exact_front_is_the_one_done_by_hand() {
        // Front (2, 12) (3, 7) (4, 5) (5, 3) (6, 1) (8, 0) in the box that ends at (8.8, 13.2).
        let exact = 6.8 * 1.2 + 5.8 * 5.0 + 4.8 * 2.0 + 3.8 * 2.0 + 2.8 * 2.0 + 0.8;
        assert!((arena(&folder(), None).exact - exact).abs() < 1e-9);
        // Up to 4 bits the box ends at (4.4, 13.2).
        let exact = 2.4 * 1.2 + 1.4 * 5.0 + 0.4 * 2.0;
        assert!((arena(&folder(), Some(4.0)).exact - exact).abs() < 1e-9);
    }

    #[test]
    fn measurements_are_charged() {
        let arena = arena(&folder(), None);
        let compete = |start, evaluations| {
            arena.compete(Algorithm::Additive, start, evaluations).expect("runs").expect("a row")
        };
        // 6 measurements leave 6 evaluations of 12, enough for the 6 points of the front; of 6 they leave none.
        let row = compete(Start::Isolated, 12);
        assert_eq!(row.measurements, 6);
        assert!(row.hypervolume.is_some_and(|share| (share - 1.0).abs() < 1e-12));
        assert_eq!(compete(Start::Isolated, 6).hypervolume, None);
        assert_eq!(compete(Start::Scaled(2), 12).measurements, 4);
        assert_eq!(compete(Start::Scaled(1), 12).measurements, 2);
        // The same 6 points of 7 evaluations, when 1 is left, are one point.
        assert!(compete(Start::Isolated, 7).hypervolume.is_some_and(|share| share < 0.9));
    }

    #[test]
    fn a_table_with_a_hole_is_refused() {
        let mut folder = folder();
        folder.evaluations.remove(2);
        let error = Arena::of(&folder, Objective::Kl, None).err().expect("refused").to_string();
        assert!(error.contains("has 8 of the space's 10^1.0 configurations"), "{error}");
    }
}
