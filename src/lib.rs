//! kvtune finds, offline and once per model, the bit width that each layer's key and value cache needs.
//!
//! The tree is the pipeline; reading the modules in this order is following the data:
//!
//! ```text
//! model id / dir / gguf ─▶ model ─▶ trace ─▶ sensitivity ─▶ space ─▶ search ─▶ select ─▶ report ─▶ YAML, CSV, SVG
//!        task prompts ──────────────┘             ▲        (prune,     ▲          ▲
//!                                                 │         group)     └── score ─┘
//!                                         cache ◀ quant ◀ kernels          (runs maps on the model)
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | [`precision`] | bit widths, pairs, maps, and what they cost |
//! | [`model`] | files → config, weights, tokenizer; the decoder |
//! | [`quant`] | schemes: how a tensor is cut into groups and coded |
//! | [`cache`] | what attention reads: full precision, simulated low-bit or packed codes |
//! | [`tasks`], [`trace`] | prompts, and the full-precision model's own continuation of them |
//! | [`sensitivity`] | errors per layer and precision pair |
//! | [`analysis`] | why: attention patterns, key outliers, noise on keys, maps a step lower |
//! | [`space`] | Pareto-efficient pairs per layer, groups of like layers |
//! | [`search`] | searchers over a space, on an ask/tell interface |
//! | [`score`] | runs precision maps over a trace |
//! | [`dgap`] | heads that repair the steps that a low-bit cache breaks |
//! | [`select`] | intervals on losses, and which map of a front to take |
//! | [`bench`](mod@bench) | time and memory of precision maps |
//! | [`report`] | the files a job leaves behind |
//! | [`export`] | maps in the spelling of inference engines |
//! | [`job`] | a calibration job: its YAML and its stages, in order |
//! | [`cli`] | arguments, environment, printing, exit codes |
//! | [`parallel`], [`progress`] | work in order on some threads; who hears of progress |
//!
//! Without a device (no `flex`, no `cuda`) there are neither [`cli`] nor `job::stages`.
//!
//! The method is KVTuner's (Li et al., ICML 2025, arXiv:2502.04420); where the paper is silent and we had to
//! decide, the item's documentation says **ours**. `ARCHITECTURE.md` states what each module must not know.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod bench;
pub mod cache;
#[cfg(any(feature = "flex", feature = "cuda"))]
pub mod cli;
pub mod dgap;
pub mod export;
pub mod job;
pub mod model;
mod nearest;
pub mod parallel;
pub mod precision;
pub mod progress;
pub mod quant;
pub mod report;
pub mod score;
pub mod search;
pub mod select;
pub mod sensitivity;
pub mod space;
pub mod tasks;
pub mod trace;
