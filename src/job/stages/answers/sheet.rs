//! All answers to a task's items, marked, and the rows that they make.

use super::Plan;
use crate::job::stages::StageError;
use crate::precision::{equivalent_bits, storage_bits};
use crate::report::AccuracyRow;
use crate::score::Reply;
use crate::select::{Bootstrap, Difference, accuracy, difference, recovery};
use crate::tasks::answers::{Grade, Metric};

/// What was answered to a plan's questions.
#[derive(Clone)]
pub(super) struct Sheet<'a> {
    pub(super) plan: &'a Plan<'a>,
    /// One row a configuration, one reply an item; so are the grades.
    pub(super) replies: Vec<Vec<Reply>>,
    pub(super) graded: Vec<Vec<Grade>>,
}

impl<'a> Sheet<'a> {
    pub(super) fn marked(plan: &'a Plan<'a>, replies: Vec<Vec<Reply>>) -> Self {
        let grade = |replies: &Vec<Reply>| {
            let items = plan.asked.items.iter().zip(replies);
            items.map(|(item, reply)| plan.task.grade(item, &reply.response)).collect()
        };
        let graded = replies.iter().map(grade).collect();
        Self { plan, replies, graded }
    }

    /// One row a configuration and metric, of answers of `most` tokens at most.
    pub(super) fn rows(&self, most: Option<usize>) -> Result<Vec<AccuracyRow>, StageError> {
        let of = |configuration| self.of_configuration(configuration, most);
        let rows = (0..self.plan.entries.len()).map(of).collect::<Result<Vec<_>, _>>()?;
        Ok(rows.into_iter().flatten().collect())
    }

    fn of_configuration(
        &self,
        configuration: usize,
        most: Option<usize>,
    ) -> Result<Vec<AccuracyRow>, StageError> {
        let room = self.room(configuration);
        let named = AccuracyRow {
            configuration: self.plan.entries[configuration].configuration.name.clone(),
            shots: self.plan.spec.shots,
            max_new_tokens: most,
            equivalent_bits: room.equivalent_bits,
            storage_bits: room.storage_bits,
            cache_bytes: room.bytes,
            skipped: self.plan.asked.skipped,
            ..AccuracyRow::default()
        };
        let metrics = self.plan.task.metrics().iter().enumerate();
        metrics.map(|(metric, of)| self.row(configuration, (metric, of), named.clone())).collect()
    }

    fn scores(&self, configuration: usize, metric: usize) -> Vec<f64> {
        let score = |grade: &Grade| grade.scores.get(metric).copied().unwrap_or(0.0);
        self.graded[configuration].iter().map(score).collect()
    }

    fn row(
        &self,
        configuration: usize,
        (metric, of): (usize, &Metric),
        named: AccuracyRow,
    ) -> Result<AccuracyRow, StageError> {
        let (scores, full) = (self.scores(configuration, metric), self.scores(0, metric));
        let bootstrap = Bootstrap { seed: self.plan.spec.seed, ..Bootstrap::default() };
        let against = match configuration {
            0 => None,
            _ => Some(difference(&scores, &full, bootstrap)?),
        };
        let given_back = match self.plan.entries[configuration].repairs {
            None => None,
            Some(unrepaired) => recovery(&scores, &self.scores(unrepaired, metric), &full, bootstrap)?,
        };
        let score = accuracy(&scores);
        let of_difference = |get: fn(Difference) -> f64| against.map(get);
        Ok(AccuracyRow {
            metric: of.name.to_owned(),
            items: scores.len(),
            score: score.mean,
            standard_error: score.standard_error,
            difference: of_difference(|found| found.mean),
            difference_low: of_difference(|found| found.low),
            difference_high: of_difference(|found| found.high),
            gained: against.map(|found| found.gained),
            lost: against.map(|found| found.lost),
            p_value: of_difference(|found| found.p),
            detectable: of_difference(|found| found.detectable),
            recovery: given_back.map(|found| found.share),
            recovery_low: given_back.and_then(|found| found.low),
            recovery_high: given_back.and_then(|found| found.high),
            ..named
        })
    }

    fn room(&self, configuration: usize) -> Room {
        let session = self.plan.session;
        let (entry, widths) = (&self.plan.entries[configuration], session.widths());
        let shapes = vec![session.checkpoint.config().head_shape().stored(); session.n_layers()];
        let bytes = |tokens| entry.configuration.scheme.map_bytes(&entry.map, &shapes, tokens);
        let answered = self.plan.asked.questions.iter().zip(&self.replies[configuration]);
        let ends: Vec<f64> = answered.map(|(question, reply)| bytes(question.length(reply)) as f64).collect();
        Room {
            equivalent_bits: equivalent_bits(&entry.map, &widths).get(),
            storage_bits: storage_bits(bytes(self.plan.longest), &widths, self.plan.longest).bits,
            bytes: ends.iter().sum::<f64>() / ends.len().max(1) as f64,
        }
    }
}

/// What a configuration takes of memory.
struct Room {
    equivalent_bits: f64,
    /// At the length of the longest item with its answer.
    storage_bits: f64,
    /// When an answer ends, mean over the items.
    bytes: f64,
}
