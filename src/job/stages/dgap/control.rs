use std::ops::ControlFlow;

use super::super::session::Session;
use super::super::{Outcome, StageError};
use super::{DgapRequest, setting, trace};
use crate::cache::{CacheKind, Simulation, Units};
use crate::dgap::control::{ControlTally, GAPS, Inversions, Variant};
use crate::dgap::{DgapError, Setting};
use crate::model::generate::{Batch, LANES, continue_many};
use crate::model::{Decoder, DecoderBackend, ModelError, Sampling, WeightType, from_host, to_host};
use crate::parallel::in_order;
use crate::report::{DgapControlRow, DgapInversionRow, write_csv};
use crate::score::simulation;
use crate::trace::{Document, Split, Trace, top_k};

/// Positions whose logits are in memory at once.
const CHUNK: usize = 32;

/// Runs the experiment for each setting.
pub(super) fn run<B: DecoderBackend>(
    request: &DgapRequest,
    session: &Session<'_>,
) -> Result<Outcome, StageError> {
    let settings = request.configurations.iter().map(|configuration| setting(session, configuration));
    let settings = settings.collect::<Result<Vec<_>, _>>()?;
    let trace = trace(session)?;
    if trace.split(Split::Test).next().is_none() {
        return Err(DgapError::NoPositions { purpose: "compare", split: "test" }.into());
    }
    let decoder = session.decoder::<B>(WeightType::F32)?;
    let (mut rows, mut inversions) = (Vec::new(), Vec::new());
    for setting in &settings {
        let control = Control::new(session, &decoder, &trace, setting)?;
        let (tallies, pairs) = control.compare()?;
        let agreement = control.agreement()?;
        rows.extend(
            Variant::ALL.iter().zip(tallies).map(|(&variant, tally)| row(setting, variant, tally, agreement)),
        );
        inversions.extend(inversion_rows(setting, pairs));
    }
    let (path, pairs) = (session.file("dgap-control.csv"), session.file("dgap-inversions.csv"));
    write_csv(&path, &rows)?;
    write_csv(&pairs, &inversions)?;
    Ok(Outcome { files: vec![path, pairs], summary: rows.iter().map(line).collect() })
}

/// The experiment for one setting.
struct Control<'a, B: DecoderBackend> {
    session: &'a Session<'a>,
    decoder: &'a Decoder<B>,
    documents: Vec<&'a Document>,
    setting: &'a Setting,
    simulation: Simulation,
}

type Compared = ([ControlTally; Variant::ALL.len()], Inversions);

impl<'a, B: DecoderBackend> Control<'a, B> {
    fn new(
        session: &'a Session<'a>,
        decoder: &'a Decoder<B>,
        trace: &'a Trace,
        setting: &'a Setting,
    ) -> Result<Self, StageError> {
        let documents: Vec<&Document> = trace.split(Split::Test).collect();
        let longest = documents.iter().map(|document| document.tokens.len()).max().unwrap_or(0);
        let simulation = simulation(decoder, &setting.scheme, longest).map_err(ModelError::from)?;
        Ok(Self { session, decoder, documents, setting, simulation })
    }

    /// All variants on the same positions.
    fn compare(&self) -> Result<Compared, StageError> {
        let observer = self.session.observer();
        observer.begin(&format!("control {}", self.setting.name), self.documents.len() as u64, "documents");
        let each = in_order(self.session.context.threads, self.documents.len(), |index| {
            if observer.interrupted() {
                return Err(StageError::Interrupted);
            }
            let compared = self.document(self.documents[index])?;
            observer.advance(1);
            Ok(compared)
        })?;
        observer.end(&format!("{}: {} documents", self.setting.name, self.documents.len()));
        Ok(each.into_iter().fold(Compared::default(), |(sums, pairs), (tallies, more)| {
            let added = std::array::from_fn(|variant| sums[variant].plus(tallies[variant]));
            (added, pairs.plus(more))
        }))
    }

    fn document(&self, document: &Document) -> Result<Compared, StageError> {
        let tokens = &document.tokens[..document.tokens.len() - 1];
        let (first, positions) = (document.prompt_len - 1, document.positions());
        let units = Units::prompt(document.prompt_len, self.simulation.scheme().prefill);
        let mut caches = self.simulation.caches(&self.setting.map, 0, &units).map_err(ModelError::from)?;
        let hidden = self.decoder.forward(tokens, &mut caches)?.narrow(0, first, positions);
        let full = from_host(document.hidden.clone(), positions, self.decoder.device());
        let vocab = self.decoder.config().vocab_size;
        let mut compared = Compared::default();
        for start in (0..positions).step_by(CHUNK) {
            let rows = CHUNK.min(positions - start);
            let logits = |states: &crate::model::Tensor2<B>| {
                to_host(self.decoder.logits(states.clone().narrow(0, start, rows)))
            };
            let (quantized, full) = (logits(&hidden), logits(&full));
            for ((quantized, full), at) in quantized.chunks(vocab).zip(full.chunks(vocab)).zip(start..) {
                add(&mut compared, full, quantized, document.tokens[document.prompt_len + at]);
            }
        }
        Ok(compared)
    }

    /// How far the quantized model, writing by itself, writes what full precision wrote: the mean share of a
    /// continuation before the first other token.
    fn agreement(&self) -> Result<f64, StageError> {
        let observer = self.session.observer();
        let prompts: Vec<&[u32]> =
            self.documents.iter().map(|document| &document.tokens[..document.prompt_len]).collect();
        let longest = self.documents.iter().map(|document| document.positions()).max().unwrap_or(0);
        let caches = |prompt: usize| {
            let units = Units::prompt(prompts[prompt].len(), self.simulation.scheme().prefill);
            Ok(self.simulation.any(CacheKind::Simulated, &self.setting.map, &units)?)
        };
        let threads = self.session.context.threads;
        let batch = Batch { max_new: longest, lanes: LANES, threads, sampling: Sampling::GREEDY };
        let written = continue_many(self.decoder, caches, &prompts, &batch, |_| {
            if observer.interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if observer.interrupted() {
            return Err(StageError::Interrupted);
        }
        let share = |(document, written): (&&Document, &Vec<u32>)| {
            let theirs = &document.tokens[document.prompt_len..];
            let same = theirs.iter().zip(written).take_while(|(a, b)| a == b).count();
            same as f64 / theirs.len() as f64
        };
        Ok(self.documents.iter().zip(&written).map(share).sum::<f64>() / self.documents.len() as f64)
    }
}

fn add((tallies, pairs): &mut Compared, full: &[f32], quantized: &[f32], next: u32) {
    for (tally, variant) in tallies.iter_mut().zip(Variant::ALL) {
        tally.add(full, &variant.of(full, quantized), next);
    }
    let likely = top_k(full, 10);
    let ours: Vec<f32> = likely.iter().map(|&(id, _)| quantized[id as usize]).collect();
    let theirs: Vec<f32> = likely.iter().map(|&(_, logit)| logit).collect();
    pairs.add(&theirs, &ours);
}

fn row(setting: &Setting, variant: Variant, tally: ControlTally, agreement: f64) -> DgapControlRow {
    let n = tally.positions.max(1) as f64;
    DgapControlRow {
        setting: setting.name.clone(),
        variant: variant.name().to_owned(),
        positions: tally.positions,
        js: tally.js / n,
        kl: tally.kl / n,
        flips: tally.flips as f64 / n,
        perplexity: (tally.nll / n).exp(),
        // Greedy generation follows the most likely token, which is one or the other by how a variant is made.
        agreement: Some(if variant.chooses_as_quantized() { agreement } else { 1.0 }),
    }
}

fn inversion_rows(setting: &Setting, found: Inversions) -> Vec<DgapInversionRow> {
    let row = |class: usize| DgapInversionRow {
        setting: setting.name.clone(),
        gap_from: GAPS[class],
        gap_to: GAPS.get(class + 1).copied(),
        pairs: found.pairs[class],
        inverted: found.inverted[class] as f64 / found.pairs[class].max(1) as f64,
    };
    (0..GAPS.len()).map(row).collect()
}

fn line(row: &DgapControlRow) -> String {
    format!(
        "{:<6} {:<31} JS {:.4} bits, flips {:.1} %, perplexity {:.3}, agrees on {:.1} % of a continuation",
        row.setting,
        row.variant,
        row.js,
        100.0 * row.flips,
        row.perplexity,
        100.0 * row.agreement.unwrap_or(0.0)
    )
}
