//! The two real models at hand against reference values made with independent software.
//!
//! Models are looked for in `KVTUNE_TEST_MODELS`, then in the user's cache (`scripts/fetch-test-models.sh`);
//! reference values in `KVTUNE_GOLDEN`, or where the maintainers keep them. What is absent is skipped, aloud.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may")]

mod generation;
mod logits;
mod models;
mod perplexity;
mod sensitivity;
