use std::path::PathBuf;

use super::super::session::Session;
use super::super::{Outcome, StageError};
use super::measures::{self, Splits};
use super::{DgapEvaluation, cost::Cost, folder, front, more, setting, speed, trace, traces};
use crate::dgap::drift::Drift;
use crate::dgap::heads::{Detector, Head, Readout};
use crate::dgap::judge::{Figures, contained, corrected, gated, uncorrected, with_oracle};
use crate::dgap::{DgapError, Examples, Heads, Loaded, Oracle, Setting, Threshold, Traced, detection};
use crate::model::{Decoder, DecoderBackend, WeightType};
use crate::report::{DgapGate, DgapRow, DgapText, write_csv};
use crate::select::{Bootstrap, DocumentLoss, Estimate, estimate};
use crate::trace::{Split, Trace};

/// Judges the heads of each setting, and heads of others on it.
pub(super) fn run<B: DecoderBackend>(
    request: &DgapEvaluation,
    session: &Session<'_>,
) -> Result<Outcome, StageError> {
    let settings = request.request.configurations.iter().map(|configuration| setting(session, configuration));
    let settings = settings.collect::<Result<Vec<_>, _>>()?;
    let trace = trace(session)?;
    let others = request.heads.iter().map(|path| read(session, path.clone()));
    let others = others.collect::<Result<Vec<_>, _>>()?;
    let own = settings.iter().map(|setting| own_heads(session, setting)).collect::<Result<Vec<_>, _>>()?;
    if others.is_empty() && own.iter().all(Option::is_none) {
        return Err(no_heads(session));
    }
    let test: Vec<_> = trace.split(Split::Test).cloned().collect();
    let test = Trace { meta: trace.meta.clone(), documents: test };
    let decoder = session.decoder::<B>(WeightType::F32)?;
    let readout = Readout::new(decoder.head_weight());
    let work = Work { session, trace: &trace, test: &test, decoder: &decoder, readout: &readout };
    let prompts = match request.prompts {
        true => Some(more::test_prompts(session, &decoder, &trace)?),
        false => None,
    };
    let (mut rows, mut outcome) = (Vec::new(), Outcome::default());
    for (setting, own) in settings.iter().zip(&own) {
        for heads in own.iter().chain(&others) {
            let mut found = work.judge(setting, heads, &test, DgapText::Continuation)?;
            if let Some(prompts) = &prompts {
                found.extend(work.judge(setting, heads, prompts, DgapText::Prompt)?);
            }
            outcome.summary.extend(found.iter().filter_map(line));
            rows.extend(found);
        }
        if let Some(own) = own.as_ref().filter(|_| request.speed) {
            outcome.summary.push(speed::measure(&work, setting, own)?);
        }
    }
    let path = session.file("dgap.csv");
    write_csv(&path, &rows)?;
    outcome.files.push(path);
    if let Some(front) = &request.front {
        let known: Vec<&Named> = own.iter().flatten().chain(&others).collect();
        let scored = front::run(&work, front, &known)?;
        outcome.files.extend(scored.files);
        outcome.summary.extend(scored.summary);
    }
    Ok(outcome)
}

/// Heads, and the file that they are from.
pub(super) struct Named {
    pub(super) path: PathBuf,
    pub(super) heads: Heads,
}

fn read(session: &Session<'_>, path: PathBuf) -> Result<Named, StageError> {
    let heads = Heads::read(&path)?;
    heads.about.check_model(
        &path,
        &session.resolved.id,
        &session.fingerprint,
        session.checkpoint.config(),
    )?;
    Ok(Named { path, heads })
}

/// The heads that `train` left for a setting, if it did.
fn own_heads(session: &Session<'_>, setting: &Setting) -> Result<Option<Named>, StageError> {
    let path = folder(session, setting).join("dgap.safetensors");
    if !path.exists() {
        return Ok(None);
    }
    let named = read(session, path)?;
    named.heads.about.check_setting(&named.path, setting)?;
    Ok(Some(named))
}

fn no_heads(session: &Session<'_>) -> StageError {
    let folder = session.job.out.display();
    StageError::Unmet {
        message: format!("`{folder}` holds no heads for these settings"),
        hint: Some(format!("train some with `kvtune dgap train {folder}`, or name others with `--heads`")),
    }
}

/// What judging needs of the job.
pub(super) struct Work<'a, B: DecoderBackend> {
    pub(super) session: &'a Session<'a>,
    pub(super) trace: &'a Trace,
    /// Its test split.
    pub(super) test: &'a Trace,
    pub(super) decoder: &'a Decoder<B>,
    pub(super) readout: &'a Readout<B>,
}

impl<B: DecoderBackend> Work<'_, B> {
    fn judge(
        &self,
        setting: &Setting,
        named: &Named,
        trace: &Trace,
        text: DgapText,
    ) -> Result<Vec<DgapRow>, StageError> {
        let about = &named.heads.about;
        let suffix = match text {
            DgapText::Continuation => "-test",
            DgapText::Prompt => "-test-prompts",
        };
        let traced = traces::traced(self.session, self.decoder, trace, setting, &about.layers, suffix)?;
        let documents = Splits::of(&traced).test;
        let examples = Examples::new(&traced, &documents, about.shape.top_k, about.drift_limit);
        if examples.is_empty() {
            return Err(DgapError::NoPositions { purpose: "judge on", split: "test" }.into());
        }
        let before = uncorrected(&examples);
        let oracle = with_oracle(&examples, Oracle::Order);
        let judge = Judge {
            setting,
            named,
            text,
            bootstrap: Bootstrap { seed: about.training.seed, ..Bootstrap::default() },
            top: contained(&examples),
            least: Figures::of(&before, &oracle).bins.js,
            before,
            examples: &examples,
            traced: &traced,
            cost: Cost::of(self.session.checkpoint.config()),
        };
        judge.rows(self.readout, &oracle)
    }
}

/// Heads on the test positions of one setting.
struct Judge<'a> {
    setting: &'a Setting,
    named: &'a Named,
    text: DgapText,
    bootstrap: Bootstrap,
    top: [f64; 3],
    before: Vec<Drift>,
    /// Mean drift that the oracle leaves.
    least: f64,
    examples: &'a Examples<'a>,
    traced: &'a Traced,
    cost: Cost,
}

/// Shares of the steps at which the curve of a corrector is drawn.
const CURVE: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

impl Judge<'_> {
    /// Oracles first: they bound the rest.
    fn rows<B: DecoderBackend>(
        &self,
        readout: &Readout<B>,
        order: &[Drift],
    ) -> Result<Vec<DgapRow>, StageError> {
        let heads = &self.named.heads;
        let mass = with_oracle(self.examples, Oracle::Mass);
        let mut rows = vec![
            self.row("none", DgapGate::Never, 0.0, &self.before)?,
            self.row(&Oracle::Order.to_string(), DgapGate::Always, 1.0, order)?,
            self.row(&Oracle::Mass.to_string(), DgapGate::Always, 1.0, &mass)?,
        ];
        let detector = heads.detector(&self.named.path)?;
        for head in &heads.detectors {
            rows.push(self.detector_row(head, readout)?);
        }
        let mut risks = None;
        for head in &heads.correctors {
            let loaded = Loaded::of(heads, detector, head, readout);
            let risks = risks.get_or_insert_with(|| measures::risks(&loaded, self.examples));
            let after = corrected(self.examples, &measures::shifts(&loaded, self.examples));
            let bytes = head.bytes() + detector.bytes();
            let adds = self.cost.corrector(head, &heads.about.shape) + self.cost.detector(detector);
            let mut add = |gate, threshold: f64| -> Result<(), StageError> {
                let drifts = gated(&self.before, &after, risks, threshold);
                let rate = share(risks, |&risk| risk >= threshold);
                let mut row = self.row(&head.kind.to_string(), gate, rate, &drifts)?;
                row.head_bytes = bytes;
                row.multiply_adds = adds;
                row.relative_cost = self.cost.relative(adds);
                if gate == DgapGate::Gated {
                    self.add_missed(&mut row, risks, threshold)?;
                }
                rows.push(row);
                Ok(())
            };
            add(DgapGate::Always, 0.0)?;
            add(DgapGate::Gated, heads.about.threshold.risk)?;
            for rate in CURVE {
                add(DgapGate::Curve, Threshold::reaching(risks, rate))?;
            }
        }
        Ok(rows)
    }

    fn row(&self, head: &str, gate: DgapGate, rate: f64, after: &[Drift]) -> Result<DgapRow, StageError> {
        let figures = Figures::of(&self.before, after);
        let interval = self.interval(|index| Some(after[index].bins.js))?;
        let before = Figures::of(&self.before, &self.before).bins.js;
        let (gain, recovered) = (before - self.least, before - figures.bins.js);
        Ok(DgapRow {
            setting: self.setting.name.clone(),
            trained_on: self.named.heads.about.setting.name.clone(),
            head: head.to_owned(),
            gate,
            text: self.text,
            documents: self.documents(),
            positions: after.len(),
            trigger_rate: rate,
            js: figures.bins.js,
            js_low: interval.map(|interval| interval.low),
            js_high: interval.map(|interval| interval.high),
            tv: figures.bins.tv,
            kl: figures.bins.kl,
            js_whole: figures.whole.js,
            tv_whole: figures.whole.tv,
            kl_whole: figures.whole.kl,
            flips: figures.flips,
            inversion: figures.inversion,
            perplexity: figures.perplexity,
            recovery: (gain > 0.0).then(|| recovered / gain),
            harm: figures.harm,
            top_1: self.top[0],
            top_5: self.top[1],
            top_10: self.top[2],
            ..DgapRow::default()
        })
    }

    fn detector_row<B: DecoderBackend>(
        &self,
        head: &Head<Detector>,
        readout: &Readout<B>,
    ) -> Result<DgapRow, StageError> {
        let heads = &self.named.heads;
        let mut row = self.row(&format!("detector-{}", head.kind), DgapGate::Never, 0.0, &self.before)?;
        row.head_bytes = head.bytes();
        row.multiply_adds = self.cost.detector(head);
        row.relative_cost = self.cost.relative(row.multiply_adds);
        if let Some(corrector) = heads.correctors.first() {
            let risks = measures::risks(&Loaded::of(heads, head, corrector, readout), self.examples);
            let found = detection(&risks, &self.examples.drifted);
            row.auroc = found.map(|found| found.auroc);
            row.auprc = found.map(|found| found.auprc);
            // Bits to be gained are no probability of drift.
            row.ece = found.map(|found| found.ece).filter(|_| head.kind != Detector::Gain);
        }
        Ok(row)
    }

    fn add_missed(&self, row: &mut DgapRow, risks: &[f64], threshold: f64) -> Result<(), StageError> {
        let missed = |index: usize| {
            self.examples.drifted[index].then(|| f64::from(u8::from(risks[index] < threshold)))
        };
        let interval = self.interval(missed)?;
        row.missed = interval.map(|interval| interval.mean);
        row.missed_low = interval.map(|interval| interval.low);
        row.missed_high = interval.map(|interval| interval.high);
        Ok(())
    }

    fn documents(&self) -> usize {
        self.traced.documents(|entry| entry.split == Split::Test).len()
    }

    /// The mean of a value over the positions that have it, with an interval over documents; `None` where none has.
    fn interval(&self, value: impl Fn(usize) -> Option<f64>) -> Result<Option<Estimate>, StageError> {
        let mut losses: Vec<(usize, DocumentLoss)> = Vec::new();
        for (index, &(document, _)) in self.examples.places.iter().enumerate() {
            let Some(value) = value(index) else { continue };
            match losses.last_mut().filter(|last| last.0 == document) {
                Some((_, loss)) => {
                    *loss = DocumentLoss { sum: loss.sum + value, positions: loss.positions + 1 }
                }
                None => losses.push((document, DocumentLoss { sum: value, positions: 1 })),
            }
        }
        if losses.is_empty() {
            return Ok(None);
        }
        let losses: Vec<DocumentLoss> = losses.into_iter().map(|(_, loss)| loss).collect();
        Ok(estimate(&[losses], self.bootstrap)?.first().copied())
    }
}

fn share<T>(values: &[T], is: impl Fn(&T) -> bool) -> f64 {
    values.iter().filter(|value| is(value)).count() as f64 / values.len().max(1) as f64
}

/// What is worth reading at once; the rest is in the file.
fn line(row: &DgapRow) -> Option<String> {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let on = match row.text {
        DgapText::Continuation => "",
        DgapText::Prompt => " on prompts",
    };
    let at = format!("{:<6} {:<12}{on}", row.setting, row.head);
    let drift =
        format!("JS {:.4} bits, flips {}, perplexity {:.3}", row.js, percent(row.flips), row.perplexity);
    let recovery = row.recovery.map_or(String::new(), |share| format!(", recovers {}", percent(share)));
    match row.gate {
        DgapGate::Curve => None,
        DgapGate::Never if row.head == "none" => Some(format!(
            "{at}        {drift}; the top 1, 5, 10 of full precision are candidates in {}, {}, {}",
            percent(row.top_1),
            percent(row.top_5),
            percent(row.top_10)
        )),
        DgapGate::Never => row.auroc.map(|auroc| {
            let error = row.ece.map_or(String::new(), |ece| format!(", calibration error {ece:.3}"));
            format!("{:<6} {}{on} AUROC {auroc:.3}{error}", row.setting, row.head)
        }),
        DgapGate::Always => Some(format!("{at} always {drift}{recovery}, harm {}", percent(row.harm))),
        DgapGate::Gated => Some(format!(
            "{at} gated  {drift}{recovery}, harm {}, triggers {}",
            percent(row.harm),
            percent(row.trigger_rate)
        )),
    }
}
