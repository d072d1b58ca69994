use std::path::Path;

use super::super::session::Session;
use super::super::{Outcome, StageError};
use super::measures::{self, Splits};
use super::{DgapTraining, MorePositions, folder, more, setting, trace, traces};
use crate::dgap::heads::{Corrector, Detector, Head, Readout, Shape, Standard};
use crate::dgap::{
    About, DgapError, Epoch, Examples, Features, HeadRecord, Heads, Loaded, Policy, Setting, Threshold,
    Traced, Trained, Training,
};
use crate::model::{DecoderBackend, WeightType};
use crate::parallel::in_order;

/// Two maps of one file name would overwrite each other's heads.
fn refuse_one_folder(session: &Session<'_>, settings: &[Setting]) -> Result<(), StageError> {
    for (index, setting) in settings.iter().enumerate() {
        let own = folder(session, setting);
        if let Some(other) = settings[..index].iter().find(|other| folder(session, other) == own) {
            return Err(StageError::Unmet {
                message: format!(
                    "heads of `{}` and `{}` would both go into `{}`",
                    other.name,
                    setting.name,
                    own.display()
                ),
                hint: Some("rename one of the files".into()),
            });
        }
    }
    Ok(())
}

/// Trains the heads of each setting.
pub(super) fn run<B: DecoderBackend>(
    request: &DgapTraining,
    session: &Session<'_>,
) -> Result<Outcome, StageError> {
    let settings = request.request.configurations.iter().map(|configuration| setting(session, configuration));
    let settings = settings.collect::<Result<Vec<_>, _>>()?;
    refuse_one_folder(session, &settings)?;
    check(request, session)?;
    let trace = trace(session)?;
    let decoder = session.decoder::<B>(WeightType::F32)?;
    let readout = Readout::new(decoder.head_weight());
    let mut outcome = Outcome::default();
    for setting in &settings {
        let traced = if request.more == MorePositions::default() {
            traces::traced(session, &decoder, &trace, setting, &request.layers, "")?
        } else {
            let trace = more::extended(session, &decoder, &trace, setting, request.more)?;
            traces::traced(session, &decoder, &trace, setting, &request.layers, &request.more.suffix())?
        };
        let heads = Work { request, session, setting, traced: &traced, readout: &readout }.heads()?;
        let path = folder(session, setting).join("dgap.safetensors");
        heads.write(&path)?;
        outcome.summary.extend(summary(&heads));
        outcome.files.extend([path.clone(), path.with_extension("yaml")]);
    }
    Ok(outcome)
}

fn check(request: &DgapTraining, session: &Session<'_>) -> Result<(), StageError> {
    let held = crate::dgap::HELD.min(session.checkpoint.config().vocab_size);
    if !(2..=held).contains(&request.top_k) {
        return Err(DgapError::TopK { found: request.top_k, held }.into());
    }
    let layers = session.n_layers();
    match request.layers.iter().find(|&&layer| layer >= layers) {
        None => Ok(()),
        Some(found) => Err(StageError::Unmet {
            message: format!(
                "there is no layer {found}: `{}` has {layers}, counted from 0",
                session.resolved.id
            ),
            hint: None,
        }),
    }
}

/// Training for one setting.
struct Work<'a, B: DecoderBackend> {
    request: &'a DgapTraining,
    session: &'a Session<'a>,
    setting: &'a Setting,
    traced: &'a Traced,
    readout: &'a Readout<B>,
}

/// A head of either sort, so that all can be trained side by side.
enum Either {
    Detector(Trained<Detector>),
    Corrector(Trained<Corrector>),
}

/// Heads just trained, with how they came to be.
type Fresh = (Vec<Trained<Detector>>, Vec<Trained<Corrector>>);

impl<B: DecoderBackend> Work<'_, B> {
    fn heads(&self) -> Result<Heads, StageError> {
        let splits = Splits::of(self.traced);
        let examples = |documents: &[usize], purpose, split| {
            let examples =
                Examples::new(self.traced, documents, self.request.top_k, self.request.drift_limit);
            if examples.is_empty() {
                return Err(StageError::from(DgapError::NoPositions { purpose, split }));
            }
            Ok(examples)
        };
        let train = examples(&splits.train, "train on", "search")?;
        let held_out = examples(&splits.held_out, "stop early by", "select")?;
        let calibration = examples(&splits.calibration, "calibrate on", "select")?;
        let shape = self.shape();
        let features =
            Standard::of((0..train.len()).map(|index| train.features(index).to_vec()), shape.features);
        let hidden = Standard::of((0..train.len()).map(|index| train.hidden(index)), shape.inputs);
        let training = Training {
            train: &train,
            held_out: &held_out,
            shape,
            features: &features,
            hidden: &hidden,
            readout: self.readout,
            observer: self.session.observer(),
        };
        let (detectors, correctors) = self.train(&training)?;
        let positions = [train.len(), held_out.len(), calibration.len()];
        let heads = self.assemble(detectors, correctors, positions, features.clone(), hidden.clone());
        Ok(self.calibrated(heads, &calibration))
    }

    fn shape(&self) -> Shape {
        let meta = &self.traced.meta;
        Shape {
            top_k: self.request.top_k,
            features: Features::new(self.request.top_k).width(),
            hidden: meta.hidden_size,
            inputs: meta.inputs(),
            vocab: meta.vocab_size,
        }
    }

    /// All heads, the one that takes longest first; each on one thread, so that their number changes nothing.
    fn train(&self, training: &Training<'_, B>) -> Result<Fresh, StageError> {
        let observer = self.session.observer();
        let mut kinds = self.request.correctors.clone();
        kinds.sort_by(|a, b| b.cmp(a));
        kinds.dedup();
        let count = kinds.len() + Detector::ALL.len();
        observer.begin(&format!("train {}", self.setting.name), count as u64, "heads");
        let trained = in_order(self.session.context.threads, count, |unit| {
            let params = &self.request.params;
            let head = match kinds.get(unit) {
                Some(&kind) => Either::Corrector(training.corrector(kind, params)?),
                None => Either::Detector(training.detector(Detector::ALL[unit - kinds.len()], params)?),
            };
            observer.advance(1);
            Ok::<_, StageError>(head)
        })?;
        let (mut detectors, mut correctors) = (Vec::new(), Vec::new());
        for head in trained {
            match head {
                Either::Detector(head) => detectors.push(head),
                Either::Corrector(head) => correctors.push(head),
            }
        }
        correctors.reverse();
        let (train, held_out) = (training.train.len(), training.held_out.len());
        observer
            .end(&format!("{}: {count} heads on {train} positions, {held_out} held out", self.setting.name));
        Ok((detectors, correctors))
    }

    fn assemble(
        &self,
        detectors: Vec<Trained<Detector>>,
        correctors: Vec<Trained<Corrector>>,
        positions: [usize; 3],
        features: Standard,
        hidden: Standard,
    ) -> Heads {
        let records = detectors.iter().map(record).chain(correctors.iter().map(record)).collect();
        let best = correctors.iter().min_by(|a, b| least(a).total_cmp(&least(b))).map(|best| best.head.kind);
        let meta = &self.traced.meta;
        let policy = self.request.policy;
        let about = About {
            format: About::FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_id: meta.model_id.clone(),
            model_fingerprint: meta.model_fingerprint.clone(),
            setting: self.setting.clone(),
            trace_key: meta.trace_key.clone(),
            trace_seed: meta.seed,
            layers: meta.layers.clone(),
            shape: self.shape(),
            features: Features::new(self.request.top_k).names(),
            drift_limit: self.request.drift_limit,
            detector: deciding(policy),
            corrector: best.unwrap_or(Corrector::Temperature),
            threshold: Threshold { risk: 0.0, policy, positions: 0, positives: 0 },
            training: self.request.params,
            positions,
            heads: records,
        };
        let (detectors, correctors) = (only_heads(detectors), only_heads(correctors));
        Heads { about, features, hidden, detectors, correctors }
    }

    /// The heads, with the threshold that the calibration positions give.
    fn calibrated(&self, mut heads: Heads, calibration: &Examples<'_>) -> Heads {
        let risks = match (heads.detector(Path::new("")), heads.correctors.first()) {
            (Ok(detector), Some(corrector)) => {
                measures::risks(&Loaded::of(&heads, detector, corrector, self.readout), calibration)
            }
            _ => Vec::new(),
        };
        heads.about.threshold = Threshold::choose(self.request.policy, &risks, &calibration.drifted);
        if let Some(warning) = heads.about.threshold.warning() {
            self.session.observer().warn(&warning);
        }
        heads
    }
}

/// A rate of corrections is best spent where most is gained; a promise on drifted steps needs the risk of drift.
fn deciding(policy: Policy) -> Detector {
    match policy {
        Policy::TriggerRate(_) => Detector::Gain,
        Policy::MissedDrift(_) => Detector::Mlp,
    }
}

fn record<K: std::fmt::Display>(trained: &Trained<K>) -> HeadRecord {
    let head = &trained.head;
    HeadRecord { name: head.kind.to_string(), bytes: head.bytes(), epochs: trained.epochs.clone() }
}

fn only_heads<K>(trained: Vec<Trained<K>>) -> Vec<Head<K>> {
    trained.into_iter().map(|trained| trained.head).collect()
}

/// The best figure that a head had on held-out documents.
fn least<K>(trained: &Trained<K>) -> f64 {
    trained.epochs.iter().map(|epoch: &Epoch| epoch.held_out).fold(f64::INFINITY, f64::min)
}

fn summary(heads: &Heads) -> Vec<String> {
    let about = &heads.about;
    let each = about.heads.iter().map(|head| {
        let least = head.epochs.iter().map(|epoch| epoch.held_out).fold(f64::INFINITY, f64::min);
        format!(
            "  {:<12} {:>9} bytes, {:>2} epochs, held out {least:.4}",
            head.name,
            head.bytes,
            head.epochs.len()
        )
    });
    let threshold = &about.threshold;
    // No risk reaches the threshold of a rate of 0.
    let when = match threshold.risk <= 1.0 {
        true => format!("where the risk is at least {:.3}", threshold.risk),
        false => String::from("never"),
    };
    let first = format!(
        "{}: `{}` {when} ({} of {} calibration positions have drifted)",
        about.setting.name, about.corrector, threshold.positives, threshold.positions
    );
    std::iter::once(first).chain(each).collect()
}
