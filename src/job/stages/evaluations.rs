//! Maps scored on the search split, each once: the memo behind `evaluations.csv`.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::StageError;
use super::costs::Costs;
use super::exam::Exam;
use super::ledger::{hex, numerics, start_over};
use super::session::Session;
use super::several::TaskLosses;
use crate::model::DecoderBackend;
use crate::precision::PrecisionMap;
use crate::report::{EvaluationKind, EvaluationRow, read_csv, write_csv};
use crate::score::{Objective, Scorer, Tally};

/// Maps that are scored between two writes of the file.
const BETWEEN_WRITES: usize = super::exam::AT_ONCE;

/// Scores maps and writes down what they are worth; what an earlier run wrote is not scored again.
pub(super) struct Evaluations<'a, B: DecoderBackend> {
    session: &'a Session<'a>,
    scorer: Scorer<'a, B>,
    /// Where accuracy is what counts.
    exam: Option<Exam<'a, B>>,
    costs: Costs,
    /// Hash of everything in a row's key but its map.
    inputs: String,
    path: PathBuf,
    known: BTreeMap<String, EvaluationRow>,
    rows: Vec<EvaluationRow>,
    /// Why, and by which key, each of them was asked for.
    asked: HashSet<(EvaluationKind, String)>,
    /// Where every task is an objective of its own.
    tasks: Option<TaskLosses>,
}

impl<'a, B: DecoderBackend> Evaluations<'a, B> {
    pub(super) fn open(
        session: &'a Session<'a>,
        scorer: Scorer<'a, B>,
        exam: Option<Exam<'a, B>>,
        costs: Costs,
        trace_key: &str,
    ) -> Result<Self, StageError> {
        let path = session.file("evaluations.csv");
        let rows: Vec<EvaluationRow> = match path.exists() {
            true => read_csv(&path).map_err(|error| start_over(&path, &error))?,
            false => Vec::new(),
        };
        let known = rows.into_iter().map(|row| (row.key.clone(), row)).collect();
        let scheme = session.scheme_text();
        let objective = session.job.search.objective;
        let mut inputs =
            format!("{}\0{}\0{trace_key}\0search\0{objective}\0{}", session.fingerprint, scheme, numerics());
        if let Some(exam) = &exam {
            inputs += &exam.content_key();
        }
        let tasks = session.job.each_task().map(|_| TaskLosses::default());
        Ok(Self {
            session,
            scorer,
            exam,
            costs,
            inputs,
            path,
            known,
            rows: Vec::new(),
            asked: HashSet::new(),
            tasks,
        })
    }

    fn key(&self, map: &PrecisionMap) -> String {
        hex(&Sha256::digest(format!("{}\0{map}", self.inputs)))
    }

    /// Scores maps in order, a genome with each where it has one; the file grows as they are done.
    ///
    /// # Errors
    /// [`StageError::Interrupted`] after what was scored is written.
    pub(super) fn evaluate(
        &mut self,
        kind: EvaluationKind,
        asked: &[(Vec<usize>, PrecisionMap)],
    ) -> Result<Vec<EvaluationRow>, StageError> {
        let mut asked_rows = Vec::new();
        for chunk in asked.chunks(BETWEEN_WRITES) {
            let known = |map: &PrecisionMap| self.known.contains_key(&self.key(map));
            let open: Vec<PrecisionMap> =
                chunk.iter().map(|(_, map)| map).filter(|map| !known(map)).cloned().collect();
            let cached = chunk.len() - open.len();
            self.session.observer().advance((cached * self.scorer.documents().len()) as u64);
            let scored = match open.is_empty() {
                true => Vec::new(),
                false => self.scorer.evaluate(&open, self.session.observer())?,
            };
            for (map, tallies) in open.iter().zip(&scored) {
                let row = self.row(map, &Tally::pooled(tallies));
                self.known.insert(row.key.clone(), row);
            }
            self.mark(chunk)?;
            for (genome, map) in chunk {
                let row = self.known.get(&self.key(map)).expect("known from before, or scored above").clone();
                let row = EvaluationRow { index: self.rows.len(), kind, genome: genome.clone(), ..row };
                asked_rows.push(row.clone());
                // Searches that share what is known ask for the same maps.
                if self.asked.insert((kind, row.key.clone())) {
                    self.rows.push(row);
                }
            }
            if !open.is_empty() {
                self.save()?;
            }
        }
        Ok(asked_rows)
    }

    /// Steps of one map that the observer hears of.
    pub(super) fn steps(&self) -> usize {
        self.scorer.documents().len() + self.exam.as_ref().map_or(0, Exam::len)
    }

    /// Puts accuracy in the place of the loss. Maps known from before are marked too, from their kept answers: a map
    /// is held against those before it, and they have to be the same ones however often the run was stopped.
    fn mark(&mut self, chunk: &[(Vec<usize>, PrecisionMap)]) -> Result<(), StageError> {
        let Some(exam) = &mut self.exam else { return Ok(()) };
        let maps: Vec<(f64, PrecisionMap)> =
            chunk.iter().map(|(_, map)| (self.costs.of(map).equivalent_bits, map.clone())).collect();
        let marks = exam.race(&maps)?;
        let losses: Vec<(f64, Vec<f64>)> =
            marks.iter().map(|marks| (exam.loss(marks), exam.task_losses(marks))).collect();
        let questions = exam.len();
        for ((_, map), (loss, of_tasks)) in chunk.iter().zip(losses) {
            let key = self.key(map);
            let row = self.known.get_mut(&key).expect("scored above, or known from before");
            let tie = tie_break(row.nll, questions);
            row.loss = loss + tie;
            if let Some(tasks) = &mut self.tasks {
                tasks.insert(row, of_tasks.into_iter().map(|loss| loss + tie).collect());
            }
        }
        Ok(())
    }

    /// What maps lose in each task, where every task is an objective of its own.
    pub(super) fn tasks(&self) -> Option<&TaskLosses> {
        self.tasks.as_ref()
    }

    /// Writes the rows asked for, then those of an earlier run that were not asked for yet.
    fn save(&self) -> Result<(), StageError> {
        let asked: std::collections::BTreeSet<&str> = self.rows.iter().map(|row| row.key.as_str()).collect();
        let others = self.known.values().filter(|row| !asked.contains(row.key.as_str()));
        let rows: Vec<&EvaluationRow> = self.rows.iter().chain(others).collect();
        Ok(write_csv(&self.path, &rows)?)
    }

    /// The rows that the searches asked for.
    pub(super) fn searched(&self) -> impl Iterator<Item = &EvaluationRow> {
        self.rows.iter().filter(|row| row.kind == EvaluationKind::Search)
    }

    /// Writes the rows that were asked for and nothing else.
    pub(super) fn finish(&self) -> Result<Vec<PathBuf>, StageError> {
        write_csv(&self.path, &self.rows)?;
        let tasks = self.tasks.as_ref().map(|tasks| tasks.write(self.session, self.searched()));
        Ok([self.path.clone()].into_iter().chain(tasks.transpose()?).collect())
    }

    fn row(&self, map: &PrecisionMap, tally: &Tally) -> EvaluationRow {
        let costs = self.costs.of(map);
        EvaluationRow {
            index: 0,
            key: self.key(map),
            kind: EvaluationKind::Search,
            genome: Vec::new(),
            map: map.clone(),
            equivalent_bits: costs.equivalent_bits,
            storage_bits: costs.storage_bits,
            cache_bytes: costs.cache_bytes,
            flips: tally.mean(Objective::Flips),
            kl: tally.mean(Objective::Kl),
            nll: tally.mean(Objective::Nll),
            loss: tally.mean(self.session.job.search.objective),
        }
    }
}

/// Tells apart maps that answer alike, by the likelihood of the trace; never as much as one answer. **Ours.**
fn tie_break(nll: f64, questions: usize) -> f64 {
    0.5 / questions.max(1) as f64 * nll / (1.0 + nll.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tie_is_broken_by_less_than_one_answer() {
        assert!(tie_break(0.1, 40) > tie_break(0.05, 40) && tie_break(0.0, 40).abs() < 1e-15);
        assert!(tie_break(1e9, 40) - tie_break(-1e9, 40) <= 1.0 / 40.0);
    }
}
