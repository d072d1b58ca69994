//! On a table that can be done by hand.

use kvtune::precision::PrecisionPair;
use kvtune::report::{EvaluationKind, EvaluationRow, SensitivityRow};
use kvtune::space::Space;

use super::*;

const BITS: [f64; 3] = [2.0, 4.0, 8.0];
/// KL of each choice of each group alone; losses add up.
const KL: [[f64; 3]; 2] = [[9.0, 4.0, 0.0], [3.0, 1.0, 0.0]];

fn row(space: &Space, kind: EvaluationKind, genome: &[usize], kl: f64) -> EvaluationRow {
    let alone = |genome: &[usize]| space.alone(genome[0], genome[1]).expect("a candidate");
    let whole = |genome: &[usize]| space.map(&Genome::new(genome.to_vec())).expect("a genome");
    let map = if kind == EvaluationKind::Isolated { alone(genome) } else { whole(genome) };
    let bits = genome.iter().map(|&choice| BITS[choice]).sum::<f64>() / 2.0;
    let genome = if kind == EvaluationKind::Search { genome.to_vec() } else { Vec::new() };
    EvaluationRow {
        index: 0,
        key: String::new(),
        kind,
        genome,
        map,
        equivalent_bits: bits,
        storage_bits: bits,
        cache_bytes: 0,
        flips: kl / 20.0,
        kl,
        nll: kl,
        loss: kl,
    }
}

fn error(layer: usize, pair: PrecisionPair) -> SensitivityRow {
    SensitivityRow {
        layer,
        pair,
        equivalent_bits: pair.mean_bits(),
        e_k_l1: 0.0,
        e_k_elementwise: 0.0,
        e_v_l1: 0.0,
        e_v_elementwise: 0.0,
        e_a: 0.0,
        e_o_l1: 1.0 / pair.mean_bits(),
        e_o_elementwise: 0.0,
    }
}

fn folder() -> Folder {
    let text = "
n_layers: 2
pairs: [KV8, KV4, KV2]
groups: [{layers: [0], candidates: [KV2, KV4, KV8]}, {layers: [1], candidates: [KV2, KV4, KV8]}]
";
    let space: Space = serde_yaml::from_str(text).expect("a space");
    let mut evaluations = Vec::new();
    for (a, b) in (0..3).flat_map(|a| (0..3).map(move |b| (a, b))) {
        let kinds = [EvaluationKind::Search, EvaluationKind::Uniform];
        for kind in kinds.into_iter().take(if a == b { 2 } else { 1 }) {
            evaluations.push(row(&space, kind, &[a, b], KL[0][a] + KL[1][b]));
        }
    }
    for (group, choice) in (0..2).flat_map(|group| (0..3).map(move |choice| (group, choice))) {
        evaluations.push(row(&space, EvaluationKind::Isolated, &[group, choice], KL[group][choice]));
    }
    let pairs = || space.pairs().iter().copied();
    let sensitivity = (0..2).flat_map(|layer| pairs().map(move |pair| error(layer, pair))).collect();
    Folder::of(space, sensitivity, evaluations)
}

fn arena(folder: &Folder, max_bits: Option<f64>) -> Arena {
    Arena::of(folder, Objective::Kl, max_bits).expect("a whole table")
}

#[test]
fn the_exact_front_is_the_one_done_by_hand() {
    // Front (2, 12) (3, 7) (4, 5) (5, 3) (6, 1) (8, 0) in the box that ends at (8.8, 13.2).
    let exact = 6.8 * 1.2 + 5.8 * 5.0 + 4.8 * 2.0 + 3.8 * 2.0 + 2.8 * 2.0 + 0.8;
    assert!((arena(&folder(), None).exact - exact).abs() < 1e-9);
    // Up to 4 bits the box ends at (4.4, 13.2).
    let exact = 2.4 * 1.2 + 1.4 * 5.0 + 0.4 * 2.0;
    assert!((arena(&folder(), Some(4.0)).exact - exact).abs() < 1e-9);
}

#[test]
fn measurements_are_charged() {
    let arena = arena(&folder(), None);
    let compete = |start, evaluations| {
        arena.compete(Algorithm::Additive, start, evaluations).expect("runs").expect("a row")
    };
    // 6 measurements leave 6 evaluations of 12, enough for the 6 points of the front; of 6 they leave none.
    let row = compete(Start::Isolated, 12);
    assert_eq!(row.measurements, 6);
    assert!(row.hypervolume.is_some_and(|share| (share - 1.0).abs() < 1e-12));
    assert_eq!(compete(Start::Isolated, 6).hypervolume, None);
    assert_eq!(compete(Start::Scaled(2), 12).measurements, 4);
    assert_eq!(compete(Start::Scaled(1), 12).measurements, 2);
    // The same 6 points of 7 evaluations, when 1 is left, are one point.
    assert!(compete(Start::Isolated, 7).hypervolume.is_some_and(|share| share < 0.9));
}

#[test]
fn a_table_with_a_hole_is_refused() {
    let mut folder = folder();
    folder.evaluations.remove(2);
    let error = Arena::of(&folder, Objective::Kl, None).err().expect("refused").to_string();
    assert!(error.contains("has 8 of the space's 10^1.0 configurations"), "{error}");
}
