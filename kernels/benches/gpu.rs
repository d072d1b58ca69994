//! Attention over a packed cache against a copy of the device's memory, in GB/s.
//!
//! `cargo bench -p kvtune-kernels --features cuda --bench gpu -- [lanes] [tokens]`, or `--features vulkan`. Shape of
//! Llama-3.1-8B's layers: 8 KV heads of 128 channels, 4 query heads each.
#![allow(clippy::print_stdout, clippy::print_stderr, missing_docs, reason = "a program that prints a table")]

#[cfg(not(any(feature = "cuda", feature = "vulkan")))]
compile_error!("build with `--features cuda` or `--features vulkan`: without either there is no device");

use std::time::Instant;

use cubecl::prelude::*;
use kvtune_kernels::codec::CodecOptions;
use kvtune_kernels::gpu::{
    Attention, GpuError, Groups, Lane, Lanes, Packing, Room, RowOrder, Rows, Span, Store, cubecl,
};

const KV_HEADS: usize = 8;
const HEADS: usize = 4;
const HEAD_DIM: usize = 128;
/// Exact tokens at the end of a lane, and tokens of a group of keys.
const RESIDUAL: usize = 32;
/// Timed calls; the median counts.
const REPEATS: usize = 9;

#[cube(launch_unchecked)]
fn copy(from: &Array<Vector<f32, Const<4>>>, to: &mut Array<Vector<f32, Const<4>>>) {
    if ABSOLUTE_POS < from.len() {
        to[ABSOLUTE_POS] = from[ABSOLUTE_POS];
    }
}

/// Median seconds of a call, the device's work included; the first call, which compiles, is not counted.
fn seconds<R: Runtime>(client: &ComputeClient<R>, mut call: impl FnMut()) -> f64 {
    let wait = || cubecl::future::block_on(client.sync()).expect("the device answers");
    let mut once = |_| {
        wait();
        let start = Instant::now();
        call();
        wait();
        start.elapsed().as_secs_f64()
    };
    let mut times: Vec<f64> = (0..=REPEATS).map(&mut once).skip(1).collect();
    times.sort_by(f64::total_cmp);
    times[REPEATS / 2]
}

/// Bytes read and written each second by a copy of `bytes` bytes.
fn copy_rate<R: Runtime>(client: &ComputeClient<R>, bytes: usize) -> f64 {
    let (from, to) = (client.empty(bytes), client.empty(bytes));
    let cubes = (bytes / 16).div_ceil(256);
    let (x, y) = (cubes.min(32_768), cubes.div_ceil(32_768));
    let time = seconds(client, || {
        // SAFETY: both buffers hold as many vectors as is passed, and the kernel checks its position.
        unsafe {
            copy::launch_unchecked::<R>(
                client,
                CubeCount::Static(x as u32, y as u32, 1),
                CubeDim::new_1d(256),
                ArrayArg::from_raw_parts(from.clone(), bytes / 16),
                ArrayArg::from_raw_parts(to.clone(), bytes / 16),
            );
        }
    });
    2.0 * bytes as f64 / time
}

/// A layer with as many tokens in every lane, the last of them exact.
struct Layer {
    keys: Store,
    values: Store,
    lane: Lane,
    seconds_to_quantize: f64,
}

impl Layer {
    fn new<R: Runtime>(
        client: &ComputeClient<R>,
        rows: &Rows,
        lanes: usize,
        bits: (u8, u8),
    ) -> Result<Self, GpuError> {
        let coded = (rows.rows - RESIDUAL) / RESIDUAL * RESIDUAL;
        let room = Room { lanes, kv_heads: KV_HEADS, pages: coded / 32, sinks: 0, ring: rows.rows - coded };
        let (options, groups) = (CodecOptions::default(), Groups::PerChannel { tokens: RESIDUAL });
        let keys = Store::new(client, Packing::keys(bits.0, options, groups, HEAD_DIM)?, room)?;
        let values = Store::new(client, Packing::values(bits.1, options, 32, HEAD_DIM)?, room)?;
        let codes = vec![Span { tokens: 0..coded, row: 0 }; lanes];
        let exact = vec![Span { tokens: coded..rows.rows, row: coded }; lanes];
        for store in [&keys, &values] {
            store.quantize(client, rows, &codes)?;
            store.keep(client, rows, &exact)?;
        }
        let seconds_to_quantize = seconds(client, || {
            keys.quantize(client, rows, &codes).expect("it was launched before");
        });
        let lane = Lane { length: rows.rows, coded_keys: coded, coded_values: coded };
        Ok(Self { keys, values, lane, seconds_to_quantize })
    }

    /// Bytes that attention reads.
    fn bytes(&self, lanes: usize) -> usize {
        let pages = lanes * self.lane.coded_keys / 32 * (self.keys.page_bytes() + self.values.page_bytes());
        pages + 2 * 4 * lanes * (self.lane.length - self.lane.coded_keys) * KV_HEADS * HEAD_DIM
    }
}

fn bench<R: Runtime>(client: &ComputeClient<R>, lanes: usize, tokens: usize) -> Result<(), GpuError> {
    let elements = lanes * tokens * KV_HEADS * HEAD_DIM;
    let copied = copy_rate(client, 4 * elements);
    println!("{}: {lanes} lanes of {tokens} tokens, copy {:.1} GB/s", R::name(client), copied / 1e9);
    println!("map     attend ms    GB/s  of copy  quantize elements/µs");
    let noise = |i: usize| f32::from((i.wrapping_mul(2_654_435_761) >> 8) as u16) / 32_768.0 - 1.0;
    let noise: Vec<f32> = (0..elements).map(noise).collect();
    let handle = client.create_from_slice(f32::as_bytes(&noise));
    let rows = Rows { handle, rows: tokens, order: RowOrder::RowsThenHeads };
    let queries = lanes * KV_HEADS * HEADS * HEAD_DIM;
    let q = client.create_from_slice(f32::as_bytes(&noise[..queries]));
    let out = client.empty(4 * queries);
    for bits in [(8, 8), (4, 4), (4, 2), (3, 3), (2, 2), (1, 1)] {
        let layer = Layer::new(client, &rows, lanes, bits)?;
        let attention = Attention::new(&layer.keys, &layer.values, HEADS)?;
        let counts = Lanes::new(client, &vec![layer.lane; lanes]);
        attention.launch(client, &q, &counts, &out)?;
        let time = seconds(client, || {
            attention.launch(client, &q, &counts, &out).expect("it was launched before");
        });
        let rate = layer.bytes(lanes) as f64 / time;
        println!(
            "K{}V{}   {:10.3}  {:6.1}  {:5.1} %  {:10.1}",
            bits.0,
            bits.1,
            time * 1e3,
            rate / 1e9,
            100.0 * rate / copied,
            elements as f64 / layer.seconds_to_quantize / 1e6
        );
    }
    Ok(())
}

fn main() {
    let arguments: Vec<usize> = std::env::args().filter_map(|text| text.parse().ok()).collect();
    let number = |index: usize, default: usize| arguments.get(index).copied().unwrap_or(default);
    #[cfg(feature = "cuda")]
    let result = {
        let client = cubecl::cuda::CudaRuntime::client(&Default::default());
        bench(&client, number(0, 16), number(1, 8192).max(2 * RESIDUAL))
    };
    #[cfg(all(feature = "vulkan", not(feature = "cuda")))]
    let result = {
        let client = cubecl::wgpu::WgpuRuntime::client(&Default::default());
        bench(&client, number(0, 2), number(1, 2048).max(2 * RESIDUAL))
    };
    if let Err(error) = result {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}
