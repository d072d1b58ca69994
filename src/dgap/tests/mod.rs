//! What must hold of heads, on a made vocabulary of 12 tokens with hidden states of 4 channels.

mod arithmetic;
mod at_work;
mod files;
mod training;

use std::path::Path;

use burn::prelude::*;
use burn::tensor::TensorData;
use burn_flex::Flex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::heads::{Corrector, Detector, Head, Matrix, Readout, Shape, Sizes, Standard};
use super::sheet::Sheet;
use super::*;
use crate::precision::PrecisionMap;
use crate::quant::Scheme;
use crate::trace::Split;

const VOCAB: usize = 12;
const HIDDEN: usize = 4;
const TOP_K: usize = 6;
const SIZES: Sizes = Sizes { rank: 2, set_width: 5, width: 16 };

fn device() -> burn_flex::FlexDevice {
    Default::default()
}

fn random(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn numbers(count: usize, size: f32, random: &mut ChaCha8Rng) -> Vec<f32> {
    (0..count).map(|_| random.random_range(-size..size)).collect()
}

/// The model's head `[VOCAB, HIDDEN]`.
fn head_weight() -> Vec<f32> {
    numbers(VOCAB * HIDDEN, 1.5, &mut random(5))
}

fn readout() -> Readout<Flex> {
    Readout::new(Tensor::from_data(TensorData::new(head_weight(), [VOCAB, HIDDEN]), &device()))
}

fn logits(hidden: &[f32]) -> Vec<f32> {
    let dot = |row: &[f32]| row.iter().zip(hidden).map(|(w, h)| w * h).sum();
    head_weight().chunks(HIDDEN).map(dot).collect()
}

fn shape() -> Shape {
    Shape {
        top_k: TOP_K,
        features: Features::new(TOP_K).width(),
        hidden: HIDDEN,
        inputs: HIDDEN,
        vocab: VOCAB,
    }
}

fn setting(pair: &str) -> Setting {
    let map = PrecisionMap::uniform(2, pair.parse().expect("a pair"));
    Setting { name: pair.to_owned(), scheme: Scheme::kivi(), map }
}

/// Heads with weights that do something, and a threshold that every step reaches.
fn heads() -> Heads {
    let mut random = random(9);
    let mut wild = |weights: Vec<Matrix>| -> Vec<Matrix> {
        let fill = |matrix: Matrix| Matrix { data: numbers(matrix.data.len(), 0.5, &mut random), ..matrix };
        weights.into_iter().map(fill).collect()
    };
    let mut fresh = self::random(1);
    let detectors = Detector::ALL.map(|kind| Head { kind, weights: wild(kind.init(shape(), &mut fresh)) });
    let correctors =
        Corrector::ALL.map(|kind| Head { kind, weights: wild(kind.init(shape(), SIZES, &mut fresh)) });
    Heads {
        about: about(),
        features: standard(shape().features),
        hidden: standard(HIDDEN),
        detectors: detectors.to_vec(),
        correctors: correctors.to_vec(),
    }
}

fn standard(width: usize) -> Standard {
    Standard { mean: vec![0.25; width], deviation: vec![2.0; width] }
}

fn about() -> About {
    About {
        format: About::FORMAT,
        version: "0.1.0".into(),
        model_id: "tiny".into(),
        model_fingerprint: "ab".repeat(32),
        setting: setting("KV1"),
        trace_key: "key".into(),
        trace_seed: 0,
        layers: vec![],
        shape: shape(),
        features: Features::new(TOP_K).names(),
        drift_limit: 0.05,
        detector: Detector::Mlp,
        corrector: Corrector::C3,
        threshold: Threshold { risk: 0.0, policy: Policy::TriggerRate(1.0), positions: 10, positives: 5 },
        training: TrainParams { sizes: SIZES, ..TrainParams::default() },
        positions: [10, 10, 10],
        heads: vec![],
    }
}

/// A quantized trace in which the cache's error adds one and the same vector to every hidden state.
fn traced(path: &Path) -> Traced {
    let entry = |index: usize| TracedEntry {
        id: format!("d{index}"),
        domain: "made".into(),
        split: Split::ALL[index.min(2)],
        positions: 120,
    };
    let meta = TracedMeta {
        format: TracedMeta::FORMAT,
        version: "0.1.0".into(),
        model_id: "tiny".into(),
        model_fingerprint: "ab".repeat(32),
        seed: 0,
        trace_key: "key".into(),
        setting: setting("KV1"),
        layers: vec![],
        hidden_size: HIDDEN,
        vocab_size: VOCAB,
        held: VOCAB,
        documents: (0..3).map(entry).collect(),
    };
    let mut random = random(11);
    Traced::write::<DgapError>(path, &meta, |_| {
        let (mut sheet, mut states) = (Sheet::new(VOCAB), Vec::new());
        for at in 0..120 {
            let full = numbers(HIDDEN, 2.0, &mut random);
            let error = [0.8, -0.6, 0.5, 0.7];
            let quantized: Vec<f32> = full.iter().zip(error).map(|(x, e)| x + e).collect();
            sheet.push(&logits(&quantized), &logits(&full), 8 + at, 3);
            states.extend(quantized);
        }
        Ok(TracedDocument { sheet, hidden: states })
    })
    .expect("written");
    Traced::read(path).expect("read")
}
