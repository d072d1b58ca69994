use std::ops::ControlFlow;

use kvtune::cache::{CacheKind, Units};
use kvtune::model::{generate, to_host};
use kvtune::precision::PrecisionMap;
use kvtune::quant::Scheme;
use kvtune::score::simulation;

use crate::fixture::{all, numbers};

/// Full-precision logits against the reference implementation's, f32 on both sides.
const LOGITS: f64 = 1e-3;

#[test]
fn full_precision_logits_are_the_references() {
    for model in all() {
        let hidden = model.decoder.forward(&model.ids, &mut model.decoder.full_caches()).unwrap();
        let logits = to_host(model.decoder.logits(hidden));
        let vocab = model.decoder.config().vocab_size;
        let row = |position: usize| &logits[position * vocab..][..vocab];
        let last = row(model.ids.len() - 1);
        for (id, (found, expected)) in
            last.iter().zip(numbers(&model.expected["full_logits_last"])).enumerate()
        {
            assert!(
                (f64::from(*found) - expected).abs() < LOGITS,
                "{}: {id}: {found}, {expected}",
                model.name
            );
        }
        for top in model.expected["full_top"].as_array().unwrap() {
            let position = top["pos"].as_u64().unwrap() as usize;
            let (ids, expected) = (numbers(&top["ids"]), numbers(&top["logits"]));
            let best = kvtune_kernels::statistics::arg_max(row(position));
            assert_eq!(best, Some(ids[0] as usize), "{} at {position}", model.name);
            for (id, expected) in ids.iter().zip(expected) {
                let found = f64::from(row(position)[*id as usize]);
                assert!((found - expected).abs() < LOGITS, "{} at {position}: {found}", model.name);
            }
        }
    }
}

/// Every backend gets the plain operations; flex overrides them.
#[test]
fn plain_operations_say_what_the_fused_ones_say() {
    for model in all() {
        let fused = model.decoder.forward(&model.ids, &mut model.decoder.full_caches()).unwrap();
        let plain = model.plain.forward(&model.ids, &mut model.plain.full_caches()).unwrap();
        let pairs = to_host(model.decoder.logits(fused)).into_iter().zip(to_host(model.plain.logits(plain)));
        for (fused, plain) in pairs {
            assert!((f64::from(fused) - f64::from(plain)).abs() < LOGITS, "{}: {fused}, {plain}", model.name);
        }
    }
}

#[test]
fn prompts_side_by_side_go_on_as_each_does_alone() {
    let go_on = |_: u32| ControlFlow::Continue(());
    for model in all() {
        let prompts = [&model.ids[..5], &model.ids[3..40], &model.ids[7..8]];
        let caches = || model.decoder.full_caches();
        let each = |_, token| go_on(token);
        let together = generate::greedy_many(&model.decoder, caches, &prompts, 12, 2, &each).unwrap();
        for (prompt, together) in prompts.iter().zip(&together) {
            let alone = generate::greedy(&model.decoder, &mut caches(), prompt, 12, go_on).unwrap();
            assert_eq!(&alone, together, "{}", model.name);
        }
    }
}

#[test]
fn a_prefix_that_prompts_share_is_read_as_if_each_had_its_own() {
    let map = |layers| PrecisionMap::uniform(layers, "K4V2".parse().unwrap());
    for model in all() {
        let (decoder, ids) = (&model.decoder, &model.ids[..60]);
        let simulation = simulation(decoder, &Scheme::kivi(), ids.len()).unwrap();
        let prefill = simulation.scheme().prefill;
        for kind in [CacheKind::Full, CacheKind::Simulated, CacheKind::Packed] {
            let empty = |units: &Units| {
                simulation.any(kind, &map(decoder.config().num_hidden_layers), units).unwrap()
            };
            let units = Units::with_prefix(40, 60, prefill);
            let whole = to_host(decoder.forward(ids, &mut empty(&units)).unwrap());
            let mut shared = empty(&Units::open_prefix(40, prefill));
            decoder.forward(&ids[..40], &mut shared).unwrap();
            let mut forked: Vec<_> = shared.iter().map(|cache| cache.fork(&units)).collect();
            let rest = to_host(decoder.forward(&ids[40..], &mut forked).unwrap());
            assert_eq!(rest, whole[whole.len() - rest.len()..], "{} {kind}", model.name);
        }
    }
}
