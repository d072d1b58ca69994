//! How fast the model runs, beside what the machine can do, in one run: `cargo bench --bench speed`.
//!
//! Model: `KVTUNE_BENCH_MODEL`, or `smollm2-135m.gguf` in the user's cache. Every figure is the median of
//! interleaved rounds; the floor is the rate of one large matrix product on the same threads.
#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark prints")]

use std::path::PathBuf;
use std::time::Instant;

use burn::tensor::{Distribution, Tensor};
use burn_flex::Flex;
use kvtune::cache::Units;
use kvtune::model::{Checkpoint, Config, Decoder, WeightType, generate, to_host};
use kvtune::precision::{Bits, PrecisionMap, PrecisionPair};
use kvtune::progress::Silent;
use kvtune::quant::{Prefill, Scheme};
use kvtune::score::simulation;
use kvtune::sensitivity::{accumulated, isolated};
use kvtune_kernels::matrix::{Matrix, Weights, multiply_many};
use rayon::prelude::*;

const ROUNDS: usize = 5;
const PREFILL: usize = 512;
const SENSITIVITY: usize = 715;
/// Of the comparison of one pass with step-by-step decoding.
const PROMPT: usize = 256;
const CONTINUATION: usize = 96;

fn main() {
    let Some(path) = model() else { return };
    // As the program has it: this thread is one of the pool's.
    rayon::ThreadPoolBuilder::new().use_current_thread().build_global().expect("the first pool");
    let checkpoint = Checkpoint::open(&path).expect("a model");
    let decoder: Decoder<Flex> = Decoder::load(&checkpoint, &Default::default()).expect("a model's weights");
    println!("{}, {} threads, {ROUNDS} rounds", path.display(), rayon::current_num_threads());
    let tokens: Vec<u32> = (0..SENSITIVITY as u32).map(|i| i * 7919 % 40_000 + 100).collect();
    let bench = Bench { decoder: &decoder, tokens: &tokens };
    bench.rows();
    bench.table();
    decode(&checkpoint, &decoder);
}

/// Steps of one decoding run.
const STEPS: usize = 24;

/// Decoding with weights of each type, beside the rate at which memory is read in the same rounds.
fn decode(checkpoint: &Checkpoint, full: &Decoder<Flex>) {
    let load = |weights| Decoder::load_as(checkpoint, &Default::default(), weights).expect("weights");
    let held: [(WeightType, &Decoder<Flex>); 3] = [
        (WeightType::F32, full),
        (WeightType::F16, &load(WeightType::F16)),
        (WeightType::Bf16, &load(WeightType::Bf16)),
    ];
    let memory: Vec<f32> = (0..READ / 4).map(|i| i as f32).collect();
    println!("\nweights  lanes   tokens/s   GB/s of weights   of the read bandwidth");
    for lanes in [1, 4, 16] {
        let (mut bandwidth, mut seconds) = (Vec::new(), [const { Vec::new() }; 3]);
        for _ in 0..ROUNDS {
            bandwidth.push(READ as f64 / timed(|| read(&memory)));
            for ((_, decoder), seconds) in held.iter().zip(&mut seconds) {
                seconds.push(step_seconds(decoder, lanes));
            }
        }
        let bandwidth = median(bandwidth);
        for ((weights, decoder), seconds) in held.iter().zip(seconds) {
            let (seconds, bytes) =
                (median(seconds), decoder.config().weight_elements() * weights.bytes() as u64);
            let (rate, share) = (bytes as f64 / seconds, bytes as f64 / seconds / bandwidth);
            let tokens = lanes as f64 / seconds;
            println!("{weights:>7} {lanes:>6} {tokens:>10.1} {:>17.1} {:>22.0} %", rate / 1e9, 100.0 * share);
        }
    }
}

/// Bytes that are read to learn the bandwidth: far more than any cache holds.
const READ: usize = 1 << 30;

fn read(memory: &[f32]) {
    let sum = |part: &[f32]| {
        let mut lanes = [0.0; 64];
        for part in part.as_chunks::<64>().0 {
            lanes.iter_mut().zip(part).for_each(|(lane, x)| *lane += x);
        }
        lanes.iter().sum::<f32>()
    };
    std::hint::black_box(memory.par_chunks(1 << 16).map(sum).sum::<f32>());
}

/// A step of that many sequences, logits and all.
fn step_seconds(decoder: &Decoder<Flex>, lanes: usize) -> f64 {
    let mut caches: Vec<_> = (0..lanes).map(|_| decoder.full_caches()).collect();
    let tokens: Vec<u32> = (0..lanes as u32).map(|lane| 100 + lane).collect();
    let mut step = || {
        let hidden = decoder.step(&tokens, &mut caches).expect("full-precision caches take anything");
        drop(to_host(decoder.logits(hidden)));
    };
    step();
    timed(|| (0..STEPS).for_each(|_| step())) / STEPS as f64
}

fn model() -> Option<PathBuf> {
    let default = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/kvtune/smollm2-135m.gguf"));
    let path = std::env::var_os("KVTUNE_BENCH_MODEL").map(PathBuf::from).or_else(default)?;
    if !path.exists() {
        println!("skipped: no `{}` (run scripts/fetch-test-models.sh)", path.display());
        return None;
    }
    Some(path)
}

fn random(len: usize) -> Vec<f32> {
    let tensor = Tensor::<Flex, 1>::random([len], Distribution::Default, &Default::default());
    tensor.into_data().into_vec().expect("an f32 backend holds f32")
}

struct Bench<'a> {
    decoder: &'a Decoder<Flex>,
    tokens: &'a [u32],
}

impl Bench<'_> {
    /// One layer's widest product at several row counts: rate, and whether a row is the same bits.
    fn rows(&self) {
        let config = self.decoder.config();
        let (input, output) = (config.hidden_size, 2 * config.intermediate_size);
        let (x, weight) = (random(4096 * input), random(output * input));
        let product = |rows| multiply_many(Matrix::new(&x, rows, input, input), Weights::F32(&weight));
        let all = product(4096);
        println!("\n{input} → {output}   rows   GFLOP/s   first rows equal those among 4,096");
        for rows in [1, 2, 64, 512, 4096] {
            let equal = product(rows) == all[..rows * output];
            let seconds = median((0..ROUNDS).map(|_| timed(|| drop(product(rows)))).collect());
            let rate = 2.0 * (rows * input * output) as f64 / seconds / 1e9;
            println!("{rows:>16} {rate:>9.1}   {equal}");
        }
    }

    fn table(&self) {
        let prefill = flops(self.decoder.config(), PREFILL);
        let pairs: Vec<PrecisionPair> =
            [8, 4, 2, 1].iter().flat_map(|&k| [8, 4, 2, 1].map(|v| pair(k, v))).collect();
        let mut seconds = [const { Vec::new() }; 6];
        for _ in 0..ROUNDS {
            seconds[0].push(self.sgemm());
            seconds[1].push(timed(|| self.prefill(PREFILL)));
            seconds[2].push(timed(|| self.prefill(SENSITIVITY)));
            seconds[3].push(timed(|| self.isolated(&pairs)));
            seconds[4].push(timed(|| self.one_pass()));
            seconds[5].push(timed(|| self.step_by_step()));
        }
        let accumulated = timed(|| self.accumulated(&pairs)) / pairs.len() as f64;
        let [sgemm, short, long, isolated, one_pass, steps] = seconds.map(median);
        let rate = SGEMM_FLOPS / sgemm / 1e9;
        println!("\nmatrix products {rate:.0} GFLOP/s");
        println!(
            "prefill of {PREFILL} tokens: {:.0} tokens/s, {:.0} GFLOP/s, {:.0} % of the products' rate",
            PREFILL as f64 / short,
            prefill / short / 1e9,
            100.0 * prefill / short / 1e9 / rate
        );
        println!(
            "{} pairs without accumulation, {SENSITIVITY} tokens: {:.2} prefills",
            pairs.len(),
            isolated / long
        );
        println!("a pair with accumulation: {:.2} prefills", accumulated / long);
        println!(
            "scoring {PROMPT} + {CONTINUATION} tokens in one pass: {:.1} × as fast as token by token",
            steps / one_pass
        );
    }

    /// The engine's own product of two square matrices.
    fn sgemm(&self) -> f64 {
        let (a, b) = (random(SGEMM * SGEMM), random(SGEMM * SGEMM));
        timed(|| drop(multiply_many(Matrix::new(&a, SGEMM, SGEMM, SGEMM), Weights::F32(&b))))
    }

    /// Body, and the logits of the last position.
    fn prefill(&self, tokens: usize) {
        let hidden = self.decoder.forward(&self.tokens[..tokens], &mut self.decoder.full_caches());
        let hidden = hidden.expect("full-precision caches take anything");
        drop(to_host(self.decoder.logits(hidden.narrow(0, tokens - 1, 1))));
    }

    fn isolated(&self, pairs: &[PrecisionPair]) {
        let scheme = Scheme::kivi();
        let simulation = simulation(self.decoder, &scheme, SENSITIVITY).expect("kivi suits any model");
        let units = Units::prompt(SENSITIVITY, Prefill::Dequantized);
        let table = isolated::measure(self.decoder, &simulation, pairs, self.tokens, &units, &Silent);
        drop(table.expect("finite activations"));
    }

    fn accumulated(&self, pairs: &[PrecisionPair]) {
        let scheme = Scheme::kivi();
        let simulation = simulation(self.decoder, &scheme, SENSITIVITY).expect("kivi suits any model");
        let units = Units::prompt(SENSITIVITY, Prefill::Dequantized);
        let model = (self.decoder, &simulation);
        let threads = rayon::current_num_threads();
        drop(accumulated::measure(model, pairs, self.tokens, &units, threads, &Silent).expect("finite"));
    }

    fn one_pass(&self) {
        let simulation =
            simulation(self.decoder, &Scheme::kivi(), SENSITIVITY).expect("kivi suits any model");
        let units = Units::prompt(PROMPT, Prefill::Dequantized);
        let mut caches = simulation.caches(&self.map(), 0, &units).expect("4 bits have a codec");
        let tokens = &self.tokens[..PROMPT + CONTINUATION - 1];
        let hidden = self.decoder.forward(tokens, &mut caches).expect("finite");
        drop(to_host(self.decoder.logits(hidden.narrow(0, PROMPT - 1, CONTINUATION))));
    }

    fn step_by_step(&self) {
        let simulation =
            simulation(self.decoder, &Scheme::kivi(), SENSITIVITY).expect("kivi suits any model");
        let units = Units::prompt(PROMPT, Prefill::Dequantized);
        let mut caches = simulation.caches(&self.map(), 0, &units).expect("4 bits have a codec");
        let go_on = |_| std::ops::ControlFlow::Continue(());
        let prompt = &self.tokens[..PROMPT];
        drop(generate::greedy(self.decoder, &mut caches, prompt, CONTINUATION, go_on).expect("finite"));
    }

    fn map(&self) -> PrecisionMap {
        PrecisionMap::uniform(self.decoder.config().num_hidden_layers, pair(4, 4))
    }
}

const SGEMM: usize = 2048;
const SGEMM_FLOPS: f64 = 2.0 * (SGEMM * SGEMM * SGEMM) as f64;

fn pair(key: u8, value: u8) -> PrecisionPair {
    let bits = |bits| Bits::try_from(bits).expect("a width");
    PrecisionPair::new(bits(key), bits(value))
}

/// Linear products, causal attention, and the logits of one position.
fn flops(config: &Config, tokens: usize) -> f64 {
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let shape = config.head_shape();
    let linear = hidden * (2 * shape.q_width() + 2 * shape.kv_width()) + 3 * hidden * inner;
    let attention = shape.q_width() * tokens; // half of 2 · width · tokens, twice
    let body = config.num_hidden_layers * tokens * 2 * (linear + attention);
    (body + 2 * hidden * config.vocab_size) as f64
}

fn timed(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64()
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
