use burn::backend::Autodiff;

use super::super::heads::{Bounds, Input, Rows, bounded, correct};
use super::super::loss::{Divergence, LossWeights, Target, cross_entropy, loss};
use super::*;

/// Three steps with random margins, features and hidden states.
fn rows(seed: u64) -> Rows {
    let mut random = random(seed);
    let mut margins = Vec::new();
    for _ in 0..3 {
        let mut row = numbers(TOP_K, 2.0, &mut random);
        row.sort_by(|a, b| b.total_cmp(a));
        margins.extend(row.iter().map(|z| z - row[0]));
    }
    Rows {
        margins,
        features: numbers(3 * shape().features, 1.0, &mut random),
        ids: (0..3 * TOP_K as u32).map(|id| id % VOCAB as u32).collect(),
        hidden: numbers(3 * HIDDEN, 2.0, &mut random),
    }
}

fn input(rows: &Rows) -> Input<Flex> {
    Input::new(rows, shape(), &standard(shape().features), &standard(HIDDEN), &device())
}

fn tensors(weights: &[Matrix]) -> Vec<Tensor<Flex, 2>> {
    weights.iter().map(|matrix| matrix.tensor(&device())).collect()
}

#[test]
fn a_fresh_corrector_changes_nothing_to_the_bit() {
    let input = input(&rows(1));
    for kind in Corrector::ALL {
        let weights = tensors(&kind.init(shape(), SIZES, &mut random(2)));
        let delta = bounded(correct(kind, &weights, &input, &readout()), &input.margins, Bounds::default());
        let delta = crate::model::to_host(delta);
        assert!(delta.iter().all(|shift| shift.to_bits() << 1 == 0), "{kind}: {delta:?}");
    }
}

#[test]
fn a_correction_is_clipped_and_keeps_the_mass_of_the_candidates() {
    let input = input(&rows(1));
    for head in heads().correctors {
        let raw = correct(head.kind, &tensors(&head.weights), &input, &readout()) * 50.0;
        let bounds = Bounds { clip: 2.0, keep_mass: false };
        let delta = crate::model::to_host(bounded(raw.clone(), &input.margins, bounds));
        assert!(delta.iter().all(|shift| shift.abs() <= 2.0), "{}", head.kind);
        let bounds = Bounds { clip: 2.0, keep_mass: true };
        let delta = bounded(raw, &input.margins, bounds);
        let mass = |logits: Tensor<Flex, 2>| crate::model::to_host(logits.exp().sum_dim(1));
        let (before, after) = (mass(input.margins.clone()), mass(input.margins.clone() + delta));
        assert!(before.iter().zip(after).all(|(a, b)| (a - b).abs() < 1e-5 * a), "{}", head.kind);
    }
}

#[test]
fn the_net_over_the_set_does_not_see_the_order_of_its_candidates() {
    let heads = heads();
    let c2 = heads.correctors.iter().find(|head| head.kind == Corrector::C2).expect("c2");
    let shifts = |rows: &Rows| {
        crate::model::to_host(correct(c2.kind, &tensors(&c2.weights), &input(rows), &readout()))
    };
    let plain = rows(4);
    let mut turned = plain.clone();
    turned.margins.chunks_mut(TOP_K).for_each(<[f32]>::reverse);
    let mut expected = shifts(&plain);
    expected.chunks_mut(TOP_K).for_each(<[f32]>::reverse);
    assert!(shifts(&turned).iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5));
}

fn target<B: Backend>(device: &B::Device) -> Target<B> {
    let mut random = random(8);
    let shares = |random: &mut ChaCha8Rng| {
        let mut row: Vec<f32> = numbers(TOP_K + 1, 0.45, random).iter().map(|x| x + 0.5).collect();
        let sum: f32 = row.iter().sum();
        row.iter_mut().for_each(|x| *x /= sum);
        row
    };
    let (mut p, mut p_rest, mut order, mut weights) = (vec![], vec![], vec![], vec![]);
    for _ in 0..3 {
        let row = shares(&mut random);
        let mut ranks: Vec<i32> = (0..TOP_K as i32).collect();
        ranks.sort_by(|&a, &b| row[b as usize].total_cmp(&row[a as usize]));
        weights.extend(ranks.iter().map(|&rank| row[rank as usize]));
        order.extend(ranks);
        p_rest.push(row[TOP_K]);
        p.extend(&row[..TOP_K]);
    }
    let matrix = |data: Vec<f32>, width| Tensor::from_data(TensorData::new(data, [3, width]), device);
    Target {
        p: matrix(p, TOP_K),
        p_rest: matrix(p_rest, 1),
        rest: matrix(vec![0.5, 0.1, 1.5], 1),
        order: Tensor::from_data(TensorData::new(order, [3, TOP_K]), device),
        order_weights: matrix(weights, TOP_K),
        quiet: matrix(vec![0.0, 1.0, 0.0], 1),
    }
}

/// Gradients by autodiff against central differences, whose error is about the square of the step.
#[test]
fn gradients_of_losses_are_their_slopes() {
    const STEP: f32 = 5e-3;
    let rows = rows(3);
    let start = numbers(3 * TOP_K, 1.0, &mut random(6));
    for divergence in [Divergence::Kl, Divergence::Js] {
        for (ranking, margins) in [(0.0, 0.0), (0.7, 0.0), (0.0, 0.2)] {
            let weights = LossWeights { divergence, ranking, margins, size: 0.1, quiet: 0.3 };
            let value = |delta: Vec<f32>| {
                let tensor = |data: &[f32]| {
                    Tensor::<Flex, 2>::from_data(TensorData::new(data.to_vec(), [3, TOP_K]), &device())
                };
                let found = loss(&tensor(&rows.margins), tensor(&delta), &target::<Flex>(&device()), weights);
                f64::from(found.into_scalar())
            };
            let tensor = |data: &[f32]| {
                Tensor::<Autodiff<Flex>, 2>::from_data(TensorData::new(data.to_vec(), [3, TOP_K]), &device())
            };
            let delta = tensor(&start).require_grad();
            let found = loss(&tensor(&rows.margins), delta.clone(), &target(&device()), weights).backward();
            let gradient = crate::model::to_host(delta.grad(&found).expect("a gradient"));
            for (at, found) in gradient.iter().enumerate() {
                let moved = |by: f32| {
                    let mut delta = start.clone();
                    delta[at] += by;
                    value(delta)
                };
                let slope = (moved(STEP) - moved(-STEP)) / (2.0 * f64::from(STEP));
                let error = (f64::from(*found) - slope).abs();
                assert!(error < 2e-4, "{divergence:?} {ranking} {margins} {at}: {found} for {slope}");
            }
        }
    }
}

#[test]
fn the_gradient_of_cross_entropy_is_the_error_of_the_probability() {
    let tensor =
        |data: Vec<f32>| Tensor::<Autodiff<Flex>, 2>::from_data(TensorData::new(data, [2, 1]), &device());
    let odds = tensor(vec![0.3, -1.2]).require_grad();
    let found = cross_entropy(odds.clone(), &tensor(vec![1.0, 0.0]), 3.0).backward();
    let found = crate::model::to_host(odds.grad(&found).expect("a gradient"));
    let probability = |odds: f32| 1.0 / (1.0 + (-odds).exp());
    let expected = [3.0 * (probability(0.3) - 1.0) / 2.0, probability(-1.2) / 2.0];
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} for {expected:?}");
}
