#![allow(clippy::float_cmp, reason = "the same bits are promised")]

use half::{bf16, f16};

use super::*;

/// Of a sum in f32, relative to the sum of magnitudes.
const ROUNDING: f64 = 1e-6;

impl InstructionSet {
    /// All that this processor has.
    fn all() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let wide = [
            pulp::x86::V4::try_new().map(Self::Avx512),
            pulp::x86::V3::try_new().map(Self::Avx2),
            Some(Self::Portable),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let wide = [Some(Self::Portable)];
        wide.into_iter().flatten().collect()
    }

    fn product(self, x: &[f32], weight: Weights<'_>, width: usize) -> Vec<f32> {
        let mut out = vec![f32::NAN; x.len() / width.max(1) * (weight.len() / width.max(1))];
        self.multiply(&mut out, x, weight, width);
        out
    }
}

/// Numbers of both signs that f16 and bf16 hold exactly.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 37 + seed) % 101) as f32 / 32.0 - 1.5).collect()
}

/// Sum and sum of magnitudes of each element, one product after the other.
fn reference(x: &[f32], weight: &[f32], width: usize) -> Vec<(f64, f64)> {
    let dot = |(x, w): (&[f32], &[f32])| {
        let products = x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w));
        products.fold((0.0, 0.0), |(sum, magnitude), product| (sum + product, magnitude + product.abs()))
    };
    x.chunks(width).flat_map(|x| weight.chunks(width).map(move |w| dot((x, w)))).collect()
}

#[test]
fn a_product_by_hand() {
    for set in InstructionSet::all() {
        let found = set.product(&[1.0, 2.0, 3.0, 4.0], Weights::F32(&[5.0, 6.0, 7.0, 8.0, 0.5, 0.0]), 2);
        assert_eq!(found, [17.0, 23.0, 0.5, 39.0, 53.0, 1.5], "{set:?}");
    }
}

#[test]
fn every_ragged_shape_is_the_scalar_product() {
    for width in [1, 2, 15, 16, 17, 31, 33, 80, 100] {
        for n in [1, 2, 3, 4, 5, 9] {
            for rows in [1, 2, 3, 4, 5, 6, 7, 9, 11, 13] {
                let (x, weight) = (numbers(rows * width, 5), numbers(n * width, 77));
                let expected = reference(&x, &weight, width);
                for set in InstructionSet::all() {
                    let found = set.product(&x, Weights::F32(&weight), width);
                    for (found, (sum, magnitude)) in found.iter().zip(&expected) {
                        let off = (f64::from(*found) - sum).abs();
                        assert!(off <= ROUNDING * magnitude, "{set:?} {rows} × {width} × {n}: off by {off}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_shape_without_elements_is_no_product() {
    for set in InstructionSet::all() {
        assert!(set.product(&[], Weights::F32(&[1.0, 2.0]), 2).is_empty());
        assert!(set.product(&[1.0, 2.0], Weights::F32(&[]), 2).is_empty());
        let mut out = [f32::NAN; 6];
        set.multiply(&mut out, &[], Weights::F32(&[]), 0);
        assert_eq!(out, [0.0; 6], "sums of nothing");
    }
}

#[test]
fn the_type_that_weights_are_held_in_changes_no_bit() {
    let (width, n, rows) = (37, 11, 3);
    let (x, weight) = (numbers(rows * width, 3), numbers(n * width, 11));
    let x: Vec<f32> = x.iter().map(|x| x / 7.0).collect();
    let (half, brain): (Vec<f16>, Vec<bf16>) =
        weight.iter().map(|&w| (f16::from_f32(w), bf16::from_f32(w))).collect();
    for set in InstructionSet::all() {
        let single = set.product(&x, Weights::F32(&weight), width);
        assert_eq!(set.product(&x, Weights::F16(&half), width), single, "{set:?} f16");
        assert_eq!(set.product(&x, Weights::Bf16(&brain), width), single, "{set:?} bf16");
    }
}

#[test]
fn every_finite_f16_and_bf16_is_widened_exactly() {
    for set in InstructionSet::all() {
        for bits in (0..=u16::MAX).step_by(16) {
            let all: [u16; 16] = std::array::from_fn(|i| bits + i as u16);
            // One column a product: the element itself.
            let half: Vec<f16> =
                all.iter().map(|&bits| f16::from_bits(bits)).filter(|x| x.is_finite()).collect();
            let brain: Vec<bf16> =
                all.iter().map(|&bits| bf16::from_bits(bits)).filter(|x| x.is_finite()).collect();
            let expected: Vec<f32> = half.iter().map(|x| x.to_f32()).collect();
            assert_eq!(set.product(&[1.0], Weights::F16(&half), 1), expected, "{set:?} f16 {bits:#x}");
            let expected: Vec<f32> = brain.iter().map(|x| x.to_f32()).collect();
            assert_eq!(set.product(&[1.0], Weights::Bf16(&brain), 1), expected, "{set:?} bf16 {bits:#x}");
        }
    }
}

#[test]
fn a_row_is_the_same_bits_among_others_and_on_any_number_of_threads() {
    // More weights than one task takes, more rows than one block.
    let (width, n, rows) = (1523, 211, 13);
    let (x, weight) = (numbers(rows * width, 9), numbers(n * width, 31));
    let x: Vec<f32> = x.iter().map(|x| x / 3.0).collect();
    for set in InstructionSet::all() {
        let all = set.product(&x, Weights::F32(&weight), width);
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            for (row, expected) in x.chunks(width).zip(all.chunks(n)) {
                let alone = pool.install(|| set.product(row, Weights::F32(&weight), width));
                assert_eq!(alone, expected, "{set:?} on {threads} threads");
            }
            assert_eq!(pool.install(|| set.product(&x, Weights::F32(&weight), width)), all, "{set:?}");
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn both_widths_of_vectors_sum_in_one_order() {
    let (width, n, rows) = (345, 14, 5);
    let (x, weight) = (numbers(rows * width, 1), numbers(n * width, 2));
    let x: Vec<f32> = x.iter().map(|x| x / 3.0).collect();
    let (Some(wide), Some(narrow)) = (pulp::x86::V4::try_new(), pulp::x86::V3::try_new()) else { return };
    let narrow = InstructionSet::Avx2(narrow).product(&x, Weights::F32(&weight), width);
    assert_eq!(InstructionSet::Avx512(wide).product(&x, Weights::F32(&weight), width), narrow);
}
