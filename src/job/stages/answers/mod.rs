//! Configurations on a task with answers.

pub(super) mod encode;
mod request;
mod save;

use super::session::Session;
use super::{Configuration, StageError, fit};
use crate::cache::{CacheKind, Simulation};
use crate::model::{DecoderBackend, ModelError, Tokenizer};
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
    let plan = Plan::prepare(request, session)?;
    let replies = plan.answer::<B>()?;
    let graded: Vec<Vec<Grade>> =
        replies.iter().map(|replies| grade(plan.task, &plan.asked.items, replies)).collect();
    let results = Results {
        task: plan.task,
        asked: &plan.asked,
        configurations: &plan.configurations,
        replies: &replies,
        graded: &graded,
    };
    if let Some(path) = &request.save {
        save::write(path, &results, request, session)?;
    }
    let rows = plan.maps.iter().enumerate().map(|(configuration, map)| {
        let bits = Bits::of(&plan.configurations[configuration], map, plan.longest, session);
        results.rows(configuration, bits, request.spec.seed)
    });
    Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Everything that can be checked before a weight is read.
struct Plan<'a> {
    request: &'a AnswerRequest,
    session: &'a Session<'a>,
    task: &'static dyn AnswerTask,
    /// Full precision first.
    configurations: Vec<Configuration>,
    maps: Vec<PrecisionMap>,
    tokenizer: Tokenizer,
    asked: encode::Asked,
    /// Items left out because they are worked examples.
    examples: usize,
    /// Tokens of the longest item with its answer.
    longest: usize,
    lanes: usize,
}

impl<'a> Plan<'a> {
    fn prepare(request: &'a AnswerRequest, session: &'a Session<'a>) -> Result<Self, StageError> {
        let task = request.spec.check()?;
        fit::questions(&request.spec, session)?;
        let configurations = with_full(&request.configurations);
        let maps = configurations.iter().map(|configuration| session.map(configuration));
        let maps = maps.collect::<Result<_, _>>()?;
        let tokenizer = session.tokenizer()?;
        let count = |text: &str| tokenizer.count_from_start(text);
        let found = answers::items(&request.spec, &count)?;
        let asked = encode::encode(found.items, session, &tokenizer)?;
        let longest = asked.questions.iter().map(Question::longest).max().unwrap_or(0);
        let examples = found.examples_left_out;
        let lanes = request.lanes;
        let plan =
            Self { request, session, task, configurations, maps, tokenizer, asked, examples, longest, lanes };
        let prefix = plan.asked.questions.iter().map(|question| question.prefix.len()).max().unwrap_or(0);
        let lanes = fit::lanes(lanes, &plan.costs(), (prefix, longest), request.weights, session)?;
        Ok(Self { lanes, ..plan })
    }

    /// What the cache of a configuration is.
    fn kind(&self, configuration: usize) -> CacheKind {
        if configuration == 0 { CacheKind::Full } else { self.request.cache }
    }

    fn costs(&self) -> Vec<fit::LaneCost<'_>> {
        let both = self.configurations.iter().zip(&self.maps).enumerate();
        both.map(|(index, (configuration, map))| fit::LaneCost {
            kind: self.kind(index),
            scheme: &configuration.scheme,
            map,
        })
        .collect()
    }

    /// One row a configuration, one reply an item.
    fn answer<B: DecoderBackend>(&self) -> Result<Vec<Vec<Reply>>, StageError> {
        let decoder = self.session.decoder::<B>(self.request.weights)?;
        let make = |configuration: &Configuration| simulation(&decoder, &configuration.scheme, self.longest);
        let made: Vec<Simulation> =
            self.configurations.iter().map(make).collect::<Result<_, _>>().map_err(ModelError::from)?;
        let both = made.iter().zip(&self.maps).enumerate();
        let configured: Vec<Configured<'_>> = both
            .map(|(index, (simulation, map))| Configured { simulation, kind: self.kind(index), map })
            .collect();
        let (observer, questions) = (self.session.observer(), &self.asked.questions);
        observer.begin(self.task.name(), (questions.len() * configured.len()) as u64, "answers");
        let widths = (self.lanes, self.session.context.threads);
        let replies = answer(&decoder, &self.tokenizer, &configured, questions, widths, observer)?;
        observer.end(&self.summary());
        Ok(replies)
    }

    fn summary(&self) -> String {
        let count = self.asked.items.len();
        let mut text = format!("{}: {count} items, {} lanes at most", self.task.name(), self.lanes);
        for (number, what) in [
            (self.asked.skipped, "left out, longer than the context"),
            (self.asked.cut, "cut in the middle to fit the context"),
            (self.examples, "left out, among the worked examples"),
        ] {
            if number > 0 {
                text += &format!("; {number} {what}");
            }
        }
        let least = least_detectable(count);
        let shown =
            if least > 1.0 { "any difference".into() } else { format!("a difference below {least:.3}") };
        text + &format!("\n{count} items cannot show {shown}")
    }
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
