//! Several tasks, each an objective of its own: what every map loses in each, and the front over all of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::session::Session;
use super::{StageError, TASK_LOSSES};
use crate::job::Questions;
use crate::precision::PrecisionMap;
use crate::report::{EvaluationRow, FileError, TaskLossRow, read_csv, write_csv};
use crate::search::Objectives;
use crate::space::{pareto_indices, pareto_indices_over};

/// Which loss a search minimizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// That of the row.
    Loss,
    /// That in one task.
    Task(usize),
}

/// What is searched for in turn: the loss of each task, and last the worst of them, so that maps between the ends of the
/// front are found as well. **Ours.**
///
/// A search whose maps are fixed beforehand needs none of this: it would ask for the same ones again.
pub(super) fn views(tasks: &[Questions]) -> Vec<View> {
    (0..tasks.len()).map(View::Task).chain([View::Loss]).collect()
}

/// What maps lose in each task, in the job's order; by the map as text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TaskLosses(BTreeMap<String, Vec<f64>>);

impl TaskLosses {
    /// Those that the search wrote; none where tasks are no objectives of their own.
    pub(super) fn read(session: &Session<'_>) -> Result<Option<Self>, StageError> {
        let Some(tasks) = session.job.each_task() else { return Ok(None) };
        let path = session.file(TASK_LOSSES);
        let rows: Vec<TaskLossRow> = read_csv(&path)?;
        let mut losses = Self::default();
        for TaskLossRow { map, index, loss, .. } in rows {
            let of_map = losses.0.entry(map.to_string()).or_default();
            if index != of_map.len() || index >= tasks.len() {
                return Err(incomplete(session, &map));
            }
            of_map.push(loss);
        }
        Ok(Some(losses))
    }

    pub(super) fn insert(&mut self, row: &EvaluationRow, losses: Vec<f64>) {
        self.0.insert(row.map.to_string(), losses);
    }

    fn of(&self, map: &PrecisionMap) -> &[f64] {
        self.0.get(&map.to_string()).map_or(&[], Vec::as_slice)
    }

    /// Writes those of some maps, task by task.
    pub(super) fn write<'r>(
        &self,
        session: &Session<'_>,
        rows: impl Iterator<Item = &'r EvaluationRow>,
    ) -> Result<PathBuf, FileError> {
        let tasks = session.job.each_task().unwrap_or_default();
        let of_map = |row: &'r EvaluationRow| {
            let losses = tasks.iter().zip(self.of(&row.map)).enumerate();
            losses.map(|(index, (questions, &loss))| TaskLossRow {
                map: row.map.clone(),
                equivalent_bits: row.equivalent_bits,
                index,
                task: questions.task.clone(),
                loss,
            })
        };
        let path = session.file(TASK_LOSSES);
        write_csv(&path, &rows.flat_map(of_map).collect::<Vec<_>>())?;
        Ok(path)
    }
}

/// What a search is told of a map.
pub(super) fn objectives(row: &EvaluationRow, tasks: Option<&TaskLosses>, view: View) -> Objectives {
    let loss = match (view, tasks) {
        (View::Task(task), Some(tasks)) => tasks.of(&row.map).get(task).copied(),
        _ => Some(row.loss),
    };
    Objectives { bits: row.equivalent_bits, loss: loss.expect("an evaluated map is marked in every task") }
}

/// The maps that no other dominates, fewest bits first: in bits and loss, or in bits and every task's loss.
///
/// # Errors
/// A map whose losses are not there.
pub(super) fn front(
    session: &Session<'_>,
    rows: &[EvaluationRow],
    tasks: Option<&TaskLosses>,
) -> Result<Vec<EvaluationRow>, StageError> {
    let count = session.job.each_task().map_or(0, <[_]>::len);
    if let Some(row) = rows.iter().find(|row| tasks.is_some_and(|tasks| tasks.of(&row.map).len() != count)) {
        return Err(incomplete(session, &row.map));
    }
    Ok(undominated(rows, tasks))
}

fn undominated(rows: &[EvaluationRow], tasks: Option<&TaskLosses>) -> Vec<EvaluationRow> {
    let indices = match tasks {
        Some(tasks) => {
            let point = |row: &EvaluationRow| [&[row.equivalent_bits], tasks.of(&row.map)].concat();
            pareto_indices_over(&rows.iter().map(point).collect::<Vec<_>>())
        }
        None => {
            let point = |row: &EvaluationRow| (row.equivalent_bits, row.loss);
            pareto_indices(&rows.iter().map(point).collect::<Vec<_>>())
        }
    };
    let mut front: Vec<EvaluationRow> = indices.into_iter().map(|index| rows[index].clone()).collect();
    front.sort_by(|a, b| a.equivalent_bits.total_cmp(&b.equivalent_bits));
    front
}

fn incomplete(session: &Session<'_>, map: &PrecisionMap) -> StageError {
    let path = session.file(TASK_LOSSES);
    StageError::Unmet {
        message: format!(
            "`{}` does not have one loss a task, in the job's order, of `{map}`",
            path.display()
        ),
        hint: Some(format!(
            "remove `{}`, and `kvtune calibrate` writes it anew from the kept answers",
            path.display()
        )),
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "losses are passed on as they are")]
mod tests {
    use super::*;

    fn row(map: &str, bits: f64, loss: f64) -> EvaluationRow {
        EvaluationRow { equivalent_bits: bits, loss, ..EvaluationRow::made(map) }
    }

    #[test]
    fn a_map_that_is_best_in_one_task_stays_on_the_front() {
        let rows = [
            row("0-1 KV8", 8.0, 0.1),
            row("0-1 KV4", 4.0, 0.4),
            row("0-1 KV6", 6.0, 0.45),
            row("0-1 KV5", 5.0, 0.5),
        ];
        let bits = |tasks: Option<&TaskLosses>| -> Vec<f64> {
            undominated(&rows, tasks).into_iter().map(|row| row.equivalent_bits).collect()
        };
        assert_eq!(bits(None), [4.0, 8.0]);
        let mut losses = TaskLosses::default();
        for (row, of_tasks) in rows.iter().zip([[0.1, 0.1], [0.2, 0.4], [0.1, 0.45], [0.2, 0.5]]) {
            losses.insert(row, of_tasks.to_vec());
        }
        // KV6 loses more in the worse task than KV4, and less in the other; KV5 is no better than KV4 in either.
        assert_eq!(bits(Some(&losses)), [4.0, 6.0, 8.0]);
        let loss = |view| objectives(&rows[1], Some(&losses), view).loss;
        assert_eq!([View::Loss, View::Task(0), View::Task(1)].map(loss), [0.4, 0.2, 0.4]);
    }
}
