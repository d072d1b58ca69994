//! Codes and metadata on the device are those of `Codec`, bit for bit, where the layout says.

use kvtune_kernels::codec::{CodecOptions, Metadata, OneBit};
use kvtune_kernels::gpu::{FaultKind, Groups, Packing, Room, RowOrder, Rows, Span, Store};

use crate::packed::{Scheme, Side};
use crate::support::{Client, Noise, client, download_words, upload};

pub(crate) const WHOLE: Side = Side::Keys(Groups::PerToken { size: 0 });
pub(crate) const KIVI: Side = Side::Keys(Groups::PerChannel { tokens: 32 });

pub(crate) fn packing(scheme: Scheme) -> Packing {
    match scheme.side {
        Side::Keys(groups) => Packing::keys(scheme.bits, scheme.options, groups, scheme.head_dim),
        Side::Values(group) => Packing::values(scheme.bits, scheme.options, group, scheme.head_dim),
    }
    .expect("a kernel")
}

/// Quantizes `tokens` tokens of two lanes and two heads in steps that end at `cuts`, and compares every word.
fn check(client: &Client, scheme: Scheme, tokens: usize, cuts: &[usize], seed: u64) {
    let d = scheme.head_dim;
    let mut rows = Noise::new(seed).take(2 * 2 * tokens * d);
    // A constant group, and one around 0 with a tiny range.
    rows[..d].fill(0.1);
    rows[d..2 * d].iter_mut().for_each(|x| *x *= 1e-4);
    check_rows(client, scheme, &rows, cuts);
}

/// The same for rows `[2, 2, tokens, head_dim]`.
fn check_rows(client: &Client, scheme: Scheme, rows: &[f32], cuts: &[usize]) {
    let (lanes, kv_heads, d) = (2, 2, scheme.head_dim);
    let tokens = rows.len() / (lanes * kv_heads * d);
    let pages = tokens.div_ceil(scheme.page_tokens());
    let room = Room { lanes, kv_heads, pages, sinks: 0, ring: 0 };
    let store = Store::new(client, packing(scheme), room).expect("a store");
    let handle = upload(client, rows);
    let source = Rows { handle, rows: tokens, order: RowOrder::HeadsThenRows };
    let mut from = 0;
    for &to in cuts {
        let spans = vec![Span { tokens: from..to, row: from }; lanes];
        store.quantize(client, &source, &spans).expect("a launch");
        from = to;
    }
    let codes = download_words(client, store.codes());
    let meta = download_words(client, store.metadata());
    let (code_words, meta_words) = (store.packing().code_words(), store.packing().meta_words());
    for lane in 0..lanes {
        for head in 0..kv_heads {
            let rows = &rows[(lane * kv_heads + head) * tokens * d..][..tokens * d];
            let expected = scheme.pack(rows);
            for page in 0..pages {
                let slot = (lane * pages + page) * kv_heads + head;
                let place = format!("{scheme:?}, lane {lane}, head {head}, page {page}");
                let (found, wanted) = (&meta[slot * meta_words..], &expected.meta[page * meta_words..]);
                assert_eq!(found[..meta_words], wanted[..meta_words], "metadata: {place}");
                let (found, wanted) = (&codes[slot * code_words..], &expected.codes[page * code_words..]);
                assert_eq!(found[..code_words], wanted[..code_words], "codes: {place}");
            }
        }
    }
    assert_eq!(store.faults(client), []);
}

pub(crate) fn scheme(side: Side, bits: u8, head_dim: usize, metadata: Metadata) -> Scheme {
    Scheme { side, bits, options: CodecOptions { metadata, ..CodecOptions::default() }, head_dim }
}

#[test]
fn codes_of_every_width_are_the_codecs() {
    let Some(client) = client() else { return };
    for (i, bits) in [1, 2, 3, 4, 5, 6, 8].into_iter().enumerate() {
        let seed = i as u64;
        let metadata = if i % 2 == 0 { Metadata::F16 } else { Metadata::F32 };
        check(&client, scheme(WHOLE, bits, 64, metadata), 70, &[70], seed);
        check(&client, scheme(Side::Values(32), bits, 80, metadata), 70, &[70], seed + 10);
        check(&client, scheme(KIVI, bits, 100, metadata), 96, &[64, 96], seed + 20);
    }
}

#[test]
fn tokens_that_come_in_turns_are_coded_as_if_together() {
    let Some(client) = client() else { return };
    for (bits, metadata) in [(1, Metadata::F16), (3, Metadata::F32), (4, Metadata::F16), (6, Metadata::F16)] {
        let cuts: Vec<usize> = [1, 2, 3, 7, 30, 31, 32, 33, 64, 70].to_vec();
        check(&client, scheme(WHOLE, bits, 64, metadata), 70, &cuts, 1);
        check(&client, scheme(Side::Values(16), bits, 80, metadata), 70, &cuts, 2);
    }
    check(&client, scheme(KIVI, 2, 64, Metadata::F16), 96, &[32, 64, 96], 3);
}

#[test]
fn minimum_and_maximum_at_one_bit_and_odd_groups_are_the_codecs() {
    let Some(client) = client() else { return };
    let mut rtn = scheme(Side::Values(32), 1, 64, Metadata::F16);
    rtn.options.one_bit = OneBit::Rtn;
    check(&client, rtn, 40, &[40], 4);
    for tokens in [4, 20, 48, 128] {
        let keys = Side::Keys(Groups::PerChannel { tokens });
        check(&client, scheme(keys, 4, 33, Metadata::F16), 2 * tokens, &[2 * tokens], 5);
        check(&client, scheme(keys, 1, 33, Metadata::F32), 2 * tokens, &[2 * tokens], 6);
    }
    check(&client, scheme(Side::Values(48), 5, 100, Metadata::F16), 33, &[33], 7);
}

/// Ties and near ties of every grid of four bits: where a quotient that is not rounded right shows.
#[test]
fn elements_halfway_between_codes_go_to_the_even_one() {
    let Some(client) = client() else { return };
    let (d, tokens) = (64, 512);
    let mut noise = Noise::new(9);
    let mut rows = Vec::new();
    for _ in 0..2 * 2 * tokens {
        let (low, high) = (noise.next() - 5.0, noise.next() + 5.0);
        let step = (high - low) / 15.0;
        rows.extend([low, high]);
        rows.extend((0..d - 2).map(|i| {
            let tie = low + step * (i % 15) as f32 + step / 2.0;
            f32::from_bits(tie.to_bits() + (i / 15) as u32 % 3 - 1)
        }));
    }
    for metadata in [Metadata::F32, Metadata::F16] {
        check_rows(&client, scheme(WHOLE, 4, d, metadata), &rows, &[tokens]);
    }
}

#[test]
fn a_group_that_does_not_fit_is_found() {
    let Some(client) = client() else { return };
    let room = Room { lanes: 2, kv_heads: 2, pages: 1, sinks: 0, ring: 0 };
    let store = Store::new(&client, packing(scheme(WHOLE, 4, 64, Metadata::F16)), room).expect("a store");
    let mut rows = Noise::new(1).take(2 * 2 * 64);
    rows[64] = f32::NAN;
    rows[2 * 64] = -1e5;
    rows[3 * 64] = -3e5;
    let source = Rows { handle: upload(&client, &rows), rows: 1, order: RowOrder::HeadsThenRows };
    store.quantize(&client, &source, &vec![Span { tokens: 0..1, row: 0 }; 2]).expect("a launch");
    let found: Vec<_> = store.faults(&client).iter().map(|f| (f.lane, f.head, f.kind)).collect();
    assert_eq!(found, [(0, 1, FaultKind::NotFinite), (1, 0, FaultKind::Range), (1, 1, FaultKind::Range)]);
}
