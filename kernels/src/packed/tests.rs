//! Packed attention against the formula in f64 over what the codec says that codes stand for.

use std::ops::Range;

use proptest::prelude::*;

use super::decode::attend_on_each;
use super::*;
use crate::codec::{Codebook, Codec, CodecOptions, Metadata, OneBit, Zero};
use crate::hadamard::hadamard;
use crate::test_data;

/// Numbers between −1 and 1, with a channel in sixteen larger.
fn noise(tokens: usize, head_dim: usize, seed: u32) -> Vec<f32> {
    let scale = |i: usize| if i % head_dim % 16 == 3 { 16.0 } else { 2.0 };
    let plain = test_data::noise(tokens * head_dim, seed);
    plain.into_iter().enumerate().map(|(i, x)| scale(i) * x).collect()
}

/// What a group reads as after coding.
fn coded(codec: Codec, head_dim: usize, groups: Groups, tokens: &[f32]) -> Vec<f32> {
    let mut out = tokens.to_vec();
    match groups {
        Groups::Channels(size) => {
            for token in out.chunks_mut(head_dim) {
                codec.fake_quant_groups(token, size).expect("finite");
            }
        }
        Groups::Tokens(size) => {
            for block in out.chunks_mut(size * head_dim) {
                codec.fake_quant_columns(block, head_dim).expect("finite");
            }
        }
    }
    out
}

/// One side of a case: how many tokens are sinks, codes, and exact.
struct Held {
    sinks: Vec<f32>,
    packed: PackedHead,
    tail: Vec<f32>,
    /// All of it as it reads, in the original basis.
    read: Vec<f32>,
}

impl Held {
    fn new(layout: Layout, exact: &[f32], sinks: usize, tail: usize, rotated: bool) -> Self {
        let d = layout.head_dim();
        let tokens = exact.len() / d;
        let coded_tokens = sinks * d..(tokens - tail) * d;
        let mut basis = exact[coded_tokens.clone()].to_vec();
        if rotated {
            hadamard(&mut basis, d);
        }
        let mut packed = PackedHead::new(layout);
        packed.append(&basis).expect("finite");
        let mut back = coded(layout.codec(), d, layout.groups(), &basis);
        let mut decoded = vec![0.0; back.len()];
        packed.decode(0..packed.len(), &mut decoded);
        assert_eq!(decoded, back, "codes stand for what the codec says, bit for bit");
        if rotated {
            hadamard(&mut back, d);
        }
        let mut read = exact.to_vec();
        read[coded_tokens].copy_from_slice(&back);
        let (sinks, tail) = (exact[..sinks * d].to_vec(), exact[(tokens - tail) * d..].to_vec());
        Self { sinks, packed, tail, read }
    }

    fn stored(&self) -> Stored<'_> {
        Stored { sinks: &self.sinks, packed: Some(&self.packed), tail: &self.tail }
    }
}

/// The formula.
fn reference(q: &[f32], d: usize, keys: &[f32], values: &[f32], tokens: Range<usize>) -> Vec<f64> {
    let mut out = Vec::new();
    for q in q.chunks(d) {
        let score = |t: usize| (0..d).map(|c| f64::from(q[c]) * f64::from(keys[t * d + c])).sum::<f64>();
        let scores: Vec<f64> = tokens.clone().map(score).collect();
        let max = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
        let total: f64 = weights.iter().sum();
        for c in 0..d {
            let sum = weights.iter().zip(tokens.clone()).map(|(w, t)| w * f64::from(values[t * d + c]));
            out.push(sum.sum::<f64>() / total);
        }
    }
    out
}

/// Asserts that attention is the formula's within 1e-5 of each head's largest output, in each instruction set.
fn check(query: Query<'_>, keys: &Held, values: &Held, tokens: Range<usize>, read_keys: &[f32]) {
    let d = query.head_dim;
    let expected = reference(query.q, d, read_keys, &values.read, tokens.clone());
    for (isa, partial) in
        attend_on_each(query, keys.stored(), values.stored(), tokens).into_iter().enumerate()
    {
        let mut found = vec![0.0; query.q.len()];
        partial.finish(&mut found);
        for (h, (found, expected)) in found.chunks(d).zip(expected.chunks(d)).enumerate() {
            let largest = expected.iter().fold(0.0_f64, |max, x| max.max(x.abs()));
            for (found, expected) in found.iter().zip(expected) {
                let error = (f64::from(*found) - expected).abs() / largest;
                assert!(
                    error < 1e-5,
                    "instruction set {isa}, head {h}: {found} is not {expected}, error {error:e}"
                );
            }
        }
    }
}

fn codecs() -> Vec<Codec> {
    let rounded = CodecOptions { zero: Zero::Rounded, metadata: Metadata::F32, ..Default::default() };
    let rtn = CodecOptions { one_bit: OneBit::Rtn, metadata: Metadata::F32, ..Default::default() };
    let lloyd = CodecOptions { codebook: Codebook::LloydMax, ..Default::default() };
    let all = [1, 2, 3, 4, 5, 6, 8];
    let of = |options: CodecOptions, bits: &[u8]| -> Vec<Codec> {
        bits.iter().map(|&bits| Codec::new(bits, options).expect("a codec")).collect()
    };
    [of(CodecOptions::default(), &all), of(rounded, &all), of(rtn, &[1]), of(lloyd, &[1, 2, 3, 4])].concat()
}

/// A case with everything in it: sinks, residuals of both sides, `heads` query heads.
fn case(codec: Codec, d: usize, key_groups: Groups, value_group: usize, heads: usize, blocks: usize) {
    let key_layout = Layout::keys(codec, d, key_groups);
    let value_layout = Layout::values(codec, d, value_group);
    let (sinks, tail) = (2, 5);
    let tokens = sinks + blocks * key_layout.block_tokens() + tail;
    let keys = Held::new(key_layout, &noise(tokens, d, 1), sinks, tail, false);
    let values = Held::new(value_layout, &noise(tokens, d, 2), sinks, 3, false);
    let q: Vec<f32> = noise(heads, d, 3).iter().map(|x| x / (d as f32).sqrt()).collect();
    let query = Query { q: &q, head_dim: d, hadamard: false, bias: None };
    check(query, &keys, &values, 0..tokens, &keys.read);
    check(query, &keys, &values, tokens / 3..tokens - 1, &keys.read);
}

#[test]
fn every_codec_gives_the_formula() {
    for codec in codecs() {
        case(codec, 64, Groups::Tokens(32), 32, 3, 3);
        case(codec, 80, Groups::Channels(80), 80, 4, 70);
    }
}

#[test]
fn ragged_heads_and_groups_give_the_formula() {
    let options = CodecOptions::default();
    for bits in [1, 2, 3, 4, 6, 8] {
        let codec = Codec::new(bits, options).expect("a codec");
        for d in [64, 80, 96, 100, 128] {
            case(codec, d, Groups::Channels(32), 32, 1, 40);
            case(codec, d, Groups::Tokens(32), 32, 2, 2);
        }
        case(codec, 36, Groups::Tokens(24), 20, 5, 4);
        case(codec, 64, Groups::Tokens(64), 64, 7, 5);
        case(codec, 20, Groups::Channels(7), 7, 9, 33);
    }
}

#[test]
fn a_rotation_and_a_bias_are_undone_at_reading() {
    let codec = Codec::new(3, CodecOptions::default()).expect("a codec");
    for d in [64, 80] {
        let tokens = 333;
        let layout = Layout::keys(codec, d, Groups::Channels(d));
        let bias = noise(tokens, d, 9);
        let keys = Held::new(layout, &noise(tokens, d, 1), 4, 0, true);
        let values = Held::new(Layout::values(codec, d, d), &noise(tokens, d, 2), 4, 0, true);
        let q: Vec<f32> = noise(3, d, 3).iter().map(|x| x / (d as f32).sqrt()).collect();
        let of_head = Bias { data: &bias, stride: d };
        let query = Query { q: &q, head_dim: d, hadamard: true, bias: Some(of_head) };
        // Sinks were never coded, so no bias was taken off them.
        let with_bias = |(i, key): (usize, &f32)| if i < 4 * d { *key } else { key + bias[i] };
        let read: Vec<f32> = keys.read.iter().enumerate().map(with_bias).collect();
        check(query, &keys, &values, 0..tokens, &read);
    }
}

#[test]
fn exact_tokens_alone_are_plain_attention() {
    for (d, tokens, heads) in [(64, 1, 1), (80, 700, 3), (100, 33, 6)] {
        let (keys, values) = (noise(tokens, d, 1), noise(tokens, d, 2));
        let q: Vec<f32> = noise(heads, d, 3).iter().map(|x| x / (d as f32).sqrt()).collect();
        let stored = |tail| Stored { sinks: &[], packed: None, tail };
        let query = Query { q: &q, head_dim: d, hadamard: false, bias: None };
        let mut found = vec![0.0; heads * d];
        attend(query, stored(&keys), stored(&values), 0..tokens).finish(&mut found);
        for (found, expected) in found.iter().zip(reference(&q, d, &keys, &values, 0..tokens)) {
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} is not {expected}");
        }
    }
}

#[test]
fn spans_merge_to_the_whole() {
    let codec = Codec::new(4, CodecOptions::default()).expect("a codec");
    let (d, tokens) = (64, 900);
    let keys = Held::new(Layout::keys(codec, d, Groups::Channels(d)), &noise(tokens, d, 1), 0, 0, false);
    let values = Held::new(Layout::values(codec, d, d), &noise(tokens, d, 2), 0, 0, false);
    let q = noise(2, d, 3);
    let query = Query { q: &q, head_dim: d, hadamard: false, bias: None };
    let mut sum = attend(query, keys.stored(), values.stored(), 0..1);
    for span in [1..500, 500..500, 500..900] {
        sum.merge(&attend(query, keys.stored(), values.stored(), span));
    }
    let (mut found, mut expected) = (vec![0.0; 2 * d], vec![0.0; 2 * d]);
    sum.finish(&mut found);
    attend(query, keys.stored(), values.stored(), 0..tokens).finish(&mut expected);
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
    }
}

#[test]
fn a_group_that_cannot_be_coded_is_numbered_from_the_head_s_start() {
    let codec = Codec::new(4, CodecOptions::default()).expect("a codec");
    let mut head = PackedHead::new(Layout::keys(codec, 32, Groups::Channels(16)));
    head.append(&[1.0; 64]).expect("finite");
    let mut token = [0.0; 32];
    token[20] = f32::NAN;
    assert_eq!(head.append(&token).expect_err("NaN").group, 5);
    let mut head = PackedHead::new(Layout::keys(codec, 32, Groups::Tokens(8)));
    head.append(&[1.0; 8 * 32]).expect("finite");
    let mut block = [0.0; 8 * 32];
    block[3 * 32 + 7] = f32::INFINITY;
    assert_eq!(head.append(&block).expect_err("infinite").group, 32 + 7);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_shape_gives_the_formula(
        (codec, d, heads) in (0..19_usize, 1..140_usize, 1..6_usize),
        (by_token, key_group, value_group) in (any::<bool>(), 1..70_usize, 1..140_usize),
        (blocks, sinks, tail) in (0..40_usize, 0..5_usize, 0..40_usize),
        seed in 1..1000_u32,
    ) {
        let codec = codecs()[codec];
        let groups = if by_token { Groups::Tokens(key_group) } else { Groups::Channels(key_group) };
        let key_layout = Layout::keys(codec, d, groups);
        let tokens = sinks + blocks * key_layout.block_tokens() + tail;
        prop_assume!(tokens > 0);
        let keys = Held::new(key_layout, &noise(tokens, d, seed), sinks, tail, false);
        let layout = Layout::values(codec, d, value_group);
        let values = Held::new(layout, &noise(tokens, d, seed + 1), sinks, tail / 2, false);
        let q: Vec<f32> = noise(heads, d, seed + 2).iter().map(|x| x / (d as f32).sqrt()).collect();
        let query = Query { q: &q, head_dim: d, hadamard: false, bias: None };
        check(query, &keys, &values, 0..tokens, &keys.read);
    }
}
