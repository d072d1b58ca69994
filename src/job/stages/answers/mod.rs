//! Configurations on a task with answers.

mod encode;
mod request;
mod save;

use super::session::Session;
use super::{Configuration, StageError, fit};
use crate::cache::{CacheKind, Simulation};
use crate::model::{BosPolicy, DecoderBackend, ModelError};
use crate::precision::{PrecisionMap, PrecisionPair, equivalent_bits, storage_bits};
use crate::quant::Scheme;
use crate::score::{Configured, Question, Reply, answer, simulation};
use crate::select::{Bootstrap, Difference, accuracy, difference, least_detectable};
use crate::tasks::answers::{self, AnswerTask, Grade, Item};

pub use request::{AccuracyRow, AnswerRequest};

/// What full precision is called.
const FULL: &str = "full";

/// Puts a task's items to full precision and to each configuration; one row a configuration and metric.
pub(super) fn run<B: DecoderBackend>(
    request: &AnswerRequest,
    session: &Session<'_>,
) -> Result<Vec<AccuracyRow>, StageError> {
    let task = request.spec.check()?;
    let configurations = with_full(&request.configurations);
    let maps = configurations.iter().map(|configuration| session.map(configuration));
    let maps = maps.collect::<Result<Vec<PrecisionMap>, _>>()?;
    let tokenizer = session.tokenizer()?;
    let count = |text: &str| tokenizer.encode_from_start(text, BosPolicy::Auto).map_or(0, |ids| ids.len());
    let found = answers::items(&request.spec, &count)?;
    let asked = encode::encode(found.items, session, &tokenizer)?;
    let longest = asked.questions.iter().map(Question::longest).max().unwrap_or(0);
    let kind = |index: usize| if index == 0 { CacheKind::Full } else { request.cache };
    let costs: Vec<fit::LaneCost<'_>> = configurations
        .iter()
        .zip(&maps)
        .enumerate()
        .map(|(index, (configuration, map))| fit::LaneCost {
            kind: kind(index),
            scheme: &configuration.scheme,
            map,
        })
        .collect();
    let lanes = fit::lanes(request.lanes, &costs, longest, session)?;

    let decoder = session.decoder::<B>()?;
    let made =
        configurations.iter().map(|configuration| simulation(&decoder, &configuration.scheme, longest));
    let made: Vec<Simulation> = made.collect::<Result<_, _>>().map_err(ModelError::from)?;
    let configured: Vec<Configured<'_>> = made
        .iter()
        .zip(&maps)
        .enumerate()
        .map(|(index, (simulation, map))| Configured { simulation, kind: kind(index), map })
        .collect();
    let observer = session.observer();
    observer.begin(task.name(), (asked.questions.len() * configured.len()) as u64, "answers");
    let widths = (lanes, session.context.threads);
    let replies = answer(&decoder, &tokenizer, &configured, &asked.questions, widths, observer)?;
    observer.end(&summary(&asked, found.examples_left_out, task, lanes));

    let graded: Vec<Vec<Grade>> = replies.iter().map(|replies| grade(task, &asked.items, replies)).collect();
    let results =
        Results { task, asked: &asked, configurations: &configurations, replies: &replies, graded: &graded };
    if let Some(path) = &request.save {
        save::write(path, &results, request, session)?;
    }
    let mut rows = Vec::new();
    for (configuration, map) in configurations.iter().zip(&maps) {
        let bits = Bits::of(configuration, map, longest, session);
        rows.extend(results.rows(rows.len() / task.metrics().len(), bits, request.spec.seed)?);
    }
    Ok(rows)
}

/// Full precision, and then the others.
fn with_full(others: &[Configuration]) -> Vec<Configuration> {
    let full = Configuration {
        name: FULL.into(),
        scheme: Scheme::kivi(),
        bits: super::ConfigurationBits::Uniform(PrecisionPair::FULL),
    };
    std::iter::once(full).chain(others.iter().cloned()).collect()
}

fn grade(task: &dyn AnswerTask, items: &[Item], replies: &[Reply]) -> Vec<Grade> {
    items.iter().zip(replies).map(|(item, reply)| task.grade(item, &reply.response)).collect()
}

fn summary(asked: &encode::Asked, examples: usize, task: &dyn AnswerTask, lanes: usize) -> String {
    let count = asked.items.len();
    let mut text = format!("{}: {count} items, {lanes} lanes at most", task.name());
    for (number, what) in [
        (asked.skipped, "left out, longer than the context"),
        (asked.cut, "cut in the middle to fit the context"),
        (examples, "left out, among the worked examples"),
    ] {
        if number > 0 {
            text += &format!("; {number} {what}");
        }
    }
    text + &format!("\n{count} items cannot show a difference below {:.3}", least_detectable(count))
}

/// All that was asked and answered.
struct Results<'a> {
    task: &'a dyn AnswerTask,
    asked: &'a encode::Asked,
    configurations: &'a [Configuration],
    /// One row a configuration, one reply an item; so are the grades.
    replies: &'a [Vec<Reply>],
    graded: &'a [Vec<Grade>],
}

impl Results<'_> {
    fn scores(&self, configuration: usize, metric: usize) -> Vec<f64> {
        let score = |grade: &Grade| grade.scores.get(metric).copied().unwrap_or(0.0);
        self.graded[configuration].iter().map(score).collect()
    }

    /// One row a metric of one configuration.
    fn rows(&self, configuration: usize, bits: Bits, seed: u64) -> Result<Vec<AccuracyRow>, StageError> {
        let row = |(metric, of): (usize, &answers::Metric)| {
            let scores = self.scores(configuration, metric);
            let against = match configuration {
                0 => None,
                _ => {
                    let bootstrap = Bootstrap { seed, ..Bootstrap::default() };
                    Some(difference(&scores, &self.scores(0, metric), bootstrap)?)
                }
            };
            let score = accuracy(&scores);
            let of_difference = |get: fn(Difference) -> f64| against.map(get);
            Ok(AccuracyRow {
                configuration: self.configurations[configuration].name.clone(),
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
            })
        };
        self.task.metrics().iter().enumerate().map(row).collect()
    }
}

/// What a configuration takes of memory, an element.
#[derive(Clone, Copy)]
struct Bits {
    equivalent: f64,
    storage: f64,
}

impl Bits {
    /// Storage at the length of the longest item with its answer.
    fn of(configuration: &Configuration, map: &PrecisionMap, tokens: usize, session: &Session<'_>) -> Self {
        let widths = session.widths();
        let shape = session.checkpoint.config().head_shape().stored();
        let bytes = configuration.scheme.map_bytes(map, &vec![shape; session.n_layers()], tokens);
        Self {
            equivalent: equivalent_bits(map, &widths).get(),
            storage: storage_bits(bytes, &widths, tokens).bits,
        }
    }
}
