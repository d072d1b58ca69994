//! Which cheap loss ranks maps as the answers to questions do? Random maps, teacher-forced losses on the job's trace
//! and the score that each map loses on tasks.

mod asked;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use kvtune::job::{AnswersSpec, Questions};
use kvtune::precision::PrecisionMap;
use kvtune::report::{map_text, write_csv, write_text};
use kvtune::sensitivity::correlation::spearman;
use kvtune::tasks::answers::AnswerSpec;
use serde::Serialize;

use crate::bench::{Bench, Measured};
use crate::folder::Folder;
use crate::spread::spread;
use asked::{Asking, Outcome};

/// Which maps answer what.
#[derive(Args)]
pub(crate) struct ObjectivesOptions {
    /// Random maps, spread over bits
    #[arg(long, default_value_t = 20)]
    maps: usize,
    /// Seed of the draw, and of what tasks generate
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// One task, as `kvtune eval --task` takes it; without it those of `--tasks`, or of the job's `answers`
    #[arg(long)]
    task: Option<String>,
    /// Its questions, a file or a folder, as published
    #[arg(long, requires = "task")]
    data: Option<PathBuf>,
    /// Where its worked examples are taken from
    #[arg(long, requires = "task")]
    train: Option<PathBuf>,
    /// Worked examples before each question
    #[arg(long, requires = "task")]
    shots: Option<usize>,
    /// Tokens of a generated prompt with its answer
    #[arg(long, requires = "task")]
    length: Option<usize>,
    /// Tokens of an answer at most
    #[arg(short = 'n', long, requires = "task")]
    max_new_tokens: Option<usize>,
    /// A file with the fields of a job's `answers`: several tasks
    #[arg(long, value_name = "FILE", conflicts_with = "task")]
    tasks: Option<PathBuf>,
    /// Questions of each task
    #[arg(long, default_value_t = 40)]
    items: usize,
    /// Questions times maps that go side by side, at most
    #[arg(long, default_value_t = 64)]
    lanes: usize,
}

impl ObjectivesOptions {
    /// The tasks that are asked.
    fn specs(&self, folder: &Folder) -> anyhow::Result<Vec<AnswerSpec>> {
        let specs = match (&self.task, &self.tasks) {
            (Some(task), _) => vec![Questions {
                task: task.clone(),
                data: self.data.clone(),
                train: self.train.clone(),
                template: None,
                shots: self.shots,
                length: self.length,
                max_new_tokens: self.max_new_tokens,
            }],
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
                let spec: AnswersSpec =
                    serde_yaml::from_str(&text).with_context(|| path.display().to_string())?;
                spec.tasks
            }
            (None, None) => folder.job.answers.clone().map(|answers| answers.tasks).unwrap_or_default(),
        };
        ensure!(!specs.is_empty(), "no task to ask, expected `--task`, `--tasks` or a job with `answers`");
        let specs: Vec<AnswerSpec> = specs.iter().map(|questions| self.spec(questions)).collect();
        specs.iter().try_for_each(|spec| spec.check().map(drop))?;
        Ok(specs)
    }

    fn spec(&self, questions: &Questions) -> AnswerSpec {
        let Questions { task, data, train, template, shots, length, max_new_tokens } = questions.clone();
        let (items, seed) = (Some(self.items), self.seed);
        AnswerSpec { task, data, train, template, shots, items, length, max_new_tokens, seed }
    }
}

/// One line of `objectives.csv`: a map on a task.
#[derive(Clone, Debug, Serialize)]
struct Row {
    task: String,
    #[serde(with = "map_text")]
    map: PrecisionMap,
    equivalent_bits: f64,
    /// The losses are on the trace, the same for each task.
    flips: f64,
    kl: f64,
    nll: f64,
    items: usize,
    /// Full precision's score on the items.
    full_score: f64,
    /// The map's.
    score: f64,
    /// Score that the map loses.
    lost: f64,
    /// Share of items whose answer is another text than full precision's.
    changed: f64,
}

impl Row {
    fn new(task: &str, measured: &Measured, outcome: Outcome) -> Self {
        let Outcome { items, full_score, score, changed } = outcome;
        Self {
            task: task.to_owned(),
            map: measured.map.clone(),
            equivalent_bits: measured.equivalent_bits,
            flips: measured.flips,
            kl: measured.kl,
            nll: measured.nll,
            items,
            full_score,
            score,
            lost: full_score - score,
            changed,
        }
    }
}

/// Measures losses and answers of random maps; writes `objectives.csv` and `objectives.md` into `out`.
pub(crate) fn run(
    folder: &Folder,
    mut bench: Bench,
    options: &ObjectivesOptions,
    threads: usize,
    out: &Path,
) -> anyhow::Result<String> {
    ensure!(options.maps > 1, "`--maps` is {}, expected at least 2 to rank", options.maps);
    let specs = options.specs(folder)?;
    let maps = spread(&folder.space, options.maps, options.seed);
    let measured = bench.measure("losses", &maps)?;
    let inputs = bench.inputs().to_owned();
    // Its model is loaded again for the answers.
    drop(bench);
    let asking = Asking { folder, maps: &maps, inputs: &inputs, lanes: options.lanes, threads, out };
    let mut rows = Vec::new();
    for spec in &specs {
        let name = name(spec);
        let outcomes = asking.outcomes(spec)?;
        rows.extend(measured.iter().zip(outcomes).map(|(map, outcome)| Row::new(&name, map, outcome)));
        // What is there is worth having, should a later task fail.
        write_csv(&out.join("objectives.csv"), &rows)?;
    }
    let text = summary(&rows);
    write_text(&out.join("objectives.md"), &text)?;
    Ok(text)
}

/// A task, and its length or the name of its data, by which one task is told apart from itself.
fn name(spec: &AnswerSpec) -> String {
    let data = spec.data.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    match spec.length.map(|length| length.to_string()).or(data) {
        Some(which) => format!("{} {which}", spec.task),
        None => spec.task.clone(),
    }
}

/// A column of a row.
type Column = fn(&Row) -> f64;

/// What ranks maps: each loss, and fewer bits for comparison.
const LOSSES: [(&str, Column); 4] = [
    ("flips", |row| row.flips),
    ("kl", |row| row.kl),
    ("nll", |row| row.nll),
    ("bits, fewest worst", |row| -row.equivalent_bits),
];

fn summary(rows: &[Row]) -> String {
    let mut text = String::from(
        "| task | items | score at full precision | answers changed, mean over maps | ranked by | Spearman with score \
         lost | Spearman with answers changed |\n|---|---:|---:|---:|---|---:|---:|\n",
    );
    for of_task in rows.chunk_by(|a, b| a.task == b.task) {
        let column = |of: Column| of_task.iter().map(of).collect::<Vec<_>>();
        let (lost, changed) = (column(|row| row.lost), column(|row| row.changed));
        let mean = changed.iter().sum::<f64>() / changed.len() as f64;
        let Row { task, items, full_score, .. } = &of_task[0];
        for (loss, of) in LOSSES {
            let rank =
                |y: &[f64]| spearman(&column(of), y).map_or(String::from("–"), |rho| format!("{rho:.3}"));
            let _ = writeln!(
                text,
                "| {task} | {items} | {full_score:.3} | {mean:.3} | {loss} | {} | {} |",
                rank(&lost),
                rank(&changed)
            );
        }
    }
    let maps = rows.chunk_by(|a, b| a.task == b.task).next().map_or(0, <[Row]>::len);
    let _ = writeln!(
        text,
        "\n{maps} random maps, spread over bits; losses on the search split of the job's trace."
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_ranks_each_loss_against_score_and_answers() {
        let row = |task: &str, bits: f64, loss: f64, lost: f64, changed: f64| Row {
            task: task.into(),
            map: PrecisionMap::new(Vec::new()),
            equivalent_bits: bits,
            flips: loss,
            kl: -loss,
            nll: 0.0,
            items: 10,
            full_score: 0.5,
            score: 0.5 - lost,
            lost,
            changed,
        };
        let text = summary(&[
            row("a", 8.0, 0.1, 0.0, 0.0),
            row("a", 4.0, 0.2, 0.1, 0.2),
            row("b", 8.0, 0.1, 0.2, 0.1),
            row("b", 4.0, 0.2, 0.0, 0.1),
        ]);
        for line in [
            "| a | 10 | 0.500 | 0.100 | flips | 1.000 | 1.000 |\n",
            "| a | 10 | 0.500 | 0.100 | kl | -1.000 | -1.000 |\n",
            "| a | 10 | 0.500 | 0.100 | nll | – | – |\n",
            "| a | 10 | 0.500 | 0.100 | bits, fewest worst | 1.000 | 1.000 |\n",
            "| b | 10 | 0.500 | 0.100 | flips | -1.000 | – |\n",
        ] {
            assert!(text.contains(line), "{line} is missing from {text}");
        }
        assert!(text.contains("\n2 random maps"), "{text}");
    }
}
