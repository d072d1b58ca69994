//! What a precision map is worth in time and memory: tokens per second and bytes, several maps side by side.
//!
//! A cell is a batch of equal sequences of one length. Their caches are filled with numbers of the right size
//! instead of by the model, because the time of a step does not depend on what a cache holds; the steps are
//! real ones, on the model's weights, with every map's lanes taking turns. Beside it stands what the machine can
//! do, measured in the same run ([`Machine`]), and from that the least time that moving the bytes of a step
//! takes (**ours**).
//! Depends on `model` and `cache`; knows no search and no file.

mod machine;
mod measure;

pub use machine::Machine;
pub use measure::{Bench, measure};

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cache::{CacheKind, Simulation};
use crate::precision::PrecisionMap;

/// A batch of sequences that are `context` tokens long when the clock starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Sequences decoded together.
    pub batch: usize,
    /// Tokens of each.
    pub context: usize,
}

/// The largest batch, and length, that anyone means; larger ones could not be counted with.
const MOST: usize = 1 << 24;

/// Not of the form `8x4096`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cell `{found}` is not a batch and a length, each from 1 to {MOST}\n\nhint: write it like `8x4096`")]
pub struct CellError {
    found: String,
}

impl FromStr for Cell {
    type Err = CellError;

    fn from_str(text: &str) -> Result<Self, CellError> {
        let error = || CellError { found: text.to_owned() };
        let (batch, context) = text.split_once('x').ok_or_else(error)?;
        let number = |text: &str| text.parse().ok().filter(|n| (1..=MOST).contains(n)).ok_or_else(error);
        Ok(Self { batch: number(batch)?, context: number(context)? })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}x{}", self.batch, self.context))
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A cache to measure.
#[derive(Clone)]
pub struct Contender {
    /// Its name in the table.
    pub name: String,
    /// What its caches are made with.
    pub simulation: Simulation,
    /// Full precision or codes.
    pub kind: CacheKind,
    /// Which bits.
    pub map: PrecisionMap,
}

/// One contender in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchRow {
    /// Batch and length.
    pub cell: Cell,
    /// Name of the configuration.
    pub configuration: String,
    /// Tokens a second while a prompt of the cell's length (or of `--prompt`) is read, one sequence.
    pub prefill_tokens_per_s: f64,
    /// Milliseconds of a step of the whole batch, median over rounds.
    pub step_ms: f64,
    /// Least and greatest round.
    pub step_ms_least: f64,
    /// See `step_ms_least`.
    pub step_ms_greatest: f64,
    /// Tokens a second of the whole batch.
    pub decode_tokens_per_s: f64,
    /// As a multiple of the first configuration in the cell.
    pub speedup: f64,
    /// MiB that the batch's caches have allocated.
    pub cache_mib: f64,
    /// Stored bits per element of the cache, really allocated.
    pub storage_bits: f64,
    /// Time that reading weights and cache once takes at the measured bandwidth, as a share of the step's.
    pub floor_share: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_as_they_print() {
        let cell: Cell = "8x4096".parse().expect("a cell");
        assert_eq!((cell.batch, cell.context, cell.to_string()), (8, 4096, String::from("8x4096")));
        for bad in ["", "8", "x", "0x5", "8x", "8x-1", "8x4096x2", "99999999999999999999x1", "16777217x1"] {
            let error = bad.parse::<Cell>().expect_err(bad).to_string();
            assert!(error.starts_with(&format!("cell `{bad}` is not")), "{error}");
        }
    }
}
