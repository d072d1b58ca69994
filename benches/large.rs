//! A model that does not fit as f32, streamed: time and memory of sensitivity and scoring, `cargo bench --bench large`.
//!
//! Two layers of the shape of Llama-3.1-8B with random weights in bf16, 3 GB in a temporary folder; 32 layers are
//! **extrapolated** from them. Random weights cost what trained ones cost and say nothing of quality. Anonymous memory
//! is what the process holds for itself; pages of the mapped file come on top, and the system takes them back when it
//! needs them.
#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark prints")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use burn_flex::Flex;
use half::bf16;
use kvtune::cache::Units;
use kvtune::model::{Checkpoint, Decoder, from_host, to_host};
use kvtune::precision::{Bits, PrecisionMap, PrecisionPair};
use kvtune::progress::Silent;
use kvtune::quant::{Prefill, Scheme};
use kvtune::score::{Scorer, simulation};
use kvtune::sensitivity::isolated;
use kvtune::trace::{Document, Split};

const LAYERS: usize = 2;
/// Of Llama-3.1-8B.
const WHOLE: usize = 32;
const HIDDEN: usize = 4096;
const INNER: usize = 14336;
const KEYS: usize = 1024;
const VOCAB: usize = 128_256;

const DOCUMENTS: usize = 2;
const PROMPT: usize = 448;
const CONTINUATION: usize = 64;
const PAIRS: [(u8, u8); 9] = [(8, 8), (8, 4), (4, 8), (8, 2), (2, 8), (4, 4), (4, 2), (2, 4), (2, 2)];
const MAPS: [(u8, u8); 2] = [(4, 4), (4, 2)];

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_model(folder.path()).expect("room for 3 GB");
    let checkpoint = Arc::new(Checkpoint::open(folder.path()).expect("the model just written"));
    let watch = Watch::start();
    let bench = Bench::new(&checkpoint);
    bench.run(watch);
}

struct Bench {
    decoder: Decoder<Flex>,
    documents: Vec<Document>,
    threads: usize,
}

impl Bench {
    fn new(checkpoint: &Arc<Checkpoint>) -> Self {
        let decoder = Decoder::stream(Arc::clone(checkpoint), &Default::default()).expect("its weights");
        let documents = (0..DOCUMENTS).map(document).collect();
        Self { decoder, documents, threads: rayon::current_num_threads() }
    }

    fn run(&self, watch: Watch) {
        let parameters = self.decoder.config().weight_elements();
        let layer = (parameters - 2 * (VOCAB * HIDDEN) as u64) / LAYERS as u64;
        let whole = 2 * (VOCAB * HIDDEN) as u64 + WHOLE as u64 * layer;
        println!("Llama-3.1-8B's shape, random bf16 weights, {LAYERS} layers, {} threads", self.threads);
        println!(
            "{DOCUMENTS} documents of {PROMPT} + {CONTINUATION} tokens; {} pairs; {} maps",
            PAIRS.len(),
            MAPS.len()
        );
        drop(self.decoder.open(1).expect("a layer")); // from the disk, the first time
        let open = timed(|| drop(self.decoder.open(1).expect("a layer")));
        let sensitivity = timed(|| self.sensitivity());
        let scoring = timed(|| self.scoring());
        let head = timed(|| self.head());
        let peak = watch.stop();
        let each = (scoring - head) / LAYERS as f64;
        println!("reading a layer as f32: {open:.2} s; computing it for one document: {:.2} s", {
            (sensitivity / LAYERS as f64 - open) / DOCUMENTS as f64
        });
        println!("sensitivity: {sensitivity:.1} s; {WHOLE} layers {:.0} s (extrapolated)", {
            sensitivity / LAYERS as f64 * WHOLE as f64
        });
        println!(
            "scoring: {scoring:.1} s, {head:.1} s of it logits; {WHOLE} layers {:.0} s (extrapolated)",
            { each * WHOLE as f64 + head }
        );
        println!(
            "peak of anonymous memory: {:.2} GB; a layer as f32 {:.2} GB, embedding and head as bf16 {:.2} GB; all \
             {WHOLE} layers as f32 {:.1} GB",
            peak as f64 / 1e9,
            4.0 * layer as f64 / 1e9,
            4.0 * (VOCAB * HIDDEN) as f64 / 1e9,
            4.0 * whole as f64 / 1e9
        );
    }

    fn sensitivity(&self) {
        let simulation = simulation(&self.decoder, &Scheme::kivi(), PROMPT).expect("kivi suits any model");
        let pairs: Vec<PrecisionPair> = PAIRS.iter().map(|&bits| pair(bits)).collect();
        let units = Units::prompt(PROMPT, Prefill::Dequantized);
        let sequences: Vec<(&[u32], Units)> =
            self.documents.iter().map(|document| (&document.tokens[..], units.clone())).collect();
        let model = (&self.decoder, &simulation);
        drop(isolated::measure_all(model, &pairs, &sequences, self.threads, &Silent).expect("finite"));
    }

    fn scoring(&self) {
        let simulation = simulation(&self.decoder, &Scheme::kivi(), PROMPT).expect("kivi suits any model");
        let maps: Vec<PrecisionMap> =
            MAPS.iter().map(|&bits| PrecisionMap::uniform(LAYERS, pair(bits))).collect();
        let scorer = Scorer::new(&self.decoder, &simulation, self.documents.iter().collect(), self.threads);
        drop(scorer.evaluate(&maps, &Silent).expect("finite"));
    }

    /// The logits that scoring takes: of each map, and of full precision for each unit.
    fn head(&self) {
        for _ in 0..DOCUMENTS * (1 + MAPS.len()) {
            let hidden = from_host(vec![0.5; CONTINUATION * HIDDEN], CONTINUATION, self.decoder.device());
            drop(to_host(self.decoder.logits(hidden)));
        }
    }
}

fn pair((key, value): (u8, u8)) -> PrecisionPair {
    let bits = |bits| Bits::try_from(bits).expect("a width");
    PrecisionPair::new(bits(key), bits(value))
}

/// Any tokens; what full precision says of them matters to the loss, not to the time.
fn document(index: usize) -> Document {
    let tokens = (0..PROMPT + CONTINUATION).map(|i| ((i + 1000 * index) * 7919 % VOCAB) as u32).collect();
    Document {
        id: index.to_string(),
        domain: "none".into(),
        split: Split::Search,
        tokens,
        prompt_len: PROMPT,
        top_ids: Vec::new(),
        top_logits: Vec::new(),
        log_sum_exp: Vec::new(),
        hidden: vec![0.5; CONTINUATION * HIDDEN],
    }
}

/// `config.json` and one file of random weights.
fn write_model(folder: &Path) -> std::io::Result<()> {
    let config = serde_json::json!({
        "architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN, "intermediate_size": INNER,
        "num_hidden_layers": LAYERS, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": VOCAB,
        "rms_norm_eps": 1e-5, "max_position_embeddings": 131_072, "hidden_act": "silu",
        "rope_theta": 500_000.0, "bos_token_id": 128_000, "eos_token_id": 128_001
    });
    std::fs::write(folder.join("config.json"), config.to_string())?;
    let tensors = tensors();
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for (name, shape) in &tensors {
        let start = end;
        end += 2 * shape.iter().product::<usize>();
        let entry = serde_json::json!({"dtype": "BF16", "shape": shape, "data_offsets": [start, end]});
        header.insert(name.clone(), entry);
    }
    let mut header = serde_json::Value::Object(header).to_string();
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    let mut file = BufWriter::with_capacity(1 << 22, File::create(folder.join("model.safetensors"))?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let random = random_bytes();
    let mut left = end;
    while left > 0 {
        let part = left.min(random.len());
        file.write_all(&random[..part])?;
        left -= part;
    }
    file.flush()
}

fn tensors() -> Vec<(String, Vec<usize>)> {
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCAB, HIDDEN]),
        ("model.norm.weight".to_owned(), vec![HIDDEN]),
        ("lm_head.weight".to_owned(), vec![VOCAB, HIDDEN]),
    ];
    for layer in 0..LAYERS {
        let parts = [
            ("input_layernorm", vec![HIDDEN]),
            ("post_attention_layernorm", vec![HIDDEN]),
            ("self_attn.q_proj", vec![HIDDEN, HIDDEN]),
            ("self_attn.k_proj", vec![KEYS, HIDDEN]),
            ("self_attn.v_proj", vec![KEYS, HIDDEN]),
            ("self_attn.o_proj", vec![HIDDEN, HIDDEN]),
            ("mlp.gate_proj", vec![INNER, HIDDEN]),
            ("mlp.up_proj", vec![INNER, HIDDEN]),
            ("mlp.down_proj", vec![HIDDEN, INNER]),
        ];
        let named = parts.map(|(part, shape)| (format!("model.layers.{layer}.{part}.weight"), shape));
        tensors.extend(named);
    }
    tensors
}

/// Uniform in ±0.03, from a generator that is good enough for time.
fn random_bytes() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bf16::from_f32(((state >> 40) as f32 / (1 << 24) as f32 - 0.5) * 0.06)
    };
    (0..(1 << 22) + 17).flat_map(|_| next().to_le_bytes()).collect()
}

fn timed(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64()
}

/// Looks at the process's anonymous memory from time to time; 0 where the system does not tell.
struct Watch {
    done: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<u64>,
}

impl Watch {
    fn start() -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&done);
        let thread = std::thread::spawn(move || {
            let mut peak = 0;
            while !seen.load(Ordering::Relaxed) {
                peak = peak.max(anonymous().unwrap_or(0));
                std::thread::sleep(Duration::from_millis(5));
            }
            peak
        });
        Self { done, thread }
    }

    fn stop(self) -> u64 {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or(0)
    }
}

fn anonymous() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(1024 * line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?)
}
