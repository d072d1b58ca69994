//! Codes and metadata on the device are those of `Codec`, bit for bit, where the layout says.

use kvtune_kernels::codec::{CodecOptions, Metadata};
use kvtune_kernels::gpu::{Groups, Packing, Room, RowOrder, Rows, Span, Store};

use crate::packed::{Scheme, Side};
use crate::support::{Client, Noise, client, download_words, upload};

pub(crate) const WHOLE: Side = Side::Keys(Groups::PerToken { size: 0 });
pub(crate) const KIVI: Side = Side::Keys(Groups::PerChannel { tokens: 32 });

pub(crate) fn packing(scheme: &Scheme) -> Packing {
    match scheme.side {
        Side::Keys(groups) => Packing::keys(scheme.bits, scheme.options, groups, scheme.head_dim),
        Side::Values(group) => Packing::values(scheme.bits, scheme.options, group, scheme.head_dim),
    }
    .expect("a kernel")
}

/// Quantizes `tokens` tokens of two lanes and two heads in steps that end at `cuts`, and compares every word.
fn check(client: &Client, scheme: Scheme, tokens: usize, cuts: &[usize], seed: u64) {
    let (lanes, kv_heads, d) = (2, 2, scheme.head_dim);
    let mut rows = Noise::new(seed).take(lanes * kv_heads * tokens * d);
    // A constant group, and one around 0 with a tiny range.
    rows[..d].fill(0.1);
    rows[d..2 * d].iter_mut().for_each(|x| *x *= 1e-4);
    let tiles = tokens.div_ceil(scheme.tile_tokens());
    let room = Room { lanes, kv_heads, tiles, sinks: 0, ring: 0 };
    let store = Store::new(client, packing(&scheme), room).expect("a store");
    let handle = upload(client, &rows);
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
            for tile in 0..tiles {
                let slot = (lane * tiles + tile) * kv_heads + head;
                let place = format!("{scheme:?}, lane {lane}, head {head}, tile {tile}");
                let (found, wanted) = (&meta[slot * meta_words..], &expected.meta[tile * meta_words..]);
                assert_eq!(found[..meta_words], wanted[..meta_words], "metadata: {place}");
                let (found, wanted) = (&codes[slot * code_words..], &expected.codes[tile * code_words..]);
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
