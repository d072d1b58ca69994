use super::check::loss;
use super::costs::Costs;
use super::exam::Exam;
use super::ledger::Ledger;
use super::session::Session;
use super::several::{self, TaskLosses};
use super::{Outcome, StageError, search};
use crate::model::{Decoder, DecoderBackend, ModelError};
use crate::precision::{PrecisionMap, StorageBits};
use crate::progress::{Observer, counted};
use crate::report::{
    EvaluationKind, EvaluationRow, ModelRecord, ObjectiveRecord, ParetoRow, PrecisionFile, Provenance, Role,
    plot, read_csv, write_csv,
};
use crate::score::{Scorer, Tally, simulation};
use crate::select::{
    BIT_BUDGETS, Bootstrap, Choice, DocumentLoss, Estimate, Scored, best_within, choose, estimate,
};
use crate::trace::{Document, Split, Trace};

/// Scores the front on documents that the search did not see, chooses, and writes what the job is for.
pub(super) fn run<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    trace: &Trace,
    ledger: &Ledger,
) -> Result<Outcome, StageError> {
    let rows: Vec<EvaluationRow> = read_csv(&session.file("evaluations.csv"))?;
    let of_kind = |kind| rows.iter().filter(move |row| row.kind == kind).cloned();
    let searched: Vec<EvaluationRow> = of_kind(EvaluationKind::Search).collect();
    let front = several::front(session, &searched, TaskLosses::read(session)?.as_ref())?;
    let uniform: Vec<EvaluationRow> = of_kind(EvaluationKind::Uniform).collect();
    let judge = Judge { session, decoder, trace, costs: Costs::new(session, ledger) };
    let maps: Vec<&EvaluationRow> = front.iter().chain(&uniform).collect();
    let select = judge.estimates(Split::Select, &maps)?;
    let (of_front, of_uniform) = select.split_at(front.len());
    let scored: Vec<Scored> =
        front.iter().zip(of_front).map(|(row, &loss)| Scored { bits: row.equivalent_bits, loss }).collect();
    let choice = choose(&scored, session.job.search.max_loss).ok_or_else(|| StageError::Unmet {
        message: "the search evaluated no map within the limits".into(),
        hint: Some("raise `search.evaluations` or loosen the limits".into()),
    })?;
    let chosen = choice.index();
    // Read once: no other map is ever scored on these documents.
    let test = judge.estimates(Split::Test, &[&front[chosen]])?[0];
    let verdict = Verdict { front, of_front, uniform, of_uniform, scored, chosen, test };
    let files = judge.write(&verdict)?;
    judge.conclude(&verdict, choice, files)
}

struct Judge<'a, B: DecoderBackend> {
    session: &'a Session<'a>,
    decoder: &'a Decoder<B>,
    trace: &'a Trace,
    costs: Costs,
}

struct Verdict<'a> {
    front: Vec<EvaluationRow>,
    of_front: &'a [Estimate],
    uniform: Vec<EvaluationRow>,
    of_uniform: &'a [Estimate],
    scored: Vec<Scored>,
    chosen: usize,
    test: Estimate,
}

impl<B: DecoderBackend> Judge<'_, B> {
    /// The loss of maps on one split, with intervals over its documents.
    fn estimates(&self, split: Split, rows: &[&EvaluationRow]) -> Result<Vec<Estimate>, StageError> {
        let bootstrap = Bootstrap { seed: self.session.job.search.seed, ..Bootstrap::default() };
        if let Some(exam) = search::exam(self.session, self.decoder, split)? {
            return marked(exam, rows, bootstrap, self.session.observer());
        }
        let documents: Vec<&Document> = self.trace.split(split).collect();
        let observer = self.session.observer();
        observer.begin(&split.to_string(), (rows.len() * documents.len()) as u64, "documents");
        let longest = documents.iter().map(|document| document.tokens.len()).max().unwrap_or(0);
        let scheme = &self.session.job.search_space.scheme;
        let simulation = simulation(self.decoder, scheme, longest).map_err(ModelError::from)?;
        let maps: Vec<PrecisionMap> = rows.iter().map(|row| row.map.clone()).collect();
        let count = documents.len();
        let scorer = Scorer::new(self.decoder, &simulation, documents, self.session.context.threads);
        let tallies = scorer.evaluate(&maps, observer)?;
        let losses: Vec<Vec<DocumentLoss>> = tallies.iter().map(|of_map| self.losses(of_map)).collect();
        observer.end(&format!("{} on {}", counted(rows.len(), "map"), counted(count, "document")));
        Ok(estimate(&losses, bootstrap)?)
    }

    fn losses(&self, tallies: &[Tally]) -> Vec<DocumentLoss> {
        let objective = self.session.job.search.objective;
        tallies.iter().map(|tally| loss(tally, objective)).collect()
    }

    fn write(&self, verdict: &Verdict<'_>) -> Result<Vec<std::path::PathBuf>, StageError> {
        let session = self.session;
        let chosen = session.file("precision.yaml");
        self.precision_file(verdict, verdict.chosen).write(&chosen)?;
        let mut files = vec![chosen];
        for budget in BIT_BUDGETS {
            let path = session.file(&format!("precision-{budget:.1}.yaml"));
            if let Some(index) = best_within(&verdict.scored, budget) {
                self.precision_file(verdict, index).write(&path)?;
                files.push(path);
            }
        }
        let csv = session.file("pareto.csv");
        write_csv(&csv, &pareto_rows(verdict))?;
        let svg = session.file("pareto.svg");
        plot::plot(&csv, &svg)?;
        files.extend([csv, svg]);
        Ok(files)
    }

    fn precision_file(&self, verdict: &Verdict<'_>, index: usize) -> PrecisionFile {
        let (session, row) = (self.session, &verdict.front[index]);
        let test = (index == verdict.chosen).then_some(verdict.test);
        let provenance = Provenance {
            format: PrecisionFile::FORMAT,
            model: ModelRecord {
                id: session.resolved.id.clone(),
                sha256: session.fingerprint.clone(),
                layers: session.n_layers(),
            },
            scheme: session.job.search_space.scheme.clone(),
            equivalent_bits: row.equivalent_bits,
            storage_bits: StorageBits { context: self.costs.context(), bits: row.storage_bits },
            objective: ObjectiveRecord {
                name: session.job.search.objective.to_string(),
                search: row.loss,
                test: test.map(|test| test.mean),
                interval: test.map(|test| [test.low, test.high]),
                documents: verdict.test.documents,
                exploratory: verdict.test.exploratory || verdict.of_front[index].exploratory,
            },
            seed: session.job.search.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        PrecisionFile { map: row.map.clone(), provenance: Some(provenance) }
    }

    /// Says what was chosen; an error where nothing is within the loss, with all files written all the same.
    fn conclude(
        &self,
        verdict: &Verdict<'_>,
        choice: Choice,
        files: Vec<std::path::PathBuf>,
    ) -> Result<Outcome, StageError> {
        let (row, test) = (&verdict.front[verdict.chosen], verdict.test);
        let (objective, max) = (self.session.job.search.objective, self.session.job.search.max_loss);
        if let Choice::Nearest(_) = choice {
            return Err(StageError::NoMap {
                objective,
                max_loss: max,
                map: row.map.clone(),
                bits: row.equivalent_bits,
                upper: verdict.of_front[verdict.chosen].upper,
            });
        }
        let mut summary = vec![format!(
            "{:.2} equivalent bits ({:.2} stored at {} tokens), {objective} {:.4} [{:.4}, {:.4}] on the test split",
            row.equivalent_bits,
            row.storage_bits,
            self.costs.context(),
            test.mean,
            test.low,
            test.high
        )];
        if test.exploratory {
            summary.push(format!(
                "exploratory: {} documents a split, under {}, make for a rough interval",
                test.documents,
                crate::select::FEWEST_DOCUMENTS
            ));
        }
        Ok(Outcome { files, summary })
    }
}

/// What maps lose on questions; of several tasks of which the worst counts, on that one.
fn marked<B: DecoderBackend>(
    mut exam: Exam<'_, B>,
    rows: &[&EvaluationRow],
    bootstrap: Bootstrap,
    observer: &dyn Observer,
) -> Result<Vec<Estimate>, StageError> {
    observer.begin("answers", (rows.len() * exam.len()) as u64, "answers");
    let maps: Vec<PrecisionMap> = rows.iter().map(|row| row.map.clone()).collect();
    let losses = exam.losses(&maps)?;
    observer.end(&format!("{} on {}", counted(rows.len(), "map"), counted(exam.len(), "question")));
    let worst = |of_map: Vec<Vec<DocumentLoss>>| -> Result<Estimate, StageError> {
        let estimates: Vec<Estimate> = of_map
            .iter()
            .map(|losses| Ok(estimate(std::slice::from_ref(losses), bootstrap)?[0]))
            .collect::<Result<_, StageError>>()?;
        let upper = estimates.iter().map(|estimate| estimate.upper).fold(f64::NEG_INFINITY, f64::max);
        let worst = estimates.into_iter().max_by(|a, b| a.mean.total_cmp(&b.mean));
        // No task may break the limit, the one with the widest interval included.
        Ok(Estimate { upper, ..worst.expect("a job that is marked has a task") })
    };
    losses.into_iter().map(worst).collect()
}

fn pareto_rows(verdict: &Verdict<'_>) -> Vec<ParetoRow> {
    let row = |row: &EvaluationRow, role: Role, select: &Estimate, test: Option<Estimate>| ParetoRow {
        map: row.map.clone(),
        role,
        equivalent_bits: row.equivalent_bits,
        storage_bits: row.storage_bits,
        cache_bytes: row.cache_bytes,
        search_loss: row.loss,
        select_loss: Some(select.mean),
        select_upper: Some(select.upper),
        test_loss: test.map(|test| test.mean),
        test_low: test.map(|test| test.low),
        test_high: test.map(|test| test.high),
    };
    let of_front = verdict.front.iter().zip(verdict.of_front).enumerate().map(|(index, (found, select))| {
        match index == verdict.chosen {
            true => row(found, Role::Chosen, select, Some(verdict.test)),
            false => row(found, Role::Front, select, None),
        }
    });
    let uniform = verdict.uniform.iter().zip(verdict.of_uniform);
    of_front.chain(uniform.map(|(found, select)| row(found, Role::Uniform, select, None))).collect()
}
