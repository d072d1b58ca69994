#![allow(clippy::float_cmp, reason = "codecs promise exact values")]

use proptest::prelude::*;

use super::*;

const WIDTHS: [u8; 7] = [1, 2, 3, 4, 5, 6, 8];

fn options(zero: Zero, metadata: Metadata, one_bit: OneBit, codebook: Codebook) -> CodecOptions {
    CodecOptions { zero, metadata, one_bit, codebook }
}

/// Plain round-to-nearest with f32 metadata.
fn rtn(bits: u8) -> Codec {
    Codec::new(bits, options(Zero::Float, Metadata::F32, OneBit::Rtn, Codebook::Uniform)).expect("a codec")
}

fn two_level(metadata: Metadata) -> Codec {
    Codec::new(1, CodecOptions { metadata, ..CodecOptions::default() }).expect("a codec")
}

/// Every codec there is.
fn codecs() -> Vec<Codec> {
    let mut codecs = Vec::new();
    for bits in WIDTHS {
        for zero in [Zero::Float, Zero::Rounded] {
            for metadata in [Metadata::F32, Metadata::F16] {
                for one_bit in [OneBit::TwoLevel, OneBit::Rtn] {
                    for codebook in [Codebook::Uniform, Codebook::LloydMax] {
                        codecs.extend(Codec::new(bits, options(zero, metadata, one_bit, codebook)));
                    }
                }
            }
        }
    }
    codecs
}

fn quantized(codec: Codec, group: &[f32]) -> Vec<f32> {
    let mut out = group.to_vec();
    codec.fake_quant(&mut out).expect("a group that fits");
    out
}

/// Normal numbers (Box–Muller over a xorshift generator).
fn normal(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 11) as f64 + 1.0) / (1_u64 << 53) as f64
    };
    let mut next = move || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    (0..len).map(|_| next() as f32).collect()
}

fn mean_square_error(codec: Codec, group: &[f32]) -> f64 {
    let read = quantized(codec, group);
    let total: f64 = group.iter().zip(&read).map(|(x, y)| f64::from(x - y).powi(2)).sum();
    total / group.len() as f64
}

#[test]
fn two_bits_by_hand() {
    let mut codes = [9; 4];
    let meta = rtn(2).encode(&[-1.0, 0.0, 0.4, 2.0], &mut codes).expect("fits");
    assert_eq!((codes, meta), ([0, 1, 1, 3], Meta { first: 1.0, second: -1.0 }));
    assert_eq!(quantized(rtn(2), &[-1.0, 0.0, 0.4, 2.0]), [-1.0, 0.0, 0.0, 2.0]);
}

#[test]
fn ties_go_to_even() {
    let mut codes = [9; 5];
    rtn(2).encode(&[0.0, 0.5, 1.5, 2.5, 3.0], &mut codes).expect("fits");
    assert_eq!(codes, [0, 0, 2, 2, 3]);
}

#[test]
fn rounded_zero_by_hand() {
    let rounded = options(Zero::Rounded, Metadata::F32, OneBit::Rtn, Codebook::Uniform);
    let codec = Codec::new(2, rounded).expect("a codec");
    let mut codes = [9; 3];
    // s = 1, round(min/s) = round(-0.6) = -1, z = -1 + 2 = 1; q = round(x - 1) in -2..=1.
    let meta = codec.encode(&[-0.6, 0.2, 2.4], &mut codes).expect("fits");
    assert_eq!((codes, meta), ([0, 1, 3], Meta { first: 1.0, second: 1.0 }));
    assert_eq!(quantized(codec, &[-0.6, 0.2, 2.4]), [-1.0, 0.0, 2.0]);
}

#[test]
fn one_bit_gives_the_two_conditional_means() {
    assert_eq!(quantized(two_level(Metadata::F32), &[0.0, 1.0, 5.0, 10.0]), [0.5, 0.5, 7.5, 7.5]);
}

#[test]
fn f16_metadata_is_rounded_before_coding() {
    // z = 2049 is stored as 2048 and s = 1 as it is, so 2050 lies two steps up, not one.
    let codec = Codec::new(2, options(Zero::Float, Metadata::F16, OneBit::Rtn, Codebook::Uniform));
    let mut codes = [9; 3];
    let meta = codec.expect("a codec").encode(&[2049.0, 2050.0, 2052.0], &mut codes).expect("fits");
    assert_eq!((codes, meta), ([1, 2, 3], Meta { first: 1.0, second: 2048.0 }));
}

#[test]
fn a_scale_that_f16_rounds_to_zero_gives_code_zero() {
    let codec = Codec::new(4, CodecOptions::default()).expect("a codec");
    let mut codes = [9; 2];
    let meta = codec.encode(&[1.0, 1.0 + f32::EPSILON], &mut codes).expect("fits");
    assert_eq!((codes, meta), ([0, 0], Meta { first: 0.0, second: 1.0 }));
}

#[test]
fn what_f16_cannot_hold_is_an_error_with_the_way_out() {
    let codec = Codec::new(1, options(Zero::Float, Metadata::F16, OneBit::Rtn, Codebook::Uniform));
    let error = codec.expect("a codec").fake_quant(&mut [6e4, -6e4]).expect_err("too wide");
    assert_eq!(error.to_string(), "the scale 1.2e5 does not fit f16\n\nhint: set `metadata: f32`");
    for codebook in [Codebook::Uniform, Codebook::LloydMax] {
        for bits in [1, 4] {
            let codec = Codec::new(bits, CodecOptions { codebook, ..CodecOptions::default() });
            let error = codec.expect("a codec").fake_quant(&mut [7e4, 7e4]).expect_err("too large");
            assert!(matches!(error, CodecError::BeyondF16 { .. }), "{error}");
        }
    }
}

#[test]
fn nan_and_infinity_are_refused() {
    for codec in codecs() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut group = normal(37, 1);
            group[35] = bad;
            assert_eq!(codec.fake_quant(&mut group), Err(CodecError::NotFinite));
        }
    }
}

#[test]
fn a_constant_group_is_exact() {
    for codec in codecs().into_iter().filter(|codec| codec.family != Family::Rounded) {
        for constant in [0.0, 1.0 / 3.0, -7.25, 1e-45, 6e4] {
            let expected = match codec.metadata {
                Metadata::F32 => constant,
                Metadata::F16 => half::f16::from_f32(constant).to_f32(),
            };
            for len in [1, 3, 31, 32, 33] {
                assert_eq!(quantized(codec, &vec![constant; len]), vec![expected; len], "{codec:?}");
            }
        }
    }
}

#[test]
fn the_widest_group_of_all_stays_finite() {
    let group = [f32::MAX, -f32::MAX, 0.0, f32::MAX / 2.0, 1.0];
    for bits in [2, 3, 4, 5, 6, 8] {
        let (read, step) = (quantized(rtn(bits), &group), 2.0 * f64::from(f32::MAX) / f64::from(top(bits)));
        for (x, y) in group.iter().zip(read) {
            let error = (f64::from(*x) - f64::from(y)).abs();
            assert!(error <= step * (0.5 + 1e-6), "{bits} bits read {x} as {y}");
        }
    }
    let error = rtn(1).fake_quant(&mut group.clone()).expect_err("the step is beyond f32");
    assert!(matches!(error, CodecError::BeyondF32 { what: "scale", .. }), "{error}");
    let halves = [f32::MAX / 3.0 * 2.0, -f32::MAX / 3.0, -f32::MAX / 3.0, 0.0, 0.0];
    assert!(quantized(two_level(Metadata::F32), &halves).iter().all(|x| x.is_finite()));
}

fn top(bits: u8) -> u32 {
    (1 << bits) - 1
}

#[test]
fn rounded_zero_refuses_an_offset_beyond_f32() {
    let codec = Codec::new(4, options(Zero::Rounded, Metadata::F32, OneBit::Rtn, Codebook::Uniform));
    let error = codec.expect("a codec").fake_quant(&mut [3e38, 3e38]).expect_err("no such offset");
    assert!(matches!(error, CodecError::BeyondF32 { what: "zero", .. }), "{error}");
}

#[test]
fn one_bit_of_normal_data_costs_a_third_of_the_variance() {
    let groups: Vec<Vec<f32>> = (0..400).map(|seed| normal(64, seed + 1)).collect();
    let mean = |codec| groups.iter().map(|group| mean_square_error(codec, group)).sum::<f64>() / 400.0;
    assert!((0.34..0.36).contains(&mean(two_level(Metadata::F16))));
    assert!(mean(rtn(1)) > 2.0, "minimum and maximum are worse than the mean alone");
    for pair in WIDTHS.windows(2) {
        assert!(mean(rtn(pair[0])) > 3.0 * mean(rtn(pair[1])), "{pair:?}");
    }
}

#[test]
fn lloyd_max_reaches_the_error_of_theory() {
    let group = normal(100_000, 7);
    for (bits, theory) in [(1, 0.363_380), (2, 0.117_482), (3, 0.034_548), (4, 0.009_501)] {
        let lloyd = options(Zero::Float, Metadata::F32, OneBit::TwoLevel, Codebook::LloydMax);
        let found = mean_square_error(Codec::new(bits, lloyd).expect("a codec"), &group);
        assert!((found / theory - 1.0).abs() < 0.02, "{bits} bits: {found}, expected {theory}");
    }
}

#[derive(serde::Deserialize)]
struct Golden {
    row: String,
    x: Vec<f32>,
    bits: u8,
    codec: String,
    #[serde(default)]
    zero: Zero,
    metadata: Metadata,
    dequantized: Option<Vec<f32>>,
}

/// PyTorch's values are written with 7 significant digits; ours must read the same to the last of them.
#[test]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn golden_rows_are_met() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/golden/quantizer.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        return eprintln!("skipped: no reference values");
    };
    let rows: Vec<Golden> = serde_json::from_str(&text).expect("the format of the reference");
    for golden in &rows {
        let one_bit = if golden.codec == "rtn" { OneBit::Rtn } else { OneBit::TwoLevel };
        let options = options(golden.zero, golden.metadata, one_bit, Codebook::Uniform);
        let mut found = golden.x.clone();
        let result = Codec::new(golden.bits, options).expect("a codec").fake_quant(&mut found);
        let Golden { row, bits, codec, metadata, .. } = golden;
        let name = format!("{row}, {bits} bits, {codec}, {:?}, {metadata:?}", golden.zero);
        let Some(expected) = &golden.dequantized else {
            assert!(matches!(result, Err(CodecError::BeyondF16 { .. })), "{name}: {result:?}");
            continue;
        };
        result.expect("a group that fits");
        let written = |x: &f32| format!("{x:.6e}").parse::<f32>().expect("a number");
        assert_eq!(found.iter().map(written).collect::<Vec<_>>(), *expected, "{name}");
    }
    assert_eq!(rows.len(), 230);
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let new = |bits, zero, metadata, codebook| {
        Codec::new(bits, options(zero, metadata, OneBit::TwoLevel, codebook)).map(|codec| codec.bits())
    };
    use CodecOptionsError as E;
    for bits in [0, 7, 9, 16] {
        let found = new(bits, Zero::Float, Metadata::F16, Codebook::Uniform);
        assert_eq!(found, Err(E::Bits { found: bits }));
    }
    assert_eq!(new(4, Zero::Rounded, Metadata::F16, Codebook::Uniform), Err(E::RoundedNeedsF32));
    assert_eq!(new(4, Zero::Rounded, Metadata::F32, Codebook::LloydMax), Err(E::RoundedLloydMax));
    assert_eq!(new(5, Zero::Float, Metadata::F32, Codebook::LloydMax), Err(E::LloydMax { found: 5 }));
    assert_eq!(new(4, Zero::Float, Metadata::F32, Codebook::LloydMax), Ok(4));
}

/// Finite floats of every magnitude: denormal, tiny, ordinary, beyond f16, near the end of f32.
fn any_finite() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<u32>().prop_map(f32::from_bits).prop_filter("finite", |x| x.is_finite()),
        -4.0_f32..4.0,
        prop_oneof![Just(0.0), Just(-0.0), Just(f32::MAX), Just(-f32::MAX), Just(1e-45), Just(65504.0)],
    ]
}

fn any_group() -> impl Strategy<Value = Vec<f32>> {
    prop_oneof![
        prop::collection::vec(any_finite(), 0..70),
        (any_finite(), 1_usize..40).prop_map(|(x, len)| vec![x; len]),
        prop::collection::vec(-3.0_f32..3.0, 1..70),
    ]
}

proptest! {
    #[test]
    fn encode_and_decode_equal_fake_quant_and_stay_finite(group in any_group()) {
        for codec in codecs() {
            let (mut codes, mut decoded) = (vec![255; group.len()], vec![f32::NAN; group.len()]);
            let mut faked = group.clone();
            match codec.encode(&group, &mut codes) {
                Ok(meta) => {
                    codec.decode(&codes, meta, &mut decoded);
                    codec.fake_quant(&mut faked).expect("encode took it");
                    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    prop_assert_eq!(bits(&faked), bits(&decoded), "{:?}", codec);
                    prop_assert!(faked.iter().all(|x| x.is_finite()), "{:?}", codec);
                    prop_assert!(codes.iter().all(|&code| u32::from(code) <= top(codec.bits)));
                }
                Err(error) => {
                    prop_assert_eq!(codec.fake_quant(&mut faked), Err(error));
                    prop_assert_eq!(faked, group.clone());
                }
            }
        }
    }

    #[test]
    fn round_trip_is_within_half_a_step(group in any_group()) {
        for bits in WIDTHS {
            let mut codes = vec![0; group.len()];
            let Ok(meta) = rtn(bits).encode(&group, &mut codes) else { continue };
            let mut read = vec![0.0; group.len()];
            rtn(bits).decode(&codes, meta, &mut read);
            let largest = group.iter().fold(0.0, |top: f64, x| top.max(f64::from(x.abs())));
            // Rounding of the scale (times at most 255), of x - z and of the result, and denormals.
            let slack = 1e-6 * largest + 256.0 * f64::from(f32::from_bits(1));
            for (x, y) in group.iter().zip(&read) {
                let error = (f64::from(*x) - f64::from(*y)).abs();
                let step = f64::from(meta.first);
                prop_assert!(error <= step / 2.0 * (1.0 + 1e-4) + slack, "{} bits: {} read as {}", bits, x, y);
            }
        }
    }

    #[test]
    fn columns_equal_their_groups(
        rows in 0_usize..40, columns in 0_usize..70, seed in 1_u64..1000, extra in 0_usize..3,
    ) {
        let block = normal(rows * columns + extra.min(columns.saturating_sub(1)), seed);
        for codec in codecs() {
            let mut found = block.clone();
            codec.fake_quant_columns(&mut found, columns).expect("fits");
            let mut expected = block.clone();
            for column in 0..columns {
                let group: Vec<f32> = (0..rows).map(|row| block[row * columns + column]).collect();
                for (row, x) in quantized(codec, &group).into_iter().enumerate() {
                    expected[row * columns + column] = x;
                }
            }
            prop_assert_eq!(found, expected, "{:?}", codec);
        }
    }

    #[test]
    fn groups_in_a_row_are_coded_apart(len in 0_usize..100, size in 1_usize..40, seed in 1_u64..1000) {
        let data = normal(len, seed);
        let codec = Codec::new(3, CodecOptions::default()).expect("a codec");
        let mut found = data.clone();
        codec.fake_quant_groups(&mut found, size).expect("fits");
        let expected: Vec<f32> = data.chunks(size).flat_map(|group| quantized(codec, group)).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_bad_group_is_named() {
    let mut data = vec![0.5; 40];
    data[38] = f32::NAN;
    let codec = two_level(Metadata::F32);
    let expected = |group| Err(GroupError { group, error: CodecError::NotFinite });
    assert_eq!(codec.fake_quant_groups(&mut data.clone(), 16), expected(2));
    assert_eq!(codec.fake_quant_columns(&mut data.clone(), 20), expected(18));
    assert_eq!(rtn(4).fake_quant_columns(&mut data.clone(), 40), expected(38));
    data[7] = f32::INFINITY;
    assert_eq!(rtn(4).fake_quant_columns(&mut data, 20), expected(7));
}

#[test]
fn one_column_of_the_widest_range_does_not_disturb_the_others() {
    let mut block = normal(32 * 16, 5);
    (block[3], block[16 + 3]) = (f32::MAX, -f32::MAX);
    let mut found = block.clone();
    rtn(4).fake_quant_columns(&mut found, 16).expect("fits");
    for column in 0..16 {
        let of = |block: &[f32]| block.iter().skip(column).step_by(16).copied().collect::<Vec<_>>();
        assert_eq!(of(&found), quantized(rtn(4), &of(&block)), "column {column}");
    }
}
