//! What cannot be done is refused before anything is launched, in words.

use kvtune_kernels::codec::Metadata;
use kvtune_kernels::gpu::{Attention, GpuError, Lane, Lanes, Room, RowOrder, Rows, Span, Store};

use crate::packed::Side;
use crate::quantize::{KIVI, WHOLE, packing, scheme};
use crate::support::{Client, client, upload};

const ROOM: Room = Room { lanes: 2, kv_heads: 1, pages: 2, sinks: 1, ring: 32 };

fn store(client: &Client, side: Side) -> Store {
    Store::new(client, packing(scheme(side, 4, 64, Metadata::F16)), ROOM).expect("a store")
}

fn message(result: Result<(), GpuError>) -> String {
    result.map_or_else(|error| error.to_string(), |()| "launched".into())
}

#[test]
fn spans_beyond_the_store_or_the_rows_are_refused() {
    let Some(client) = client() else { return };
    let keys = store(&client, KIVI);
    let rows =
        Rows { handle: upload(&client, &[0.5; 2 * 70 * 64]), rows: 70, order: RowOrder::RowsThenHeads };
    let quantize = |tokens, row| {
        message(keys.quantize(&client, &rows, &[Span { tokens: 0..0, row: 0 }, Span { tokens, row }]))
    };
    assert_eq!(quantize(32..96, 0), "lane 1: end of its tokens is 96, expected at most 64");
    assert_eq!(quantize(0..31, 0), "lane 1: tokens coded is 31, expected whole groups of 32");
    assert_eq!(quantize(0..64, 7), "lane 1: end of its rows is 71, expected at most 70");
    assert_eq!(quantize(0..64, 6), "launched");
    assert_eq!(message(keys.quantize(&client, &rows, &[])), "`lanes` is 0, expected 2");
    let short = Rows { rows: 71, ..rows.clone() };
    assert_eq!(message(keys.quantize(&client, &short, &[])), "`lanes` is 0, expected 2");
    let spans = vec![Span { tokens: 0..32, row: 0 }; 2];
    assert_eq!(
        message(keys.quantize(&client, &short, &spans)),
        "the buffer of `rows` has 35840 bytes, expected at least 36352"
    );
    let kept = message(keys.keep(&client, &rows, &vec![Span { tokens: 0..34, row: 0 }; 2]));
    assert_eq!(kept, "lane 0: tokens kept behind the sinks is 33, expected at most 32");
    let most = client.properties().hardware.max_cube_count.2 as usize;
    let crowd = Room { lanes: most + 1, pages: 0, ring: 0, ..ROOM };
    let keys_of_crowd = Store::new(&client, *keys.packing(), crowd).expect("a store");
    let many = Rows { handle: client.empty(4 * (most + 1) * 64), rows: 1, order: RowOrder::RowsThenHeads };
    let spans = vec![Span { tokens: 0..1, row: 0 }; most + 1];
    let refused = message(keys_of_crowd.keep(&client, &many, &spans));
    assert_eq!(
        refused,
        format!("the device has {most} cubes in a direction, expected at least {}", most + 1)
    );
    let ring = message(keys.quantize_ring(&client, &[0..0, 0..64]));
    assert_eq!(ring, "lane 1: tokens of the ring is 64, expected at most 32");
}

#[test]
fn lanes_that_the_stores_cannot_hold_are_refused() {
    let Some(client) = client() else { return };
    let (keys, values) = (store(&client, KIVI), store(&client, Side::Values(32)));
    let attention = Attention::new(&keys, &values, 3).expect("one layer");
    let out = client.empty(4 * 2 * 3 * 64);
    let attend = |length, coded_keys, coded_values| {
        let lanes = Lanes::new(&client, &[Lane::default(), Lane { length, coded_keys, coded_values }]);
        message(attention.launch(&client, &out, &lanes, &out))
    };
    assert_eq!(attend(50, 48, 20), "lane 1: coded keys is 48, expected 17 to 49, in groups of 32");
    assert_eq!(attend(50, 32, 16), "lane 1: coded values is 16, expected 17 to 49");
    assert_eq!(attend(98, 64, 64), "lane 1: tokens behind the sinks is 97, expected at most 96");
    let short = client.empty(16);
    let lanes = Lanes::new(&client, &[Lane::default(); 2]);
    let error = message(attention.launch(&client, &out, &lanes, &short));
    assert_eq!(error, "the buffer of `out` has 16 bytes, expected at least 1536");
}

#[test]
fn stores_of_different_layers_are_refused() {
    let Some(client) = client() else { return };
    let (keys, values) = (store(&client, WHOLE), store(&client, Side::Values(0)));
    let new = |keys, values, heads| message(Attention::new(keys, values, heads).map(|_| ()));
    assert_eq!(new(&values, &keys, 1), "the first store must be packed as keys, the second as values");
    assert_eq!(new(&keys, &values, 17), "`query heads of a KV head` is 17, expected 1 to 16");
    let other = Store::new(&client, *values.packing(), Room { sinks: 0, ..ROOM }).expect("a store");
    assert_eq!(new(&keys, &other, 1), "`sinks of the values` is 0, expected 1");
}

#[test]
fn a_table_beyond_its_pool_is_refused() {
    let Some(client) = client() else { return };
    let packing = packing(scheme(WHOLE, 4, 64, Metadata::F16));
    let paged = |table: &[u32]| message(Store::paged(&client, packing, ROOM, 3, table).map(|_| ()));
    assert_eq!(paged(&[0, 1, 2, 0]), "launched");
    assert_eq!(paged(&[0, 1, 2]), "`table` is 3, expected 4 (lanes · pages)");
    assert_eq!(paged(&[0, 1, 2, 3]), "`page of the table` is 3, expected below 3, the pages of the pool");
    let vast = Room { pages: 1 << 20, kv_heads: 64, ..ROOM };
    assert!(Store::new(&client, packing, vast).is_err());
}
