use super::costs::Costs;
use super::evaluations::Evaluations;
use super::exam::Exam;
use super::ledger::Ledger;
use super::sensitivity::driving_error;
use super::session::Session;
use super::several::{self, View};
use super::{Outcome, StageError, space};
use crate::job::SeedTable;
use crate::model::{Decoder, DecoderBackend, ModelError};
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::progress::counted;
use crate::report::{EvaluationKind, EvaluationRow, SensitivityRow, read_csv};
use crate::score::{Objective, Scorer, simulation};
use crate::search::{
    Additive, Algorithm, Genome, Limit, LossTable, Objectives, Problem, Search, SearchOptions, Searcher,
};
use crate::space::Space;
use crate::trace::{Document, Split, Trace};

/// Searches the space on the documents of the search split.
pub(super) fn run<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    trace: &Trace,
    ledger: &Ledger,
) -> Result<Outcome, StageError> {
    let space = space::read(session)?;
    let costs = Costs::new(session, ledger);
    let problem = problem(session, &space, &costs)?;
    let documents: Vec<&Document> = trace.split(Split::Search).collect();
    let longest = documents.iter().map(|document| document.tokens.len()).max().unwrap_or(0);
    let scheme = &session.job.search_space.scheme;
    let simulation = simulation(decoder, scheme, longest).map_err(ModelError::from)?;
    let scorer = Scorer::new(decoder, &simulation, documents, session.context.threads);
    let exam = exam(session, decoder, Split::Search)?;
    let evaluations = Evaluations::open(session, scorer, exam, costs, &trace.content_key())?;
    let steps = evaluations.steps();
    Driver { session, space, problem, evaluations }.run(steps)
}

/// What the job's maps are marked by, where its objective is accuracy.
pub(super) fn exam<'a, B: DecoderBackend>(
    session: &'a Session<'a>,
    decoder: &'a Decoder<B>,
    split: Split,
) -> Result<Option<Exam<'a, B>>, StageError> {
    let spec = session.job.answers.as_ref().filter(|_| session.job.search.objective == Objective::Accuracy);
    spec.map(|spec| Exam::open(session, spec, decoder, split)).transpose()
}

struct Driver<'a, B: DecoderBackend> {
    session: &'a Session<'a>,
    space: Space,
    problem: Problem,
    evaluations: Evaluations<'a, B>,
}

impl<B: DecoderBackend> Driver<'_, B> {
    fn run(mut self, steps: usize) -> Result<Outcome, StageError> {
        let spec = self.session.job.search;
        let observer = self.session.observer();
        let isolated = self.isolated_maps();
        let charged = if self.seed_table() == SeedTable::IsolatedKl { isolated.len() } else { 0 };
        let budget = self.budget(charged)?;
        let uniform: Vec<(Vec<usize>, PrecisionMap)> = self.uniform_maps();
        observer.begin("search", ((uniform.len() + charged + budget) * steps) as u64, "documents");
        self.evaluations.evaluate(EvaluationKind::Uniform, &uniform)?;
        let table = self.table(&isolated)?;
        let views = match self.session.job.each_task() {
            Some(tasks) if self.search(budget, spec.seed, table.clone())?.learns() => several::views(tasks),
            _ => vec![View::Loss],
        };
        for (index, &view) in views.iter().enumerate() {
            // What earlier searches left, or found known, is for the later ones.
            let left = budget.saturating_sub(self.evaluations.searched().count());
            let share = left.div_ceil(views.len() - index);
            let mut search = self.search(share, spec.seed.wrapping_add(index as u64), table.clone())?;
            self.drive(&mut search, view)?;
        }
        let files = self.evaluations.finish()?;
        let searched: Vec<EvaluationRow> = self.evaluations.searched().cloned().collect();
        let evaluated = counted(searched.len() + charged, "evaluation");
        let front = several::front(self.session, &searched, self.evaluations.tasks())?;
        let front = counted(front.len(), "map");
        observer.end(&format!("{evaluated}, {front} on the front"));
        let told = match charged {
            0 => String::new(),
            charged => format!(", {charged} of them of one group alone"),
        };
        let summary = format!(
            "{} by {}: {evaluated}{told}; {front} on the front",
            self.session.job.search.objective, spec.algorithm
        );
        Ok(Outcome { files, summary: vec![summary] })
    }

    fn search(&self, budget: usize, seed: u64, table: Option<LossTable>) -> Result<Search, StageError> {
        let options =
            SearchOptions { evaluations: budget, seed, table, uniform: true, ..SearchOptions::default() };
        Ok(Search::new(self.problem.clone(), self.session.job.search.algorithm, &options)?)
    }

    /// Asks, evaluates, tells, until the search is done. Rows of an interrupted run answer at once.
    fn drive(&mut self, search: &mut Search, view: View) -> Result<(), StageError> {
        loop {
            let batch = search.ask();
            if batch.is_empty() {
                return Ok(());
            }
            let asked: Vec<(Vec<usize>, PrecisionMap)> =
                batch.iter().map(|genome| (genome.choices().to_vec(), self.map(genome))).collect();
            let rows = self.evaluations.evaluate(EvaluationKind::Search, &asked)?;
            let tasks = self.evaluations.tasks();
            let objectives = rows.iter().map(|row| several::objectives(row, tasks, view));
            let told: Vec<(Genome, Objectives)> = batch.into_iter().zip(objectives).collect();
            search.tell(&told);
        }
    }

    fn map(&self, genome: &Genome) -> PrecisionMap {
        self.space.map(genome).expect("a searcher asks for genomes of its problem's shape")
    }

    /// Where the additive model's losses come from; the other algorithms have no use for one, and pay for none.
    fn seed_table(&self) -> SeedTable {
        let spec = self.session.job.search;
        match spec.algorithm {
            Algorithm::Moead | Algorithm::Nsga2 | Algorithm::Additive => spec.seed_table,
            _ => SeedTable::None,
        }
    }

    /// What is left for the searcher after the measurements of the additive model.
    fn budget(&self, charged: usize) -> Result<usize, StageError> {
        let evaluations = self.session.job.search.evaluations;
        let searches = self.session.job.each_task().map_or(1, |tasks| tasks.len() + 1);
        evaluations.checked_sub(charged).filter(|&left| left >= searches).ok_or_else(|| StageError::Budget {
            evaluations,
            charged,
            groups: self.space.groups().len(),
            searches,
        })
    }

    /// Every pair of the space in all layers, for comparison.
    fn uniform_maps(&self) -> Vec<(Vec<usize>, PrecisionMap)> {
        let map = |&pair: &PrecisionPair| PrecisionMap::uniform(self.space.n_layers(), pair);
        self.space.pairs().iter().map(|pair| (Vec::new(), map(pair))).collect()
    }

    /// Each choice of each group with all other layers at full precision, group by group.
    fn isolated_maps(&self) -> Vec<(Vec<usize>, PrecisionMap)> {
        let of_group = |(group, layers): (usize, &crate::space::LayerGroup)| {
            let alone = move |choice| Some((Vec::new(), self.space.alone(group, choice)?));
            (0..layers.candidates.len()).filter_map(alone)
        };
        self.space.groups().iter().enumerate().flat_map(of_group).collect()
    }

    /// Losses of single choices for the additive model.
    fn table(&mut self, isolated: &[(Vec<usize>, PrecisionMap)]) -> Result<Option<LossTable>, StageError> {
        let spec = self.session.job.search;
        let table = match self.seed_table() {
            SeedTable::None => return Ok(None),
            SeedTable::Eo => LossTable::proxy(self.errors()?, &self.problem)?,
            SeedTable::IsolatedKl => {
                let rows = self.evaluations.evaluate(EvaluationKind::Isolated, isolated)?;
                let mut losses = rows.iter().map(|row| row.kl);
                let groups = self.space.groups().iter();
                let losses =
                    groups.map(|group| losses.by_ref().take(group.candidates.len()).collect()).collect();
                match spec.objective {
                    Objective::Kl => LossTable::isolated(losses, &self.problem)?,
                    // Flips, likelihood and accuracy go with KL, but are not in its unit.
                    Objective::Flips | Objective::Nll | Objective::Accuracy => {
                        LossTable::proxy(losses, &self.problem)?
                    }
                }
            }
        };
        Ok(Some(table))
    }

    /// e_o summed over each group's layers, at each of its candidates.
    fn errors(&self) -> Result<Vec<Vec<f64>>, StageError> {
        let rows: Vec<SensitivityRow> = read_csv(&self.session.file("sensitivity.csv"))?;
        let metric = self.session.job.search_space.sensitivity.metric;
        let of_pair = |group: &crate::space::LayerGroup, pair: PrecisionPair| {
            let mine = rows
                .iter()
                .filter(|row| row.pair == pair && group.layers.iter().any(|layer| layer.0 == row.layer));
            mine.map(|row| driving_error(row, metric)).sum()
        };
        let of_group = |group: &crate::space::LayerGroup| {
            group.candidates.iter().map(|&pair| of_pair(group, pair)).collect()
        };
        Ok(self.space.groups().iter().map(of_group).collect())
    }
}

/// The space with the job's limits.
fn problem(session: &Session<'_>, space: &Space, costs: &Costs) -> Result<Problem, StageError> {
    let spec = &session.job.search;
    let mut problem = Problem::of_space(space, costs.widths())?.with_max_loss(spec.max_loss)?;
    if let Some(max) = spec.max_bits {
        problem = problem.with_max_bits(max)?;
    }
    let bytes = |context: usize, scale: f64| -> Vec<Vec<f64>> {
        let of_pair = |group: &crate::space::LayerGroup, pair| -> f64 {
            group.layers.iter().map(|layer| scale * costs.layer_bytes(layer.0, pair, context) as f64).sum()
        };
        let groups = space.groups().iter();
        groups.map(|group| group.candidates.iter().map(|&pair| of_pair(group, pair)).collect()).collect()
    };
    if let Some(limit) = spec.max_storage_bits {
        let elements = (2 * costs.widths().iter().sum::<usize>() * limit.context) as f64;
        let (name, unit) = ("max_storage_bits".into(), "bits an element".into());
        let cost = Additive::new(bytes(limit.context, 8.0), elements)?;
        problem = problem.with_limit(Limit { name, unit, cost, max: limit.bits })?;
    }
    if let Some(limit) = spec.max_cache {
        let (name, unit) = ("max_cache".into(), "bytes".into());
        let cost = Additive::new(bytes(limit.context, limit.batch as f64), 1.0)?;
        problem = problem.with_limit(Limit { name, unit, cost, max: limit.bytes.0 as f64 })?;
    }
    Ok(problem)
}
