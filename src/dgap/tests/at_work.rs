use super::*;
use crate::model::restore::{Restore, Step};

/// Logits on a grid of 1/64, so that adding a small whole number to them is exact.
fn step_logits(seed: u64) -> Vec<f32> {
    numbers(VOCAB, 4.0, &mut random(seed)).iter().map(|z| (z * 64.0).round() / 64.0).collect()
}

/// What a corrector makes of two steps of one sequence.
fn repaired(heads: &Heads, kind: Corrector, shift: f32) -> Vec<Vec<f32>> {
    let readout = readout();
    let restorer = Restorer::new(heads, Path::new("h"), Some(kind), None, &readout).expect("it is there");
    let mut history = restorer.begin(0);
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
        let mut history = restorer.begin(0);
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

/// Runs the exported processor on the steps of `repaired`; `None` where there is no Python with numpy.
fn in_python(heads: &Heads, kind: Corrector) -> Option<Vec<Vec<f32>>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("dgap.safetensors");
    heads.write(&path).expect("written");
    export::python(&path, Some(kind), &folder.path().join("dgap_processor.py")).expect("written");
    let steps = serde_json::to_string(&[31, 32].map(step_logits)).expect("JSON");
    let script = "import json, sys\nfrom dgap_processor import Dgap\ndgap = Dgap()\n\
                  print(json.dumps([dgap(step, 40).tolist() for step in json.loads(sys.argv[1])]))";
    let mut python = std::process::Command::new("python3");
    let output = python.current_dir(folder.path()).args(["-c", script, &steps]).output().ok()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if errors.contains("No module named 'numpy'") {
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[test]
#[allow(clippy::print_stderr, reason = "says that it was skipped")]
fn the_exported_processor_gives_our_logits() {
    let heads = heads();
    for kind in [Corrector::Temperature, Corrector::TokenBias, Corrector::C0, Corrector::C2] {
        let Some(found) = in_python(&heads, kind) else {
            eprintln!("skipped: there is no python3 with numpy");
            return;
        };
        let expected = repaired(&heads, kind, 0.0);
        for (found, expected) in found.concat().iter().zip(expected.concat()) {
            assert!((found - expected).abs() < 2e-5, "{kind}: {found} for {expected}");
        }
    }
}
