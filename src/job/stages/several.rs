//! Several tasks, each an objective of its own: what every map loses in each, and the front over all of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::StageError;
use super::ledger::start_over;
use super::session::Session;
use crate::job::Combine;
use crate::report::{EvaluationRow, TaskLossRow, read_csv, write_csv};
use crate::score::Objective;
use crate::space::{pareto_indices, pareto_indices_over};

/// Whether the job's tasks are objectives of their own.
pub(super) fn are_objectives(session: &Session<'_>) -> bool {
    let answers = session.job.answers.as_ref();
    session.job.search.objective == Objective::Accuracy
        && answers.is_some_and(|spec| spec.combine == Combine::Each)
}

/// What maps lose in each task, in the job's order; by the map as text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TaskLosses(BTreeMap<String, Vec<f64>>);

impl TaskLosses {
    /// Those that the search wrote; none where tasks are no objectives of their own.
    pub(super) fn read(session: &Session<'_>) -> Result<Self, StageError> {
        let (mut losses, path) = (Self::default(), path(session));
        if are_objectives(session) {
            let rows: Vec<TaskLossRow> = read_csv(&path).map_err(|error| start_over(&path, &error))?;
            rows.into_iter().for_each(|row| losses.0.entry(row.map.to_string()).or_default().push(row.loss));
        }
        Ok(losses)
    }

    pub(super) fn insert(&mut self, row: &EvaluationRow, losses: Vec<f64>) {
        self.0.insert(row.map.to_string(), losses);
    }

    /// What a map loses in one task.
    pub(super) fn of(&self, row: &EvaluationRow, task: usize) -> Option<f64> {
        self.0.get(&row.map.to_string())?.get(task).copied()
    }

    /// Writes those of some maps, task by task.
    pub(super) fn write<'r>(
        &self,
        session: &Session<'_>,
        rows: impl Iterator<Item = &'r EvaluationRow>,
    ) -> Result<PathBuf, StageError> {
        let tasks = session.job.answers.iter().flat_map(|spec| &spec.tasks);
        let names: Vec<&str> = tasks.map(|questions| questions.task.as_str()).collect();
        let of_map = |row: &EvaluationRow| -> Vec<TaskLossRow> {
            let losses = self.0.get(&row.map.to_string()).into_iter().flatten();
            let of_task = |(task, &loss): (&&str, &f64)| TaskLossRow {
                map: row.map.clone(),
                equivalent_bits: row.equivalent_bits,
                task: (*task).to_owned(),
                loss,
            };
            names.iter().zip(losses).map(of_task).collect()
        };
        let path = path(session);
        write_csv(&path, &rows.flat_map(of_map).collect::<Vec<_>>())?;
        Ok(path)
    }

    /// The maps that no other dominates, fewest bits first: in bits and loss, or in bits and every task's loss.
    pub(super) fn front(&self, rows: Vec<EvaluationRow>) -> Vec<EvaluationRow> {
        let of = |row: &EvaluationRow| self.0.get(&row.map.to_string());
        let indices = match rows.iter().map(of).collect::<Option<Vec<_>>>() {
            Some(losses) if !self.0.is_empty() => {
                let bits = rows.iter().map(|row| row.equivalent_bits);
                let points: Vec<Vec<f64>> =
                    bits.zip(losses).map(|(bits, losses)| [&[bits], losses.as_slice()].concat()).collect();
                pareto_indices_over(&points)
            }
            _ => {
                let point = |row: &EvaluationRow| (row.equivalent_bits, row.loss);
                pareto_indices(&rows.iter().map(point).collect::<Vec<_>>())
            }
        };
        let mut front: Vec<EvaluationRow> = indices.into_iter().map(|index| rows[index].clone()).collect();
        front.sort_by(|a, b| a.equivalent_bits.total_cmp(&b.equivalent_bits));
        front
    }
}

fn path(session: &Session<'_>) -> PathBuf {
    session.file("task-losses.csv")
}

/// A budget in as many parts as there are searches, the first ones greater by one where it does not divide.
pub(super) fn shares(budget: usize, searches: usize) -> Vec<usize> {
    (0..searches).map(|search| budget / searches + usize::from(search < budget % searches)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(map: &str, bits: f64, loss: f64) -> EvaluationRow {
        EvaluationRow { equivalent_bits: bits, loss, ..EvaluationRow::made(map) }
    }

    #[test]
    fn a_map_that_is_best_in_one_task_stays_on_the_front() {
        let rows = vec![
            row("0-1 KV8", 8.0, 0.1),
            row("0-1 KV4", 4.0, 0.4),
            row("0-1 KV6", 6.0, 0.45),
            row("0-1 KV5", 5.0, 0.5),
        ];
        let maps = |front: Vec<EvaluationRow>| -> Vec<f64> {
            front.into_iter().map(|row| row.equivalent_bits).collect()
        };
        assert_eq!(maps(TaskLosses::default().front(rows.clone())), [4.0, 8.0]);
        let mut losses = TaskLosses::default();
        for (row, of_tasks) in rows.iter().zip([[0.1, 0.1], [0.2, 0.4], [0.1, 0.45], [0.2, 0.5]]) {
            losses.insert(row, of_tasks.to_vec());
        }
        // KV6 loses more in the worse task than KV4, and less in the other; KV5 is no better than KV4 in either.
        assert_eq!(maps(losses.front(rows)), [4.0, 6.0, 8.0]);
    }

    #[test]
    fn a_budget_is_shared_to_the_last_evaluation() {
        assert_eq!(shares(11, 3), [4, 4, 3]);
        assert_eq!(shares(2, 3), [1, 1, 0]);
    }
}
