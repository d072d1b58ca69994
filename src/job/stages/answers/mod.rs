//! Configurations on a task with answers.

pub(super) mod encode;
mod request;
mod save;
mod sheet;

use super::dgap::{restoration::Repair, setting};
use super::session::Session;
use super::{Configuration, StageError, fit};
use crate::cache::CacheKind;
use crate::dgap::heads::Readout;
use crate::model::{Decoder, DecoderBackend, ModelError, Tokenizer};
use crate::precision::PrecisionMap;
use crate::report::AccuracyRow;
use crate::score::{Configured, Question, Reply, answer, cut, simulation};
use crate::select::least_detectable;
use crate::tasks::answers::{self, AnswerSpec, AnswerTask};

pub use request::{AnswerRequest, Ladder};

use sheet::Sheet;

/// Puts a task's items to full precision and to each configuration; one row a rung of the ladder, configuration and
/// metric.
pub(super) fn run<B: DecoderBackend>(
    request: &AnswerRequest,
    session: &Session<'_>,
) -> Result<Vec<AccuracyRow>, StageError> {
    let plan = |spec| Plan::prepare(request, spec, session);
    let specs = request.ladder.specs(&request.spec)?.into_iter();
    let plans = specs.map(plan).collect::<Result<Vec<_>, _>>()?;
    let decoder = session.decoder::<B>(request.weights)?;
    let answered = plans.iter().map(|plan| plan.answer(&decoder)).collect::<Result<Vec<_>, _>>()?;
    let sheets: Vec<Sheet<'_>> =
        plans.iter().zip(answered).map(|(plan, replies)| Sheet::marked(plan, replies)).collect();
    if let Some(path) = &request.save {
        save::write(path, &sheets, session)?;
    }
    let mut rows = Vec::new();
    for (plan, sheet) in plans.iter().zip(&sheets) {
        for most in request.ladder.limits(&request.spec) {
            rows.extend(plan.cut(sheet, most)?.rows(most)?);
        }
    }
    Ok(rows)
}

/// One kind of cache that is asked, as it is or repaired.
struct Entry {
    configuration: Configuration,
    map: PrecisionMap,
    /// The entry with the same cache and nothing repaired, where this one's steps are.
    repairs: Option<usize>,
}

/// Everything that can be checked before a weight is read.
struct Plan<'a> {
    request: &'a AnswerRequest,
    /// The request's, on this rung of the ladder.
    spec: AnswerSpec,
    session: &'a Session<'a>,
    task: &'static dyn AnswerTask,
    repair: Option<Repair<'a>>,
    /// Full precision first.
    entries: Vec<Entry>,
    tokenizer: Tokenizer,
    asked: encode::Asked,
    /// Items left out because they are worked examples.
    examples: usize,
    /// Tokens of the longest item with its answer.
    longest: usize,
    lanes: usize,
}

impl<'a> Plan<'a> {
    fn prepare(
        request: &'a AnswerRequest,
        spec: AnswerSpec,
        session: &'a Session<'a>,
    ) -> Result<Self, StageError> {
        let task = spec.check()?;
        fit::questions(&spec, session)?;
        let repair = Repair::of(request.restoration.as_ref(), &request.configurations, session)?;
        let entries = entries(&request.configurations, repair.as_ref(), session)?;
        let tokenizer = session.tokenizer()?;
        let count = |text: &str| tokenizer.count_from_start(text);
        let found = answers::items(&spec, &count)?;
        let asked = encode::encode(found.items, session, &tokenizer)?;
        let longest = asked.questions.iter().map(Question::longest).max().unwrap_or(0);
        let examples = found.examples_left_out;
        let lanes = request.lanes;
        let plan = Self {
            request,
            spec,
            session,
            task,
            repair,
            entries,
            tokenizer,
            asked,
            examples,
            longest,
            lanes,
        };
        let prefix = plan.asked.questions.iter().map(|question| question.prefix.len()).max().unwrap_or(0);
        let lanes = fit::lanes(lanes, &plan.costs(), (prefix, longest), request.weights, session)?;
        Ok(Self { lanes, ..plan })
    }

    /// What the cache of a configuration is.
    fn kind(&self, configuration: usize) -> CacheKind {
        if configuration == 0 { CacheKind::Full } else { self.request.cache }
    }

    /// What is repaired reads the prefixes of what is not.
    fn costs(&self) -> Vec<fit::LaneCost<'_>> {
        let own = self.entries.iter().enumerate().filter(|(_, entry)| entry.repairs.is_none());
        own.map(|(index, entry)| fit::LaneCost {
            kind: self.kind(index),
            scheme: &entry.configuration.scheme,
            map: &entry.map,
        })
        .collect()
    }

    /// One row a configuration, one reply an item.
    fn answer<B: DecoderBackend>(&self, decoder: &Decoder<B>) -> Result<Vec<Vec<Reply>>, StageError> {
        let readout = self.repair.as_ref().map(|_| Readout::new(decoder.head_weight()));
        let both = self.repair.as_ref().zip(readout.as_ref());
        let restorer = both.map(|(repair, readout)| repair.restorer(readout)).transpose()?;
        let make = |entry: &Entry| match entry.repairs {
            None => simulation(decoder, &entry.configuration.scheme, self.longest).map(Some),
            Some(_) => Ok(None),
        };
        let made = self.entries.iter().map(make).collect::<Result<Vec<_>, _>>().map_err(ModelError::from)?;
        let configured = self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let held = entry.repairs.unwrap_or(index);
            let restore = restorer.as_ref().filter(|_| entry.repairs.is_some());
            let (simulation, map) = (made[held].as_ref()?, &self.entries[held].map);
            Some(Configured { simulation, kind: self.kind(index), map, restore })
        });
        let configured: Vec<Configured<'_, _>> = configured.collect();
        let (observer, questions) = (self.session.observer(), &self.asked.questions);
        observer.begin(&self.name(), (questions.len() * configured.len()) as u64, "answers");
        let widths = (self.lanes, self.session.context.threads);
        let replies = answer(decoder, &self.tokenizer, &configured, questions, widths, observer)?;
        observer.end(&self.summary());
        Ok(replies)
    }

    /// The sheet that a limit of `most` tokens an answer would have left.
    fn cut<'s>(&'s self, sheet: &Sheet<'s>, most: Option<usize>) -> Result<Sheet<'s>, StageError> {
        let Some(most) = most else { return Ok(sheet.clone()) };
        let tools = (&self.session.checkpoint.config().eos_token_ids[..], &self.tokenizer);
        let cut = |replies: &Vec<Reply>| -> Result<Vec<Reply>, ModelError> {
            replies.iter().zip(&self.asked.questions).map(|(reply, of)| cut(reply, of, most, tools)).collect()
        };
        let replies = sheet.replies.iter().map(cut).collect::<Result<_, _>>()?;
        Ok(Sheet::marked(self, replies))
    }

    /// The task, and which rung of several this is.
    fn name(&self) -> String {
        match self.spec.shots {
            Some(shots) if self.request.ladder.shots.len() > 1 => {
                format!("{} {shots}-shot", self.task.name())
            }
            _ => self.task.name().to_owned(),
        }
    }

    fn summary(&self) -> String {
        let count = self.asked.items.len();
        let mut text = format!("{}: {count} items, {} lanes at most", self.name(), self.lanes);
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

/// Full precision, and then the others, each followed by itself with its steps repaired where the heads are for it.
fn entries(
    others: &[Configuration],
    repair: Option<&Repair<'_>>,
    session: &Session<'_>,
) -> Result<Vec<Entry>, StageError> {
    let mut entries = Vec::new();
    for configuration in std::iter::once(&Configuration::full()).chain(others) {
        let (index, map) = (entries.len(), session.map(configuration)?);
        let repair = repair.filter(|_| index > 0);
        let repaired = match repair {
            Some(repair) if repair.is_for(&setting(session, configuration)?) => {
                Some(Configuration { name: repair.name(&configuration.name), ..configuration.clone() })
            }
            _ => None,
        };
        entries.push(Entry { configuration: configuration.clone(), map: map.clone(), repairs: None });
        entries.extend(repaired.map(|configuration| Entry { configuration, map, repairs: Some(index) }));
    }
    Ok(entries)
}
