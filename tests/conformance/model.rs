use kvtune::model::to_host;
use kvtune::score::full_caches;

use crate::fixture::{all, numbers};

/// Full-precision logits against the reference implementation's, f32 on both sides.
const LOGITS: f64 = 1e-3;

#[test]
fn full_precision_logits_are_the_references() {
    for model in all() {
        let hidden = model.decoder.forward(&model.ids, &mut full_caches(&model.decoder)).unwrap();
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
        let fused = model.decoder.forward(&model.ids, &mut full_caches(&model.decoder)).unwrap();
        let plain = model.plain.forward(&model.ids, &mut full_caches(&model.plain)).unwrap();
        let pairs = to_host(model.decoder.logits(fused)).into_iter().zip(to_host(model.plain.logits(plain)));
        for (fused, plain) in pairs {
            assert!((f64::from(fused) - f64::from(plain)).abs() < LOGITS, "{}: {fused}, {plain}", model.name);
        }
    }
}
