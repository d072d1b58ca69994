//! What pruning, grouping and a seeded start are worth, by searches with true evaluations on one budget.

use std::fmt::Write as _;
use std::path::Path;

use kvtune::report::{write_csv, write_text};
use kvtune::score::Objective;
use kvtune::search::{
    Algorithm, Archive, Genome, LossTable, Objectives, Problem, Search, SearchOptions, Searcher,
};
use kvtune::space::Space;
use serde::Serialize;

use crate::bench::Bench;
use crate::folder::Folder;
use crate::proxy::output_errors;
use crate::spaces::Named;

/// What the searches have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) objective: Objective,
    pub(crate) evaluations: usize,
    pub(crate) seeds: u64,
}

/// What a search starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Nothing,
    /// The uniform configurations and the additive front over e_o, which costs no evaluation.
    OutputErrors,
    /// The same over isolated KL, its measurements charged.
    Isolated,
}

impl Start {
    const ALL: [Self; 3] = [Self::Nothing, Self::OutputErrors, Self::Isolated];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::OutputErrors => "e_o",
            Self::Isolated => "isolated-kl (charged)",
        }
    }
}

/// One line of the CSV: one search.
#[derive(Clone, Debug, Serialize)]
struct Row {
    space: &'static str,
    groups: usize,
    log10_size: f64,
    seed_table: &'static str,
    evaluations: usize,
    /// Evaluations that went into the table.
    measurements: usize,
    seed: u64,
    front: usize,
    /// As a share of that of the front of all searches together; empty where the table alone takes the budget.
    hypervolume: Option<f64>,
}

/// Searches each space from each start; writes `<name>.csv` and `<name>.md` into `out`.
pub(crate) fn run(
    folder: &Folder,
    bench: &mut Bench,
    (name, spaces): (&str, &[Named]),
    plan: Plan,
    out: &Path,
) -> anyhow::Result<String> {
    let reference = bench.reference(&folder.space, plan.objective)?;
    let mut laboratory = Laboratory { folder, bench, plan, union: Archive::default() };
    let mut runs = Vec::new();
    for (space_name, space) in spaces {
        for start in Start::ALL {
            runs.extend(laboratory.searches(space_name, space, start)?);
        }
    }
    let best = laboratory.union.hypervolume(reference);
    let finish = |(row, front): (Row, Option<Archive>)| {
        let hypervolume = front.map(|front| front.hypervolume(reference) / best);
        Row { hypervolume, ..row }
    };
    let rows: Vec<Row> = runs.into_iter().map(finish).collect();
    write_csv(&out.join(format!("{name}.csv")), &rows)?;
    let text = summary(&rows);
    write_text(&out.join(format!("{name}.md")), &text)?;
    Ok(text)
}

struct Laboratory<'a> {
    folder: &'a Folder,
    bench: &'a mut Bench,
    plan: Plan,
    /// All that any search found.
    union: Archive,
}

impl Laboratory<'_> {
    /// One search a seed, each with its front.
    fn searches(
        &mut self,
        name: &'static str,
        space: &Space,
        start: Start,
    ) -> anyhow::Result<Vec<(Row, Option<Archive>)>> {
        let problem = Problem::of_space(space, &vec![1; space.n_layers()])?;
        let size: usize = space.groups().iter().map(|group| group.candidates.len()).sum();
        let measurements = if start == Start::Isolated { size } else { 0 };
        let left = self.plan.evaluations.saturating_sub(measurements);
        let row = Row {
            space: name,
            groups: space.groups().len(),
            log10_size: space.size().log10,
            seed_table: start.name(),
            evaluations: self.plan.evaluations,
            measurements,
            seed: 0,
            front: 0,
            hypervolume: None,
        };
        if left == 0 {
            return Ok(vec![(row, None)]);
        }
        let table = self.table(space, &problem, start)?;
        let uniform = table.is_some();
        let mut runs = Vec::new();
        for seed in 0..self.plan.seeds {
            let table = table.clone();
            let options = SearchOptions { evaluations: left, seed, table, uniform, ..Default::default() };
            let search = Search::new(problem.clone(), Algorithm::Moead, &options)?;
            let front = self.drive(&format!("{name}, {}, seed {seed}", start.name()), space, search)?;
            runs.push((Row { seed, front: front.len(), ..row.clone() }, Some(front)));
        }
        Ok(runs)
    }

    fn table(&mut self, space: &Space, problem: &Problem, start: Start) -> anyhow::Result<Option<LossTable>> {
        let losses = match start {
            Start::Nothing => return Ok(None),
            Start::OutputErrors => output_errors(space, &self.folder.sensitivity, &self.folder.job),
            Start::Isolated => self.bench.isolated("groups alone", space)?,
        };
        Ok(Some(LossTable::proxy(losses, problem)?))
    }

    fn drive(&mut self, what: &str, space: &Space, mut search: Search) -> anyhow::Result<Archive> {
        loop {
            let batch = search.ask();
            if batch.is_empty() {
                return Ok(search.archive().clone());
            }
            let rows = self.bench.genomes(what, space, &batch)?;
            let at = rows.iter().map(|row| row.objectives(self.plan.objective));
            let told: Vec<(Genome, Objectives)> = batch.into_iter().zip(at).collect();
            for (genome, at) in &told {
                self.union.insert(genome, *at);
            }
            search.tell(&told);
        }
    }
}

fn summary(rows: &[Row]) -> String {
    let mut text =
        String::from("| space | groups | maps | start | measured | hypervolume, mean over seeds | least |\n");
    text.push_str("|---|---:|---:|---|---:|---:|---:|\n");
    for runs in rows.chunk_by(|a, b| (a.space, a.seed_table) == (b.space, b.seed_table)) {
        let Row { space, groups, log10_size, seed_table, measurements, .. } = runs[0];
        let shares: Vec<f64> = runs.iter().filter_map(|row| row.hypervolume).collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let figures = match shares.into_iter().reduce(f64::min) {
            Some(least) => format!("{mean:.4} | {least:.4}"),
            None => String::from("– | –"),
        };
        let _ = writeln!(
            text,
            "| {space} | {groups} | 10^{log10_size:.1} | {seed_table} | {measurements} | {figures} |"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_averages_the_seeds_of_one_start() {
        let row = |seed_table, seed, hypervolume| Row {
            space: "both",
            groups: 2,
            log10_size: 1.0,
            seed_table,
            evaluations: 50,
            measurements: 0,
            seed,
            front: 3,
            hypervolume,
        };
        let text = summary(&[row("e_o", 0, Some(0.9)), row("e_o", 1, Some(0.8)), row("none", 0, None)]);
        assert!(text.contains("| both | 2 | 10^1.0 | e_o | 0 | 0.8500 | 0.8000 |\n"), "{text}");
        assert!(text.ends_with("| both | 2 | 10^1.0 | none | 0 | – | – |\n"), "{text}");
    }
}
