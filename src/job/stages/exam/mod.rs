//! Maps marked by answers: what `objective: accuracy` minimizes.
//!
//! Every map answers the same questions as full precision, block by block, as lanes of one population. Its loss is
//! what it scores less, mean over the questions: paired, since both answered them. Answers are kept (`book`), so a
//! run that was stopped goes on at its last block; a map that falls behind for sure stops early (`race`).

mod book;
mod paper;
mod race;

use super::session::Session;
use super::{StageError, fit};
use crate::cache::{CacheKind, Simulation};
use crate::job::{AnswersSpec, Combine};
use crate::model::{Decoder, DecoderBackend, ModelError, Tokenizer, WeightType};
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::score::{Configured, Objective, answer, simulation};
use crate::select::DocumentLoss;
use crate::trace::Split;

use book::{Book, Mark};
use paper::Paper;

/// Reads the questions of every split, so that what is wrong with them is said before any work is done.
pub(super) fn check(session: &Session<'_>) -> Result<(), StageError> {
    let spec = session.job.answers.as_ref();
    let Some(spec) = spec.filter(|_| session.job.search.objective == Objective::Accuracy) else {
        return Ok(());
    };
    let tokenizer = session.tokenizer()?;
    let count = |text: &str| tokenizer.count_from_start(text);
    for split in [Split::Search, Split::Select, Split::Test] {
        Paper::read(session, spec, &tokenizer, split, &count)?;
    }
    Ok(())
}

/// Maps that answer side by side: each keeps what its questions begin with.
pub(super) const AT_ONCE: usize = 8;

/// One split's questions, and who has answered them.
pub(super) struct Exam<'a, B: DecoderBackend> {
    session: &'a Session<'a>,
    spec: &'a AnswersSpec,
    decoder: &'a Decoder<B>,
    tokenizer: Tokenizer,
    simulation: Simulation,
    paper: Paper,
    lanes: usize,
    book: Book,
    /// What full precision scores, a question each.
    full: Vec<f64>,
    /// Maps that answered everything, in the order in which they were marked: bits and scores.
    finished: Vec<(f64, Vec<f64>)>,
}

/// What a map scored: on all questions, or on the first ones where it fell behind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Marks {
    scores: Vec<f64>,
}

impl<'a, B: DecoderBackend> Exam<'a, B> {
    /// Reads a split's questions, checks that they fit, and has full precision answer them.
    pub(super) fn open(
        session: &'a Session<'a>,
        spec: &'a AnswersSpec,
        decoder: &'a Decoder<B>,
        split: Split,
    ) -> Result<Self, StageError> {
        let tokenizer = session.tokenizer()?;
        let count = |text: &str| tokenizer.count_from_start(text);
        let paper = Paper::read(session, spec, &tokenizer, split, &count)?;
        let scheme = &session.job.search_space.scheme;
        let simulation = simulation(decoder, scheme, paper.longest()).map_err(ModelError::from)?;
        let lanes = lanes(session, spec, &paper)?;
        let book = Book::open(session)?;
        let (full, finished) = (Vec::new(), Vec::new());
        let mut exam =
            Self { session, spec, decoder, tokenizer, simulation, paper, lanes, book, full, finished };
        exam.session.observer().begin(&format!("{split} answers"), exam.len() as u64, "answers");
        exam.full = exam.all(CacheKind::Full, &[full_map(session)])?.remove(0);
        exam.session.observer().end(&exam.summary());
        Ok(exam)
    }

    /// Questions.
    pub(super) fn len(&self) -> usize {
        self.paper.len()
    }

    /// What all rows depend on besides the map.
    pub(super) fn content_key(&self) -> String {
        self.paper.content_key()
    }

    fn summary(&self) -> String {
        let score = self.full.iter().sum::<f64>() / self.full.len().max(1) as f64;
        format!("{}; full precision scores {score:.3}", self.paper.summary())
    }

    /// Marks maps of these bits; those that fall behind a map of no more bits for sure are not asked to the end.
    pub(super) fn race(&mut self, maps: &[(f64, PrecisionMap)]) -> Result<Vec<Marks>, StageError> {
        let rivals: Vec<Option<Vec<f64>>> = maps.iter().map(|(bits, _)| self.rival(*bits)).collect();
        let mut scores: Vec<Vec<f64>> = vec![Vec::new(); maps.len()];
        let mut running: Vec<usize> = (0..maps.len()).collect();
        let looks = self.paper.blocks(self.spec.block).len();
        // A race counts questions alike, as the mean over tasks does only where all have as many.
        let races = self.spec.race && self.spec.combine == Combine::Mean && self.paper.is_even();
        for block in self.paper.blocks(self.spec.block) {
            let asked: Vec<PrecisionMap> = running.iter().map(|&map| maps[map].1.clone()).collect();
            let marked = self.block(self.spec.cache, &asked, block)?;
            running.iter().zip(marked).for_each(|(&map, marked)| scores[map].extend(marked));
            running.retain(|&map| {
                let rival = rivals[map].as_ref().filter(|_| races);
                !rival.is_some_and(|rival| race::is_behind(&scores[map], rival, looks))
            });
        }
        for ((bits, _), scores) in maps.iter().zip(&scores) {
            let left = self.len() - scores.len();
            self.session.observer().advance(left as u64);
            if left == 0 {
                self.finished.push((*bits, scores.clone()));
            }
        }
        Ok(scores.into_iter().map(|scores| Marks { scores }).collect())
    }

    /// The best of the maps marked before that take no more bits: whom to stay abreast of.
    fn rival(&self, bits: f64) -> Option<Vec<f64>> {
        let sum = |scores: &[f64]| scores.iter().sum::<f64>();
        let cheaper = self.finished.iter().filter(|(of, _)| *of <= bits);
        cheaper.map(|(_, scores)| scores).max_by(|a, b| sum(a).total_cmp(&sum(b))).cloned()
    }

    /// What a map loses against full precision, from −1 to 1: the mean over tasks, or the worst.
    pub(super) fn loss(&self, marks: &Marks) -> f64 {
        let asked = self.by_task(marks).into_iter().filter(|losses| !losses.is_empty());
        let means: Vec<f64> = asked.map(|losses| mean(&losses)).collect();
        match self.spec.combine {
            Combine::Mean => mean(&means),
            Combine::Worst | Combine::Each => means.into_iter().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// What a map loses in each task; nothing in one of which no question fits.
    pub(super) fn task_losses(&self, marks: &Marks) -> Vec<f64> {
        self.by_task(marks).iter().map(|losses| mean(losses)).collect()
    }

    /// What each question costs a map, task by task.
    fn by_task(&self, marks: &Marks) -> Vec<Vec<f64>> {
        let mut losses = vec![Vec::new(); self.spec.tasks.len()];
        for (question, (full, score)) in self.full.iter().zip(&marks.scores).enumerate() {
            losses[self.paper.task(question)].push(full - score);
        }
        losses
    }

    /// Losses for intervals, one row a map: one list where the mean counts, else one a task.
    pub(super) fn losses(
        &mut self,
        maps: &[PrecisionMap],
    ) -> Result<Vec<Vec<Vec<DocumentLoss>>>, StageError> {
        let of_map = |losses: Vec<Vec<f64>>| match self.spec.combine {
            Combine::Worst | Combine::Each => losses.iter().map(|losses| documents(losses, 1.0)).collect(),
            Combine::Mean => vec![pooled(&losses)],
        };
        let scores = self.all(self.spec.cache, maps)?;
        Ok(scores.into_iter().map(|scores| of_map(self.by_task(&Marks { scores }))).collect())
    }

    /// The scores of maps on all questions.
    fn all(&mut self, kind: CacheKind, maps: &[PrecisionMap]) -> Result<Vec<Vec<f64>>, StageError> {
        let mut all = Vec::new();
        for maps in maps.chunks(AT_ONCE) {
            let mut scores = vec![Vec::new(); maps.len()];
            for block in self.paper.blocks(self.spec.block) {
                let marked = self.block(kind, maps, block)?;
                scores.iter_mut().zip(marked).for_each(|(scores, marked)| scores.extend(marked));
            }
            all.extend(scores);
        }
        Ok(all)
    }

    /// The scores of maps on some questions, from the book or by asking.
    fn block(
        &mut self,
        kind: CacheKind,
        maps: &[PrecisionMap],
        block: std::ops::Range<usize>,
    ) -> Result<Vec<Vec<f64>>, StageError> {
        let keys: Vec<String> = maps.iter().map(|map| self.book.key(kind, map)).collect();
        let known = |key: &String| self.book.scores(key, self.paper.keys(block.clone()));
        let open: Vec<usize> = (0..maps.len()).filter(|&map| known(&keys[map]).is_none()).collect();
        self.session.observer().advance(((maps.len() - open.len()) * block.len()) as u64);
        if !open.is_empty() {
            let configurations: Vec<Configured<'_>> = open
                .iter()
                .map(|&map| Configured { simulation: &self.simulation, kind, map: &maps[map], restore: None })
                .collect();
            let (questions, widths) =
                (self.paper.questions(block.clone()), (self.lanes, self.session.context.threads));
            let observer = self.session.observer();
            let replies =
                answer(self.decoder, &self.tokenizer, &configurations, questions, widths, observer)?;
            for (&map, replies) in open.iter().zip(&replies) {
                let marks = block.clone().zip(replies).map(|(question, reply)| Mark {
                    configuration: keys[map].clone(),
                    question: self.paper.key(question).to_owned(),
                    task: self.spec.tasks[self.paper.task(question)].task.clone(),
                    item: self.paper.id(question).to_owned(),
                    score: self.paper.grade(question, reply),
                    new_tokens: reply.tokens.len(),
                });
                self.book.add(marks.collect());
            }
            self.book.save()?;
        }
        let scores = |key: &String| self.book.scores(key, self.paper.keys(block.clone()));
        Ok(keys.iter().map(|key| scores(key).expect("asked just now")).collect())
    }
}

fn mean(losses: &[f64]) -> f64 {
    losses.iter().sum::<f64>() / losses.len().max(1) as f64
}

fn documents(losses: &[f64], weight: f64) -> Vec<DocumentLoss> {
    losses.iter().map(|loss| DocumentLoss { sum: loss * weight, positions: 1 }).collect()
}

/// All questions as one list whose mean is the mean over tasks, however many questions each has.
fn pooled(losses: &[Vec<f64>]) -> Vec<DocumentLoss> {
    let all: usize = losses.iter().map(Vec::len).sum();
    let weight = |of_task: usize| all as f64 / (losses.len() * of_task.max(1)) as f64;
    losses.iter().flat_map(|losses| documents(losses, weight(losses.len()))).collect()
}

fn full_map(session: &Session<'_>) -> PrecisionMap {
    PrecisionMap::uniform(session.n_layers(), PrecisionPair::FULL)
}

/// Lanes that memory has room for, were all of them maps of the space's dearest pair.
fn lanes(session: &Session<'_>, spec: &AnswersSpec, paper: &Paper) -> Result<usize, StageError> {
    let space = &session.job.search_space;
    let pairs = space.pairs.expand();
    let dearest = pairs.iter().max_by_key(|pair| pair.key.get() + pair.value.get());
    let dearest = PrecisionMap::uniform(session.n_layers(), *dearest.unwrap_or(&PrecisionPair::FULL));
    let full = full_map(session);
    let cost = |kind, map| fit::LaneCost { kind, scheme: &space.scheme, map };
    let costs: Vec<fit::LaneCost<'_>> = std::iter::once(cost(CacheKind::Full, &full))
        .chain((0..AT_ONCE).map(|_| cost(spec.cache, &dearest)))
        .collect();
    fit::lanes(spec.lanes, &costs, (paper.longest_prefix(), paper.longest()), WeightType::F32, session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_weigh_alike_however_many_questions_they_have() {
        let pooled = pooled(&[vec![1.0, 0.0], vec![0.5; 6]]);
        let mean = pooled.iter().map(|loss| loss.sum).sum::<f64>() / pooled.len() as f64;
        assert!((mean - 0.5).abs() < 1e-12, "{mean}");
        assert!((pooled[0].sum - 2.0).abs() < 1e-12, "8 of 2 · 2 questions");
    }
}
