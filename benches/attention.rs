//! One step's attention over exact and over packed tokens: `cargo bench --bench attention [-- CONTEXT…]`.
//!
//! Many sequences, so that what is read does not fit a cache; every thread takes whole sequences. Each time is
//! the best of several rounds and stands beside two floors of the same run: bytes over read bandwidth, and
//! operations (4 an element and query head) over the rate of a large product.
#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark prints")]

use std::time::Instant;

use kvtune::bench::Machine;
use kvtune_kernels::codec::{Codec, CodecOptions};
use kvtune_kernels::packed::{Groups, Layout, PackedHead, Query, Stored, attend};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

const ROUNDS: usize = 5;
/// Bytes of all keys and values as f32.
const BYTES: usize = 1 << 29;
/// Tokens of one task.
const SPAN: usize = 2048;

fn main() {
    let typed: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let contexts = if typed.is_empty() { vec![4096, 32768] } else { typed };
    let machine = Machine::measure();
    println!(
        "{} threads; reads {:.1} GB/s, sgemm {:.0} GFLOP/s, best of {ROUNDS} rounds\n",
        machine.threads, machine.read, machine.sgemm
    );
    println!("context  dim  heads  cache         ms   of f32  bytes floor  flop floor  share of the larger");
    for context in contexts {
        for (head_dim, heads) in [(64, 1), (64, 3), (128, 1), (128, 4)] {
            Case { context, head_dim, heads, machine }.run();
        }
    }
}

struct Case {
    context: usize,
    head_dim: usize,
    heads: usize,
    machine: Machine,
}

impl Case {
    fn run(&self) {
        let tokens = noise(self.context * self.head_dim);
        let lanes = (BYTES / (8 * tokens.len())).max(1);
        let exact = vec![(tokens.clone(), tokens.clone()); lanes];
        let plain = |tail| Stored { sinks: &[], packed: None, tail };
        let full = best(|| exact.par_iter().for_each(|(k, v)| self.attend(plain(k), plain(v))));
        self.line("f32", full, full, exact.len() * tokens.len() * 8);
        drop(exact);
        for scheme in ["kivi", "token"] {
            for bits in [8, 6, 4, 3, 2, 1] {
                let (keys, values) = self.packed(scheme, bits, &tokens);
                let bytes = [&keys, &values].map(|head| head.code_bytes() + head.metadata_bytes());
                let packed = vec![(keys, values); lanes];
                let codes = |packed| Stored { sinks: &[], packed: Some(packed), tail: &[] };
                let seconds = best(|| packed.par_iter().for_each(|(k, v)| self.attend(codes(k), codes(v))));
                self.line(&format!("{scheme} {bits}"), seconds, full, lanes * (bytes[0] + bytes[1]));
            }
        }
    }

    fn packed(&self, scheme: &str, bits: u8, tokens: &[f32]) -> (PackedHead, PackedHead) {
        let codec = Codec::new(bits, CodecOptions::default()).expect("a codec");
        let (groups, size) = match scheme {
            "kivi" => (Groups::Tokens(32), 32),
            _ => (Groups::Channels(self.head_dim), self.head_dim),
        };
        let mut keys = PackedHead::new(Layout::keys(codec, self.head_dim, groups));
        let mut values = PackedHead::new(Layout::values(codec, self.head_dim, size));
        keys.append(tokens).expect("finite");
        values.append(tokens).expect("finite");
        (keys, values)
    }

    fn attend(&self, keys: Stored<'_>, values: Stored<'_>) {
        let q = noise(self.heads * self.head_dim);
        let query = Query { q: &q, head_dim: self.head_dim, hadamard: false, bias: None };
        let mut sum = attend(query, keys, values, 0..SPAN.min(self.context));
        for start in (SPAN..self.context).step_by(SPAN) {
            sum.merge(&attend(query, keys, values, start..self.context.min(start + SPAN)));
        }
        let mut out = vec![0.0; q.len()];
        sum.finish(&mut out);
        std::hint::black_box(out);
    }

    fn line(&self, name: &str, seconds: f64, full: f64, bytes: usize) {
        let lanes = (BYTES / (8 * self.context * self.head_dim)).max(1);
        let bytes = bytes as f64 / (self.machine.read * 1e9);
        let operations = (4 * lanes * self.context * self.head_dim * self.heads) as f64;
        let operations = operations / (self.machine.sgemm * 1e9);
        println!(
            "{:>7} {:>4} {:>6}  {name:<10} {:>6.1} {:>8.3} {:>12.1} {:>11.1} {:>15.2} {}",
            self.context,
            self.head_dim,
            self.heads,
            seconds * 1e3,
            seconds / full,
            bytes * 1e3,
            operations * 1e3,
            bytes.max(operations) / seconds,
            if bytes > operations { "bytes" } else { "flops" },
        );
    }
}

fn noise(len: usize) -> Vec<f32> {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    (0..len).map(|_| random.random_range(-0.5..0.5)).collect()
}

fn best(mut f: impl FnMut()) -> f64 {
    let timed = |_| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(timed).fold(f64::INFINITY, f64::min)
}
