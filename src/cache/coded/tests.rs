#![allow(clippy::float_cmp, reason = "coding promises exact values")]

use proptest::prelude::*;

use super::*;
use crate::quant::{Group, Metadata, SchemeName, TensorSpec};

fn bits(width: u8) -> Bits {
    Bits::try_from(width).expect("a width")
}

fn rows(data: &[f32], width: usize) -> Rows<'_> {
    Rows { data, stride: width, width, rows: data.len() / width }
}

/// Numbers in −4..4 with an outlier channel.
fn noise(tokens: usize, width: usize) -> Vec<f32> {
    let mut state = 0x1234_5678_u32;
    (0..tokens * width)
        .map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let x = (state >> 8) as f32 / (1 << 21) as f32 - 4.0;
            if i % width == 1 { 10.0 * x } else { x }
        })
        .collect()
}

fn filled(
    scheme: &Scheme,
    tensor: Tensor,
    width: u8,
    shape: LayerShape,
    bias: Option<KeyBiasTable>,
    data: &[f32],
    chunk: usize,
) -> CodedTensor {
    let mut coded = CodedTensor::new(scheme, tensor, bits(width), shape, bias).expect("a codec");
    for chunk in data.chunks(chunk * shape.width()) {
        coded.append(rows(chunk, shape.width())).expect("fits");
    }
    coded
}

fn f32_scheme(mut scheme: Scheme) -> Scheme {
    scheme.metadata = Metadata::F32;
    scheme
}

#[test]
fn heads_are_contiguous_and_tokens_are_coded_as_they_come() {
    let shape = LayerShape { n_kv_heads: 2, head_dim: 2 };
    let mut scheme = f32_scheme(Scheme::per_token_asym());
    scheme.one_bit = crate::quant::OneBit::Rtn;
    let mut coded = CodedTensor::new(&scheme, Tensor::Values, bits(2), shape, None).expect("a codec");
    // Stride 5 leaves one element between rows.
    let data = [0.0, 3.0, 1.0, 1.0, 9.0, 5.0, 6.5, -1.0, 2.0];
    coded.append(Rows { data: &data, stride: 5, width: 4, rows: 2 }).expect("fits");
    assert_eq!(coded.exact(0), [0.0, 3.0, 5.0, 6.5]);
    assert_eq!(coded.read(1), [1.0, 1.0, -1.0, 2.0]);
    assert_eq!((coded.len(), coded.frozen(2)), (2, 2));
}

#[test]
fn keys_by_channel_freeze_in_blocks() {
    let shape = LayerShape { n_kv_heads: 1, head_dim: 1 };
    let spec = TensorSpec { axis: Axis::Channel, group: Group::Size(4), residual: 4 };
    let scheme = Scheme { key: spec, ..f32_scheme(Scheme::kivi()) };
    let mut coded = CodedTensor::new(&scheme, Tensor::Keys, bits(1), shape, None).expect("a codec");
    coded.append(rows(&[0.0, 1.0, 5.0], 1)).expect("fits");
    assert_eq!((coded.read(0), coded.frozen(3)), (&[0.0, 1.0, 5.0][..], 0));
    coded.append(rows(&[10.0, 7.0], 1)).expect("fits");
    assert_eq!((coded.read(0), coded.frozen(5)), (&[0.5, 0.5, 7.5, 7.5, 7.0][..], 4));
    assert_eq!(coded.exact(0), [0.0, 1.0, 5.0, 10.0, 7.0]);
}

#[test]
fn sixteen_bits_keep_one_copy() {
    let shape = LayerShape { n_kv_heads: 2, head_dim: 4 };
    let data = noise(9, 8);
    let coded = filled(&Scheme::kivi(), Tensor::Keys, 16, shape, None, &data, 2);
    assert!(coded.read.is_empty() && coded.frozen(9) == 0);
    assert_eq!(coded.read(1), coded.exact(1));
}

#[test]
fn a_bias_of_its_own_size_leaves_the_rest_of_the_key_precise() {
    let shape = LayerShape { n_kv_heads: 2, head_dim: 4 };
    let bias: KeyBiasTable = (0..5 * 8).map(|i| if i % 8 == 2 { 512.0 } else { 0.0 }).collect();
    let data: Vec<f32> = noise(5, 8).iter().zip(bias.iter()).map(|(x, bias)| x / 16.0 + bias).collect();
    let scheme = f32_scheme(Scheme::per_token_asym());
    let error = |bias| {
        let coded = filled(&scheme, Tensor::Keys, 4, shape, bias, &data, 1);
        let pairs = coded.read(0).iter().zip(coded.exact(0));
        pairs.map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
    };
    assert!(error(None) > 0.2, "the bias rules the scale");
    assert!(error(Some(bias)) < 0.2);
}

#[test]
fn a_bias_table_that_is_too_short_is_an_error() {
    let shape = LayerShape { n_kv_heads: 1, head_dim: 2 };
    let bias = Some(KeyBiasTable::from([1.0, 2.0]));
    let scheme = Scheme::per_token_asym();
    let mut coded = CodedTensor::new(&scheme, Tensor::Keys, bits(4), shape, bias).expect("a codec");
    let error = coded.append(rows(&[0.0; 4], 2)).expect_err("two tokens, one position");
    assert_eq!(error, CacheError::KeyBias { positions: 1, tokens: 2 });
}

#[test]
fn a_group_that_does_not_fit_is_named() {
    let shape = LayerShape { n_kv_heads: 2, head_dim: 3 };
    let mut scheme = Scheme::per_token_asym();
    scheme.value.group = Group::Size(2);
    let mut coded = CodedTensor::new(&scheme, Tensor::Values, bits(4), shape, None).expect("a codec");
    let mut data = vec![0.0; 18];
    data[2 * 6 + 5] = 1e6;
    let error = coded.append(rows(&data, 6)).expect_err("beyond f16").to_string();
    assert!(error.starts_with("values of KV head 1, group 5: the zero 1e6 does not fit f16"), "{error}");
    assert!(error.ends_with("hint: set `metadata: f32`"), "{error}");
    let mut keys = CodedTensor::new(&Scheme::kivi(), Tensor::Keys, bits(2), shape, None).expect("a codec");
    let mut data = vec![0.0; 64 * 6];
    data[40 * 6 + 4] = 1e6;
    let error = keys.append(rows(&data, 6)).expect_err("beyond f16").to_string();
    assert!(error.starts_with("keys of KV head 1, group 4: "), "{error}");
    data[40 * 6 + 4] = f32::NAN;
    let mut keys = CodedTensor::new(&Scheme::kivi(), Tensor::Keys, bits(2), shape, None).expect("a codec");
    let error = keys.append(rows(&data, 6)).expect_err("not a number");
    assert_eq!(error, CacheError::NotFinite { tensor: "keys", head: 1 });
}

/// What one head reads at `n` tokens, derived anew from the exact rows, group by group.
fn view(
    scheme: &Scheme,
    tensor: Tensor,
    width: u8,
    exact: &[f32],
    bias: &[f32],
    head_dim: usize,
) -> Vec<f32> {
    let n = exact.len() / head_dim;
    let Some(codec) = scheme.codec(bits(width)).expect("a codec") else { return exact.to_vec() };
    let (start, end) = (scheme.sinks.min(n), scheme.frozen(tensor, n));
    let mut block: Vec<f32> = (start * head_dim..end * head_dim).map(|i| exact[i] - bias[i]).collect();
    if scheme.hadamard {
        hadamard(&mut block, head_dim);
    }
    let group = scheme.spec(tensor).group_size(head_dim);
    let indices = |token: usize, channel: usize| match scheme.spec(tensor).axis {
        Axis::Token => (channel..head_dim.min(channel + group)).map(|c| token * head_dim + c).collect(),
        Axis::Channel => (token..token + group).map(|t| t * head_dim + channel).collect::<Vec<_>>(),
    };
    let (token_step, channel_step) =
        if scheme.spec(tensor).axis == Axis::Token { (1, group) } else { (group, 1) };
    for token in (0..end - start).step_by(token_step) {
        for channel in (0..head_dim).step_by(channel_step) {
            let indices = indices(token, channel);
            let mut elements: Vec<f32> = indices.iter().map(|&i| block[i]).collect();
            codec.fake_quant(&mut elements).expect("fits");
            indices.iter().zip(elements).for_each(|(&i, x)| block[i] = x);
        }
    }
    if scheme.hadamard {
        hadamard(&mut block, head_dim);
    }
    let mut read = exact.to_vec();
    for (i, x) in block.into_iter().enumerate() {
        read[start * head_dim + i] = x + bias[start * head_dim + i];
    }
    read
}

fn any_scheme() -> impl Strategy<Value = (Scheme, Tensor)> {
    let kivi = (1_usize..9, 1_usize..3).prop_map(|(group, blocks)| {
        let key = TensorSpec { axis: Axis::Channel, group: Group::Size(group), residual: group * blocks };
        Scheme { key, ..Scheme::kivi() }
    });
    let group = prop_oneof![Just(Group::Head), (1_usize..12).prop_map(Group::Size)];
    let token = (group, 0_usize..10).prop_map(|(group, residual)| {
        let spec = TensorSpec { axis: Axis::Token, group, residual };
        Scheme { name: SchemeName::PerTokenAsym, key: spec, value: spec, ..Scheme::kivi() }
    });
    let tensor = prop_oneof![Just(Tensor::Keys), Just(Tensor::Values)];
    (prop_oneof![kivi, token], 0_usize..6, any::<bool>(), tensor)
        .prop_map(|(scheme, sinks, hadamard, tensor)| (Scheme { sinks, hadamard, ..scheme }, tensor))
}

proptest! {
    #[test]
    fn any_chunking_reads_what_a_fresh_derivation_gives(
        (scheme, tensor) in any_scheme(),
        width in prop::sample::select(vec![1_u8, 2, 3, 8, 16]),
        (n_kv_heads, head_dim) in (1_usize..4, 1_usize..13),
        (tokens, chunk) in (1_usize..50, 1_usize..50),
        biased in any::<bool>(),
    ) {
        prop_assert_eq!(scheme.check(), Ok(()));
        let shape = LayerShape { n_kv_heads, head_dim };
        let data = noise(tokens, shape.width());
        let table: KeyBiasTable = match biased {
            true => noise(tokens + 1, shape.width())[..tokens * shape.width()].iter().map(|x| x * 3.0).collect(),
            false => vec![0.0; tokens * shape.width()].into(),
        };
        let bias = biased.then(|| table.clone());
        let mut coded = CodedTensor::new(&scheme, tensor, bits(width), shape, bias.clone()).expect("a codec");
        let mut held = 0;
        for part in data.chunks(chunk * shape.width()) {
            coded.append(rows(part, shape.width())).expect("fits");
            held += part.len() / shape.width();
            for head in 0..n_kv_heads {
                let of_head = |table: &[f32]| -> Vec<f32> {
                    let rows = table.chunks(shape.width()).take(held);
                    rows.flat_map(|row| row[head * head_dim..][..head_dim].to_vec()).collect()
                };
                let exact = of_head(&data);
                prop_assert_eq!(coded.exact(head), &exact[..]);
                let expected = view(&scheme, tensor, width, &exact, &of_head(&table), head_dim);
                prop_assert_eq!(coded.read(head), &expected[..]);
            }
        }
        let once = filled(&scheme, tensor, width, shape, bias, &data, tokens);
        prop_assert_eq!(once.len(), coded.len());
        for head in 0..n_kv_heads {
            prop_assert_eq!(once.read(head), coded.read(head));
        }
    }
}

#[test]
fn a_width_without_a_codec_is_refused() {
    let shape = LayerShape { n_kv_heads: 1, head_dim: 2 };
    let scheme = Scheme { codebook: crate::quant::Codebook::LloydMax, ..Scheme::per_token_asym() };
    let error = CodedTensor::new(&scheme, Tensor::Keys, bits(8), shape, None).expect_err("levels end at 4");
    assert_eq!(error, CodecOptionsError::LloydMax { found: 8 });
}
