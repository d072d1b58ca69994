use kvtune::cache::{CacheKind, Units};
use kvtune::model::to_host;
use kvtune::precision::{Bits, PrecisionMap, PrecisionPair};
use kvtune::quant::Scheme;
use kvtune_kernels::statistics::{arg_max, divergence, log_sum_exp};
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

/// Logits of all positions: the prompt at once, or prompt and continuation at once when `chunk` is `None`.
fn logits(model: &Fixture, case: &Case, kind: CacheKind, chunk: Option<usize>) -> Vec<f32> {
    let simulation = model.simulation(&case.scheme);
    let units = Units::prompt(case.prompt_len, case.scheme.prefill);
    let mut caches = simulation.any(kind, &case.map, &units).unwrap();
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
    all
}

fn far(found: &[f32], expected: &[f32]) -> f32 {
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn every_case_of_the_cache_policy_is_the_references() {
    every_case(CacheKind::Simulated, None);
}

#[test]
fn codes_read_token_by_token_are_the_references() {
    every_case(CacheKind::Simulated, Some(1));
}

#[test]
fn packed_codes_in_one_pass_are_the_references() {
    every_case(CacheKind::Packed, None);
}

#[test]
fn packed_codes_read_token_by_token_are_the_references() {
    every_case(CacheKind::Packed, Some(1));
}

fn every_case(kind: CacheKind, chunk: Option<usize>) {
    for model in all() {
        let hidden = model.decoder.forward(&model.ids, &mut model.decoder.full_caches()).unwrap();
        let full = to_host(model.decoder.logits(hidden));
        for (index, expected) in model.expected["cases"].as_array().unwrap().iter().enumerate() {
            let case = case(&model, expected);
            let found = logits(&model, &case, kind, chunk);
            check(&model, &case, expected, &full, &found, &format!("{} case {index} {kind}", model.name));
        }
    }
}

fn check(model: &Fixture, case: &Case, expected: &Value, full: &[f32], found: &[f32], what: &str) {
    let vocab = model.decoder.config().vocab_size;
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
        "{what} {}: logits off by {distance:.2e}, KL {kl:.6} for {expected_kl:.6}, {flips} flips",
        expected["scheme"]
    );
    eprintln!("{what}");
    assert!(distance < LOGITS_AFTER_A_TIE, "{what}");
    assert!((kl / expected_kl - 1.0).abs() < KL, "{what}");
    if distance >= LOGITS {
        eprintln!("  passes as a rounding tie");
    }
}

#[test]
fn the_continuation_may_come_in_chunks_of_any_size() {
    for model in all() {
        for (index, expected) in model.expected["cases"].as_array().unwrap().iter().enumerate() {
            let case = case(&model, expected);
            // Fewer packed tokens go through a kernel that adds in another order, which can move a code: they are
            // held to the reference itself.
            for (kind, chunks) in [(CacheKind::Simulated, &[1, 7, 33][..]), (CacheKind::Packed, &[33])] {
                let at_once = logits(&model, &case, kind, None);
                for &chunk in chunks {
                    let distance = far(&logits(&model, &case, kind, Some(chunk)), &at_once);
                    let what = format!("{} case {index} {kind}, chunks of {chunk}", model.name);
                    assert!(distance < CHUNKED, "{what}: {distance}");
                }
            }
        }
    }
}
