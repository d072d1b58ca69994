use std::collections::BTreeSet;

use kvtune::cache::{
    CacheError, CodedTensor, HeadShape, LayerCache, Rows, SimulatedCache, Simulation, Units,
};
use kvtune::model::to_host;
use kvtune::precision::{Bits, PrecisionMap, PrecisionPair};
use kvtune::quant::{Scheme, Tensor};
use kvtune_kernels::statistics::{arg_max, divergence, log_sum_exp, root_mean_square};
use serde_json::Value;

use crate::fixture::{Fixture, all, numbers, scheme};

/// Last logits; a rounding tie can flip one code between two correct programs, which moves them further.
const LOGITS: f64 = 5e-3;
const LOGITS_AFTER_A_TIE: f64 = 5e-2;
/// Relative, of the mean KL over the continuation.
const KL: f64 = 0.02;
/// One pass against any other way of feeding the continuation.
const CHUNKED: f32 = 1e-4;

struct Case {
    scheme: Scheme,
    map: PrecisionMap,
    prompt_len: usize,
}

fn case(model: &Fixture, case: &Value) -> Case {
    let pair = |pair: &Value| {
        let bits = |index: usize| Bits::try_from(pair[index].as_u64().unwrap() as u8).unwrap();
        PrecisionPair::new(bits(0), bits(1))
    };
    Case {
        scheme: scheme(&model.expected["schemes"][case["scheme"].as_str().unwrap()], &case["options"]),
        map: PrecisionMap::new(case["pairs"].as_array().unwrap().iter().map(pair).collect()),
        prompt_len: case["prompt_len"].as_u64().unwrap() as usize,
    }
}

/// A simulated cache, and beside it what it holds, for a look inside.
struct Watched {
    cache: SimulatedCache,
    keys: CodedTensor,
    values: CodedTensor,
}

impl Watched {
    fn new(simulation: &Simulation, layer: usize, pair: PrecisionPair, units: &Units) -> Self {
        let tensor = |tensor, bits, bias| {
            let shape = simulation.shape().stored();
            CodedTensor::new(simulation.scheme(), tensor, bits, shape, bias).unwrap()
        };
        Self {
            cache: simulation.cache(layer, pair, units).unwrap(),
            keys: tensor(Tensor::Keys, pair.key, simulation.key_bias(layer)),
            values: tensor(Tensor::Values, pair.value, None),
        }
    }
}

impl LayerCache for Watched {
    fn len(&self) -> usize {
        self.cache.len()
    }

    fn append(&mut self, k: Rows<'_>, v: Rows<'_>) -> Result<(), CacheError> {
        self.keys.append(k)?;
        self.values.append(v)?;
        self.cache.append(k, v)
    }

    fn attend(&mut self, q: Rows<'_>, out: &mut [f32]) -> Result<(), CacheError> {
        self.cache.attend(q, out)
    }
}

/// Logits of all positions, and the caches at the end: the prompt at once and the continuation in chunks, or both at
/// once when `chunk` is `None`.
fn run(model: &Fixture, case: &Case, chunk: Option<usize>) -> (Vec<f32>, Vec<Watched>) {
    let simulation = model.simulation(&case.scheme);
    let units = Units::prompt(case.prompt_len, case.scheme.prefill);
    let pairs = case.map.pairs().iter().enumerate();
    let mut caches: Vec<Watched> =
        pairs.map(|(layer, &pair)| Watched::new(&simulation, layer, pair, &units)).collect();
    let (prompt, continuation) = match chunk {
        Some(_) => model.ids.split_at(case.prompt_len),
        None => (&model.ids[..], &[][..]),
    };
    let mut pieces = vec![prompt];
    pieces.extend(continuation.chunks(chunk.unwrap_or(1)));
    let mut all = Vec::new();
    for piece in pieces {
        let hidden = model.decoder.forward(piece, &mut caches).unwrap();
        all.extend(to_host(model.decoder.logits(hidden)));
    }
    (all, caches)
}

/// Exact elements of two runs that sum in another order, relative to rms.
const SAME: f32 = 1e-4;
/// Dequantized elements of one code are nearer to each other than this, those of two codes further; by rms.
const SAME_CODE: f32 = 1e-3;
/// Elements of one layer that lie on the edge between two codes.
const TIES: usize = 4;

/// Codes in which two runs differ in the first layer where they do. That may come only of elements on the edge
/// between two codes: what was coded must be the same, up to rounding, and such elements few.
fn ties(shape: HeadShape, a: &[Watched], b: &[Watched]) -> usize {
    for (a, b) in a.iter().zip(b) {
        let mut ties = 0;
        for (a, b) in [(&a.keys, &b.keys), (&a.values, &b.values)] {
            for head in 0..shape.n_kv_heads {
                let rms = root_mean_square(a.exact(head)) as f32;
                assert!(far(a.exact(head), b.exact(head)) < SAME * rms, "what was coded is the same");
                let elements = a.read(head).iter().zip(b.read(head)).enumerate();
                let other = elements.filter(|(_, (a, b))| (*a - *b).abs() > SAME_CODE * rms);
                let (tokens, channels): (BTreeSet<_>, BTreeSet<_>) =
                    other.map(|(i, _)| (i / shape.head_dim, i % shape.head_dim)).unzip();
                // Where a head is rotated, one code is seen in all channels of its token; and where a group's levels
                // are means, in all tokens of its channel.
                ties += tokens.len().min(channels.len());
            }
        }
        if ties > 0 {
            assert!(ties <= TIES, "{ties} elements cannot all lie on an edge");
            return ties;
        }
    }
    0
}

fn far(found: &[f32], expected: &[f32]) -> f32 {
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn every_case_of_the_cache_policy_is_the_references() {
    check_every_case(None);
}

#[test]
fn every_case_is_the_references_token_by_token() {
    check_every_case(Some(1));
}

fn check_every_case(chunk: Option<usize>) {
    for model in all() {
        let hidden = model.decoder.forward(&model.ids, &mut model.decoder.full_caches()).unwrap();
        let full = to_host(model.decoder.logits(hidden));
        for (index, expected) in model.expected["cases"].as_array().unwrap().iter().enumerate() {
            check_case(&model, &full, (index, expected), chunk);
        }
    }
}

/// `full` are the logits at full precision.
fn check_case(model: &Fixture, full: &[f32], (index, expected): (usize, &Value), chunk: Option<usize>) {
    let vocab = model.decoder.config().vocab_size;
    let case = case(model, expected);
    let (found, _) = run(model, &case, chunk);
    let rows = (case.prompt_len..model.ids.len()).map(|i| i * vocab..(i + 1) * vocab);
    let (mut kl, mut flips) = (0.0, 0);
    for row in rows.clone() {
        let (p, q) = (&full[row.clone()], &found[row]);
        kl += divergence(p, log_sum_exp(p), q, log_sum_exp(q));
        flips += usize::from(arg_max(p) != arg_max(q));
    }
    let kl = kl / rows.len() as f64;
    let expected_kl = expected["continuation_kl_mean"].as_f64().unwrap();
    let last: Vec<f32> = numbers(&expected["logits_at_last"]).iter().map(|&x| x as f32).collect();
    let distance = f64::from(far(&found[found.len() - vocab..], &last));
    let what = format!(
        "{} case {index} {}: logits off by {distance:.2e}, KL {kl:.6} for {expected_kl:.6}, {flips} flips",
        model.name, expected["scheme"]
    );
    eprintln!("{what}");
    assert!(distance < LOGITS_AFTER_A_TIE, "{what}");
    assert!((kl / expected_kl - 1.0).abs() < KL, "{what}");
    if distance >= LOGITS {
        eprintln!("  passes as a rounding tie");
    }
}

/// Few tokens are summed in another order than many, which can carry an element over the edge between two codes;
/// then, and only then, logits may differ by more than rounding.
#[test]
fn the_continuation_may_come_in_chunks_of_any_size() {
    for model in all() {
        for (index, expected) in model.expected["cases"].as_array().unwrap().iter().enumerate() {
            let case = case(&model, expected);
            let (at_once, whole) = run(&model, &case, None);
            let shape = model.decoder.shape();
            for chunk in [1, 7, 33] {
                let (in_chunks, parts) = run(&model, &case, Some(chunk));
                let (distance, ties) = (far(&in_chunks, &at_once), ties(shape, &whole, &parts));
                let what = format!("{} case {index}, chunks of {chunk}: {distance}, {ties} ties", model.name);
                if ties == 0 {
                    assert!(distance < CHUNKED, "{what}");
                } else {
                    eprintln!("{what}");
                    assert!(f64::from(distance) < LOGITS_AFTER_A_TIE, "{what}");
                }
            }
        }
    }
}
