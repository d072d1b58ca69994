use super::*;
use crate::model::generate::{Restore, Step};

/// Logits on a grid of 1/64, so that adding a small whole number to them is exact.
fn step_logits(seed: u64) -> Vec<f32> {
    numbers(VOCAB, 4.0, &mut random(seed)).iter().map(|z| (z * 64.0).round() / 64.0).collect()
}

/// What a corrector makes of two steps of one sequence.
fn repaired(heads: &Heads, kind: Corrector, shift: f32) -> Vec<Vec<f32>> {
    let readout = readout();
    let restorer = Restorer::new(heads, Path::new("h"), Some(kind), None, &readout).expect("it is there");
    let mut history = restorer.begin();
    let last = numbers(HIDDEN, 2.0, &mut random(21));
    let repair = |seed: u64| {
        let mut logits: Vec<f32> = step_logits(seed).iter().map(|z| z + shift).collect();
        let step = Step { length: 40, last: &last, earlier: &[], logits: &mut logits };
        restorer.restore(&mut history, step);
        logits
    };
    [31, 32].into_iter().map(repair).collect()
}

#[test]
fn only_candidates_change() {
    for kind in Corrector::ALL {
        for (seed, found) in [31, 32].into_iter().zip(repaired(&heads(), kind, 0.0)) {
            let before = step_logits(seed);
            let candidates: Vec<u32> =
                crate::trace::top_k(&before, TOP_K).into_iter().map(|(id, _)| id).collect();
            let mut changed = 0;
            for (id, (before, after)) in before.iter().zip(&found).enumerate() {
                if candidates.contains(&(id as u32)) {
                    changed += usize::from(before.to_bits() != after.to_bits());
                } else {
                    assert_eq!(before.to_bits(), after.to_bits(), "{kind}: token {id}");
                }
            }
            assert!(changed > 0, "{kind} does nothing");
        }
    }
}

#[test]
fn a_constant_on_all_logits_changes_neither_risk_nor_correction() {
    let heads = heads();
    for kind in Corrector::ALL {
        let (plain, shifted) = (repaired(&heads, kind, 0.0), repaired(&heads, kind, 8.0));
        for (plain, shifted) in plain.concat().iter().zip(shifted.concat()) {
            // The last bits of 8 + z are coarser than those of z.
            assert!((plain + 8.0 - shifted).abs() < 4e-6, "{kind}: {plain} and {shifted}");
        }
    }
}

#[test]
fn a_corrector_of_zeros_changes_nothing_to_the_bit() {
    let mut heads = heads();
    for head in &mut heads.correctors {
        head.weights.iter_mut().for_each(|matrix| matrix.data.fill(0.0));
    }
    for kind in Corrector::ALL {
        let bits = |logits: &[f32]| logits.iter().map(|z| z.to_bits()).collect::<Vec<_>>();
        let found = repaired(&heads, kind, 0.0);
        assert_eq!(
            [bits(&found[0]), bits(&found[1])],
            [31, 32].map(|seed| bits(&step_logits(seed))),
            "{kind}"
        );
    }
}

#[test]
fn a_step_below_the_threshold_stays_as_it_is() {
    let mut heads = heads();
    heads.about.threshold.risk = 2.0;
    assert_eq!(repaired(&heads, Corrector::C3, 0.0), [31, 32].map(step_logits));
}

#[test]
fn decoding_corrects_as_evaluation_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let traced = traced(&folder.path().join("trace.safetensors"));
    let (heads, readout) = (heads(), readout());
    let examples = Examples::new(&traced, &[0], TOP_K, 0.05);
    for kind in Corrector::ALL {
        let corrector = heads.corrector(Path::new("h"), Some(kind)).expect("it is there");
        let detector = heads.detector(Path::new("h")).expect("it is there");
        let loaded = Loaded::of(&heads, detector, corrector, &readout);
        let indices: Vec<usize> = (0..4).collect();
        let expected = loaded.shifts(&examples.rows(&indices, true));
        let restorer = Restorer::new(&heads, Path::new("h"), Some(kind), None, &readout).expect("there");
        let mut history = restorer.begin();
        for at in indices {
            let last = examples.hidden(at);
            let mut logits = vec![0.0; VOCAB];
            let position = traced.sheet(0).position(at);
            position.ids.iter().zip(position.logits).for_each(|(&id, &z)| logits[id as usize] = z);
            let length = position.row.length as usize;
            restorer.restore(&mut history, Step { length, last: &last, earlier: &[], logits: &mut logits });
            for rank in 0..TOP_K {
                let gained = logits[position.ids[rank] as usize] - position.logits[rank];
                let expected = expected[at * TOP_K + rank];
                assert!((gained - expected).abs() < 1e-4, "{kind}, step {at}: {gained} for {expected}");
            }
        }
    }
}
