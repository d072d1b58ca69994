use super::super::judge::{Figures, corrected, uncorrected, with_oracle};
use super::super::loss::Divergence;
use super::*;
use crate::progress::Silent;

const PARAMS: TrainParams = TrainParams {
    seed: 3,
    epochs: 25,
    patience: 25,
    batch: 32,
    learning_rate: 1e-2,
    weight_decay: 0.01,
    dropout: 0.0,
    loss: loss::LossWeights {
        divergence: Divergence::Kl,
        ranking: 0.05,
        margins: 0.0,
        size: 1e-3,
        quiet: 0.05,
    },
    bounds: heads::Bounds { clip: 6.0, keep_mass: true },
    sizes: SIZES,
};

/// Positions to train on, to hold out and to judge on.
struct Made<'a> {
    train: Examples<'a>,
    held_out: Examples<'a>,
    test: Examples<'a>,
    features: Standard,
    hidden: Standard,
}

impl<'a> Made<'a> {
    fn new(traced: &'a Traced) -> Self {
        let examples = |document| Examples::new(traced, &[document], TOP_K, 0.01);
        let train = examples(0);
        Self {
            features: Standard::of((0..train.len()).map(|at| train.features(at).to_vec()), shape().features),
            hidden: Standard::of((0..train.len()).map(|at| train.hidden(at)), HIDDEN),
            held_out: examples(1),
            test: examples(2),
            train,
        }
    }

    fn training<'b>(&'b self, readout: &'b Readout<Flex>) -> Training<'b, Flex> {
        Training {
            train: &self.train,
            held_out: &self.held_out,
            shape: shape(),
            features: &self.features,
            hidden: &self.hidden,
            readout,
            observer: &Silent,
        }
    }

    /// Mean drift on the test positions with a corrector times `factor`.
    fn drift(&self, head: &Head<Corrector>, readout: &Readout<Flex>, factor: f32) -> f64 {
        let all = Heads { features: self.features.clone(), hidden: self.hidden.clone(), ..heads() };
        let loaded = Loaded::of(&all, &all.detectors[0], head, readout);
        let indices: Vec<usize> = (0..self.test.len()).collect();
        let shifts = loaded.shifts(&self.test.rows(&indices, true));
        let shifts: Vec<f32> = shifts.iter().map(|shift| shift * factor).collect();
        let before = uncorrected(&self.test);
        Figures::of(&before, &corrected(&self.test, &shifts)).bins.js
    }
}

#[test]
fn trained_correctors_lower_drift_and_turned_around_they_raise_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let traced = traced(&folder.path().join("trace.safetensors"));
    let (made, readout) = (Made::new(&traced), readout());
    let before = uncorrected(&made.test);
    let none = Figures::of(&before, &before).bins.js;
    let oracle = Figures::of(&before, &with_oracle(&made.test, Oracle::Order)).bins.js;
    // The error is one vector for all steps: a bias per token, C1 and C3 can know it.
    for (kind, share) in [(Corrector::TokenBias, 0.6), (Corrector::C1, 0.4), (Corrector::C3, 0.5)] {
        let trained = made.training(&readout).corrector(kind, &PARAMS).expect("trained");
        let drift = made.drift(&trained.head, &readout, 1.0);
        let recovered = (none - drift) / (none - oracle);
        assert!(recovered > share, "{kind} recovers {recovered}: {none} to {drift}, oracle {oracle}");
        assert!(made.drift(&trained.head, &readout, -1.0) > none, "{kind} turned around");
        let first = trained.epochs.first().expect("an epoch").loss;
        assert!(trained.epochs.last().expect("an epoch").loss < first);
    }
}

#[test]
fn the_same_seed_gives_the_same_head() {
    let folder = tempfile::tempdir().expect("a folder");
    let traced = traced(&folder.path().join("trace.safetensors"));
    let (made, readout) = (Made::new(&traced), readout());
    let params = TrainParams { epochs: 3, dropout: 0.2, ..PARAMS };
    let trained = |seed: u64| {
        let params = TrainParams { seed, ..params };
        let training = made.training(&readout);
        let corrector = training.corrector(Corrector::C3, &params).expect("trained").head;
        (corrector, training.detector(Detector::Mlp, &params).expect("trained").head)
    };
    assert_eq!(trained(1), trained(1));
    assert_ne!(trained(1).0, trained(2).0);
}

#[test]
fn a_loss_that_is_no_number_is_an_error_with_the_head_and_the_epoch() {
    let folder = tempfile::tempdir().expect("a folder");
    let traced = traced(&folder.path().join("trace.safetensors"));
    let (made, readout) = (Made::new(&traced), readout());
    let params = TrainParams { learning_rate: f64::INFINITY, ..PARAMS };
    let error = made.training(&readout).corrector(Corrector::C3, &params).err().expect("it diverges");
    assert!(error.to_string().starts_with("training of `c3` gave a loss of "), "{error}");
    assert!(error.hint().expect("a hint").contains("--learning-rate"));
}

#[test]
fn a_detector_tells_drifted_steps_from_quiet_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let traced = traced(&folder.path().join("trace.safetensors"));
    let made = Made::new(&traced);
    let readout = readout();
    // Where the lead of the first candidate is small, the order falls: features tell.
    let limit = 0.05;
    let examples = |document| Examples::new(&traced, &[document], TOP_K, limit);
    let (train, held_out, test) = (examples(0), examples(1), examples(2));
    let training = Training { train: &train, held_out: &held_out, ..made.training(&readout) };
    for kind in [Detector::Logistic, Detector::Mlp] {
        let head = training.detector(kind, &PARAMS).expect("trained").head;
        let all = Heads { features: made.features.clone(), hidden: made.hidden.clone(), ..heads() };
        let loaded = Loaded::of(&all, &head, &all.correctors[0], &readout);
        let indices: Vec<usize> = (0..test.len()).collect();
        let risks = loaded.risks(&test.rows(&indices, false));
        let found = detection(&risks, &test.drifted).expect("both kinds");
        assert!(found.auroc > 0.6, "{kind}: {found:?}");
    }
}

#[test]
fn the_detector_of_gains_ranks_steps_by_what_an_oracle_takes_off_their_drift() {
    let folder = tempfile::tempdir().expect("a folder");
    let traced = traced(&folder.path().join("trace.safetensors"));
    let (made, readout) = (Made::new(&traced), readout());
    let head = made.training(&readout).detector(Detector::Gain, &PARAMS).expect("trained").head;
    let all = Heads { features: made.features.clone(), hidden: made.hidden.clone(), ..heads() };
    let indices: Vec<usize> = (0..made.train.len()).collect();
    let rows = made.train.rows(&indices, false);
    let risks = Loaded::of(&all, &head, &all.correctors[0], &readout).risks(&rows);
    let gains: Vec<f64> = uncorrected(&made.train)
        .iter()
        .zip(with_oracle(&made.train, Oracle::Order))
        .map(|(before, after)| before.bins.js - after.bins.js)
        .collect();
    let rank = crate::sensitivity::correlation::spearman(&risks, &gains).expect("both vary");
    assert!(rank > 0.3, "{rank}");
    // Cross-entropy with labels between 0 and 1 comes to their mean.
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    assert!((mean(&risks) - mean(&gains)).abs() < 0.1, "{} for {}", mean(&risks), mean(&gains));
}
