use std::time::Instant;

use kvtune_kernels::matrix::{Matrix, multiply};
use rayon::prelude::*;

/// What the machine can do on as many threads as the model has, at the time of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Threads of the pool.
    pub threads: usize,
    /// 10⁹ bytes a second that a sum over a large buffer reads.
    pub read: f64,
    /// 10⁹ bytes a second that a copy of it reads and writes together.
    pub copy: f64,
    /// 10⁹ floating point operations a second of a large f32 product.
    pub sgemm: f64,
}

/// Elements of the buffers: 256 MiB, beyond what a cache holds.
const ELEMENTS: usize = 1 << 26;
/// Rows and columns of the product.
const SIDE: usize = 1024;
/// The best of so many rounds counts: whatever else runs can only slow a round down.
const ROUNDS: usize = 3;

impl Machine {
    /// Measures; takes about two seconds and 512 MiB.
    pub fn measure() -> Self {
        let threads = rayon::current_num_threads();
        let from = vec![1.0_f32; ELEMENTS];
        let mut to = vec![0.0_f32; ELEMENTS];
        let block = ELEMENTS / (8 * threads).max(1);
        let bytes = (ELEMENTS * size_of::<f32>()) as f64;
        let read = best(|| {
            let total: f32 = from.par_chunks(block).map(sum).sum();
            std::hint::black_box(total);
        });
        let copy = best(|| {
            to.par_chunks_mut(block)
                .zip(from.par_chunks(block))
                .for_each(|(to, from)| to.copy_from_slice(from));
        });
        std::hint::black_box(&to);
        Self { threads, read: bytes / read / 1e9, copy: 2.0 * bytes / copy / 1e9, sgemm: sgemm(threads) }
    }
}

fn sum(chunk: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 64];
    for part in chunk.chunks_exact(64) {
        lanes.iter_mut().zip(part).for_each(|(lane, x)| *lane += x);
    }
    lanes.iter().sum()
}

/// Each thread multiplies by itself, so that the rate is that of all of them together.
fn sgemm(threads: usize) -> f64 {
    let (a, b) = (vec![1.0; SIDE * SIDE], vec![1.0; SIDE * SIDE]);
    let mut outs = vec![vec![0.0_f32; SIDE * SIDE]; threads];
    let seconds = best(|| {
        outs.par_iter_mut().for_each(|out| {
            let matrix = |data| Matrix::new(data, SIDE, SIDE, SIDE);
            multiply(out, SIDE, false, matrix(&a), matrix(&b));
        });
    });
    std::hint::black_box(&outs);
    2.0 * (threads * SIDE.pow(3)) as f64 / seconds / 1e9
}

fn best(mut f: impl FnMut()) -> f64 {
    let timed = |_| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(timed).fold(f64::INFINITY, f64::min)
}
