use super::{AccuracyRow, Entry, encode};
use crate::job::stages::StageError;
use crate::job::stages::session::Session;
use crate::precision::{equivalent_bits, storage_bits};
use crate::score::Reply;
use crate::select::{Bootstrap, Difference, accuracy, difference, recovery};
use crate::tasks::answers::{self, AnswerTask, Grade};

/// All that was asked and answered.
pub(super) struct Results<'a> {
    pub(super) task: &'a dyn AnswerTask,
    pub(super) asked: &'a encode::Asked,
    /// Full precision first.
    pub(super) entries: &'a [Entry],
    /// One row a configuration, one reply an item; so are the grades.
    pub(super) replies: &'a [Vec<Reply>],
    pub(super) graded: &'a [Vec<Grade>],
}

impl Results<'_> {
    fn scores(&self, configuration: usize, metric: usize) -> Vec<f64> {
        let score = |grade: &Grade| grade.scores.get(metric).copied().unwrap_or(0.0);
        self.graded[configuration].iter().map(score).collect()
    }

    /// One row a metric of one configuration.
    pub(super) fn rows(
        &self,
        configuration: usize,
        bits: Bits,
        seed: u64,
    ) -> Result<Vec<AccuracyRow>, StageError> {
        let row = |(metric, of): (usize, &answers::Metric)| {
            let (scores, full) = (self.scores(configuration, metric), self.scores(0, metric));
            let bootstrap = Bootstrap { seed, ..Bootstrap::default() };
            let against = match configuration {
                0 => None,
                _ => Some(difference(&scores, &full, bootstrap)?),
            };
            let given_back = match self.entries[configuration].repairs {
                None => None,
                Some(unrepaired) => recovery(&scores, &self.scores(unrepaired, metric), &full, bootstrap)?,
            };
            let score = accuracy(&scores);
            let of_difference = |get: fn(Difference) -> f64| against.map(get);
            Ok(AccuracyRow {
                configuration: self.entries[configuration].configuration.name.clone(),
                metric: of.name.to_owned(),
                equivalent_bits: bits.equivalent,
                storage_bits: bits.storage,
                items: scores.len(),
                skipped: self.asked.skipped,
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
            })
        };
        self.task.metrics().iter().enumerate().map(row).collect()
    }
}

/// What a configuration takes of memory, an element.
#[derive(Clone, Copy)]
pub(super) struct Bits {
    equivalent: f64,
    storage: f64,
}

impl Bits {
    /// Storage at the length of the longest item with its answer.
    pub(super) fn of(entry: &Entry, tokens: usize, session: &Session<'_>) -> Self {
        let Entry { configuration, map, .. } = entry;
        let widths = session.widths();
        let shape = session.checkpoint.config().head_shape().stored();
        let bytes = configuration.scheme.map_bytes(map, &vec![shape; session.n_layers()], tokens);
        Self {
            equivalent: equivalent_bits(map, &widths).get(),
            storage: storage_bits(bytes, &widths, tokens).bits,
        }
    }
}
