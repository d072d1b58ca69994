//! Attention on the device is attention over what the codes stand for, in f64.

use kvtune_kernels::codec::{Metadata, OneBit};
use kvtune_kernels::freeze::{Freeze, frozen_tokens};
use kvtune_kernels::gpu::{Attention, Groups, Lane, Lanes, Room, RowOrder, Rows, Span, Store};

use crate::packed::{Scheme, Side};
use crate::quantize::{KIVI, WHOLE, packing, scheme};
use crate::support::{Client, Noise, client, download, upload};

const KV_HEADS: usize = 2;

/// A layer, and how long its lanes are.
struct Case {
    keys: Scheme,
    values: Scheme,
    heads: usize,
    sinks: usize,
    /// Residuals of keys and of values.
    residuals: (usize, usize),
    lengths: Vec<usize>,
}

/// Keys or values of all lanes: `[lanes, rows, KV_HEADS, head_dim]`, and how many of each lane are codes.
struct Tensor {
    rows: Vec<f32>,
    longest: usize,
    coded: Vec<usize>,
}

impl Case {
    fn new(keys: Scheme, values: Scheme, heads: usize) -> Self {
        Self { keys, values, heads, sinks: 0, residuals: (0, 0), lengths: vec![70, 33] }
    }

    fn head_dim(&self) -> usize {
        self.keys.head_dim
    }

    fn tensor(&self, freeze: Freeze, residual: usize, noise: &mut Noise) -> Tensor {
        let longest = self.lengths.iter().copied().max().unwrap_or(0).max(1);
        let coded = |&n: &usize| frozen_tokens(n, residual, freeze, self.sinks) - n.min(self.sinks);
        Tensor {
            rows: noise.take(self.lengths.len() * longest * KV_HEADS * self.head_dim()),
            longest,
            coded: self.lengths.iter().map(coded).collect(),
        }
    }

    /// A store that holds the tensor: codes from the front, exact rows for sinks and for the rest.
    fn store(&self, client: &Client, scheme: &Scheme, tensor: &Tensor, residual: usize) -> Store {
        let lanes = self.lengths.len();
        let pages = tensor.longest.div_ceil(scheme.page_tokens()).max(1);
        let room = Room { lanes, kv_heads: KV_HEADS, pages, sinks: self.sinks, ring: residual };
        // Pages of the lanes lie backwards in the pool.
        let table: Vec<u32> = (0..(lanes * pages) as u32).rev().collect();
        let store = Store::paged(client, packing(*scheme), room, lanes * pages, &table).expect("a store");
        let handle = upload(client, &tensor.rows);
        let rows = Rows { handle, rows: tensor.longest, order: RowOrder::RowsThenHeads };
        let span = |from: usize, to: usize, row| Span { tokens: from..to, row };
        let per_lane = |f: &dyn Fn(usize, usize) -> Span| {
            self.lengths.iter().zip(&tensor.coded).map(|(&n, &coded)| f(n, coded)).collect::<Vec<_>>()
        };
        store
            .quantize(client, &rows, &per_lane(&|n, coded| span(0, coded, n.min(self.sinks))))
            .expect("codes");
        store.keep(client, &rows, &per_lane(&|n, _| span(0, n.min(self.sinks), 0))).expect("sinks");
        let tail = |n: usize, coded: usize| n.min(self.sinks) + coded;
        store
            .keep(client, &rows, &per_lane(&|n, coded| span(tail(n, coded), n, tail(n, coded))))
            .expect("tail");
        store
    }

    /// Rows of one lane and head as attention reads them.
    fn read(&self, scheme: &Scheme, tensor: &Tensor, lane: usize, head: usize) -> Vec<f32> {
        let (d, n) = (self.head_dim(), self.lengths[lane]);
        let row = |t: usize| &tensor.rows[((lane * tensor.longest + t) * KV_HEADS + head) * d..][..d];
        let mut rows: Vec<f32> = (0..n).flat_map(row).copied().collect();
        let first = n.min(self.sinks) * d;
        let coded = &mut rows[first..first + tensor.coded[lane] * d];
        let decoded = scheme.pack(coded).decoded;
        coded.copy_from_slice(&decoded);
        rows
    }

    /// Largest error of any head, relative to its largest output.
    fn error(&self, client: &Client) -> f64 {
        let mut noise = Noise::new(7);
        let keys = self.tensor(Freeze::Block, self.residuals.0, &mut noise);
        let values = self.tensor(Freeze::Window, self.residuals.1, &mut noise);
        let key_store = self.store(client, &self.keys, &keys, self.residuals.0);
        let value_store = self.store(client, &self.values, &values, self.residuals.1);
        let (lanes, d) = (self.lengths.len(), self.head_dim());
        let mut q = noise.take(lanes * KV_HEADS * self.heads * d);
        q.iter_mut().for_each(|x| *x *= 2.0 / (d as f32).sqrt());
        let counts: Vec<Lane> = (0..lanes)
            .map(|i| Lane {
                length: self.lengths[i],
                coded_keys: keys.coded[i],
                coded_values: values.coded[i],
            })
            .collect();
        let out = client.empty(4 * q.len());
        Attention::new(&key_store, &value_store, self.heads)
            .expect("one layer")
            .launch(client, &upload(client, &q), &Lanes::new(client, &counts), &out)
            .expect("a launch");
        self.distance(&q, &keys, &values, &download(client, &out, q.len()))
    }

    /// The same for outputs that are there.
    fn distance(&self, q: &[f32], keys: &Tensor, values: &Tensor, out: &[f32]) -> f64 {
        let d = self.head_dim();
        let mut worst = 0.0_f64;
        for (row, (q, out)) in q.chunks(d).zip(out.chunks(d)).enumerate() {
            let (lane, head) = (row / (KV_HEADS * self.heads), row / self.heads % KV_HEADS);
            let expected = attention(
                q,
                &self.read(&self.keys, keys, lane, head),
                &self.read(&self.values, values, lane, head),
            );
            worst = worst.max(relative(out, &expected));
        }
        worst
    }

    fn check(&self, client: &Client) {
        let error = self.error(client);
        let Self { keys, values, heads, sinks, residuals, lengths } = self;
        assert!(
            error < 1e-5,
            "{error:e}: {keys:?}, {values:?}, {heads} heads, {sinks} sinks, residuals {residuals:?}, {lengths:?}"
        );
    }
}

/// Attention of one query as the formula says it.
fn attention(q: &[f32], keys: &[f32], values: &[f32]) -> Vec<f64> {
    let d = q.len();
    let dot = |k: &[f32]| q.iter().zip(k).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum::<f64>();
    let weights: Vec<f64> = keys.chunks(d).map(|k| dot(k).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mut out = vec![0.0; d];
    for (weight, v) in weights.iter().zip(values.chunks(d)) {
        for (out, &v) in out.iter_mut().zip(v) {
            *out += weight / total * f64::from(v);
        }
    }
    out
}

/// Largest difference relative to the largest expected number; infinite where something is not finite.
fn relative(found: &[f32], expected: &[f64]) -> f64 {
    if found.iter().any(|x| !x.is_finite()) {
        return f64::INFINITY;
    }
    let largest = expected.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    let worst = found.iter().zip(expected).fold(0.0_f64, |most, (&a, b)| most.max((f64::from(a) - b).abs()));
    if largest > 0.0 { worst / largest } else { worst }
}

#[test]
fn every_width_attends_as_its_codes_stand_for() {
    let Some(client) = client() else { return };
    for (i, bits) in [1, 2, 3, 4, 5, 6, 8].into_iter().enumerate() {
        let metadata = if i % 2 == 0 { Metadata::F16 } else { Metadata::F32 };
        let other = [4, 8, 2, 1, 6, 5, 3][i];
        Case::new(scheme(WHOLE, bits, 64, metadata), scheme(Side::Values(0), other, 64, metadata), 1)
            .check(&client);
        let kivi =
            Case::new(scheme(KIVI, bits, 64, metadata), scheme(Side::Values(32), bits, 64, metadata), 1);
        Case { residuals: (32, 16), ..kivi }.check(&client);
    }
}

const F16: Metadata = Metadata::F16;

fn kivi(bits: (u8, u8), head_dim: usize, heads: usize) -> Case {
    let values = scheme(Side::Values(32), bits.1, head_dim, F16);
    let case = Case::new(scheme(KIVI, bits.0, head_dim, F16), values, heads);
    Case { residuals: (32, 32), ..case }
}

#[test]
fn every_head_shape_is_attended() {
    let Some(client) = client() else { return };
    for (head_dim, heads) in [(64, 3), (80, 1), (96, 4), (100, 3), (128, 4)] {
        kivi((4, 2), head_dim, heads).check(&client);
    }
    let whole = |head_dim, heads, bits| {
        Case::new(scheme(WHOLE, bits, head_dim, F16), scheme(Side::Values(0), bits, head_dim, F16), heads)
    };
    whole(80, 1, 3).check(&client);
    whole(96, 1, 8).check(&client);
    whole(100, 3, 2).check(&client);
    whole(128, 1, 6).check(&client);
}

#[test]
fn lanes_of_every_length_are_attended_together() {
    let Some(client) = client() else { return };
    let lengths = vec![1, 0, 31, 32, 33, 67, 64, 300, 1025];
    for sinks in [0, 4] {
        let lengths = lengths.iter().map(|&n| if n > 1 { n + sinks } else { n }).collect();
        Case { sinks, lengths, ..kivi((4, 4), 64, 3) }.check(&client);
    }
    let all = |sinks| Case {
        sinks,
        ..Case::new(scheme(WHOLE, 4, 64, F16), scheme(Side::Values(0), 4, 64, F16), 3)
    };
    Case { lengths: vec![0, 1, 257, 300], ..all(0) }.check(&client);
    Case { lengths: vec![2, 5, 257, 300], ..all(4) }.check(&client);
    // More sinks than a chunk has tokens.
    Case { lengths: vec![290, 350], ..all(300) }.check(&client);
}

#[test]
fn groups_of_other_lengths_are_attended() {
    let Some(client) = client() else { return };
    for (tokens, bits) in [(16, 4), (48, 3), (64, 2), (128, 8), (20, 4)] {
        let keys = scheme(Side::Keys(Groups::PerChannel { tokens }), bits, 64, F16);
        let case = Case::new(keys, scheme(Side::Values(16), 4, 64, F16), 1);
        Case { residuals: (tokens, 8), lengths: vec![2 * tokens + 3, 5 * tokens], ..case }.check(&client);
    }
    let keys = scheme(Side::Keys(Groups::PerToken { size: 32 }), 2, 100, Metadata::F32);
    Case::new(keys, scheme(Side::Values(48), 3, 100, Metadata::F32), 2).check(&client);
}

#[test]
fn one_bit_of_minimum_and_maximum_is_attended() {
    let Some(client) = client() else { return };
    let mut keys = scheme(WHOLE, 1, 64, F16);
    keys.options.one_bit = OneBit::Rtn;
    let mut values = scheme(Side::Values(32), 1, 64, F16);
    values.options.one_bit = OneBit::Rtn;
    Case::new(keys, values, 3).check(&client);
}

/// The tolerance tells codes from what they were made of.
#[test]
fn attention_over_exact_rows_would_not_pass() {
    let Some(client) = client() else { return };
    let case = kivi((8, 8), 64, 2);
    let mut noise = Noise::new(3);
    let keys = case.tensor(Freeze::Block, 32, &mut noise);
    let rows = case.read(&case.keys, &keys, 0, 0);
    let row = |t: usize| &keys.rows[t * KV_HEADS * 64..][..64];
    let exact: Vec<f32> = (0..case.lengths[0]).flat_map(row).copied().collect();
    let q: Vec<f32> = noise.take(64).iter().map(|x| x / 4.0).collect();
    let wrong: Vec<f32> = attention(&q, &exact, &rows).iter().map(|&x| x as f32).collect();
    assert!(relative(&wrong, &attention(&q, &rows, &rows)) > 1e-4);
    case.check(&client);
}

/// A cache that grows token by token: rows are kept, and coded from the ring when their time has come.
#[test]
fn a_growing_cache_is_attended_at_every_step() {
    let Some(client) = client() else { return };
    let (sinks, residual, steps) = (2, 32, 70);
    let mut case = Case { sinks, lengths: vec![steps, steps], ..kivi((4, 2), 64, 3) };
    let mut noise = Noise::new(11);
    let mut keys = case.tensor(Freeze::Block, residual, &mut noise);
    let mut values = case.tensor(Freeze::Window, residual, &mut noise);
    let store = |scheme: &Scheme, ring| {
        let room = Room { lanes: 2, kv_heads: KV_HEADS, pages: 3, sinks, ring };
        Store::new(&client, packing(*scheme), room).expect("a store")
    };
    // A value leaves the window in the step that brings its successor, so the ring has a row more.
    let (key_store, value_store) = (store(&case.keys, residual), store(&case.values, residual + 1));
    let upload_rows = |tensor: &Tensor| Rows {
        handle: upload(&client, &tensor.rows),
        rows: steps,
        order: RowOrder::RowsThenHeads,
    };
    let (key_rows, value_rows) = (upload_rows(&keys), upload_rows(&values));
    let mut q = noise.take(2 * KV_HEADS * 3 * 64);
    q.iter_mut().for_each(|x| *x /= 4.0);
    let out = client.empty(4 * q.len());
    let count = |n, freeze| frozen_tokens(n, residual, freeze, sinks) - n.min(sinks);
    for n in 1..=steps {
        for (store, rows, freeze) in
            [(&key_store, &key_rows, Freeze::Block), (&value_store, &value_rows, Freeze::Window)]
        {
            store.keep(&client, rows, &vec![Span { tokens: n - 1..n, row: n - 1 }; 2]).expect("room");
            store.quantize_ring(&client, &vec![count(n - 1, freeze)..count(n, freeze); 2]).expect("room");
        }
        if ![1, 2, 33, 34, 35, 65, 66, 67, 70].contains(&n) {
            continue;
        }
        let (coded_keys, coded_values) = (count(n, Freeze::Block), count(n, Freeze::Window));
        let lanes = Lanes::new(&client, &[Lane { length: n, coded_keys, coded_values }; 2]);
        Attention::new(&key_store, &value_store, 3)
            .expect("one layer")
            .launch(&client, &upload(&client, &q), &lanes, &out)
            .expect("a launch");
        case.lengths = vec![n; 2];
        (keys.coded, values.coded) = (vec![coded_keys; 2], vec![coded_values; 2]);
        let error = case.distance(&q, &keys, &values, &download(&client, &out, q.len()));
        assert!(error < 1e-5, "{error:e} after {n} tokens");
    }
}
