use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::score::Objective;
use crate::search::Algorithm;
use crate::trace::TraceParams;

use super::answers::AnswersSpec;
use super::search_space::SearchSpace;
use super::units::ByteSize;

/// One calibration job with every default filled in; what `job.yaml` holds.
///
/// Made by [`Job::read`] or [`Job::parse`], which check it; a `Job` in hand is a valid one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// A name from `kvtune model list`, a directory, a `.gguf` file, or a hub id.
    pub model: String,
    /// What the search may choose from; in a file, a path or the mapping itself.
    pub search_space: SearchSpace,
    /// Which prompts are traced.
    pub trace: TraceParams,
    /// How the space is searched, and for what.
    pub search: SearchSpec,
    /// What `objective: accuracy` asks; absent for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<AnswersSpec>,
    /// Folder of the job's files; default `runs/<model>/<scheme>`.
    pub out: PathBuf,
}

impl Default for Job {
    /// `out` is empty: reading fills it in once model and scheme are known.
    fn default() -> Self {
        Self {
            model: String::from("smollm2-135m"),
            search_space: SearchSpace::default(),
            trace: TraceParams::default(),
            search: SearchSpec::default(),
            answers: None,
            out: PathBuf::new(),
        }
    }
}

/// How the space is searched, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchSpec {
    /// Who proposes configurations.
    pub algorithm: Algorithm,
    /// The loss against the same model with a full-precision cache.
    pub objective: Objective,
    /// Limit in equivalent bits.
    pub max_bits: Option<f64>,
    /// Limit in stored bits an element, scales and residual included.
    pub max_storage_bits: Option<StorageLimit>,
    /// Limit in bytes of the whole cache.
    pub max_cache: Option<CacheLimit>,
    /// Loss that the chosen map may have, in units of the objective.
    pub max_loss: f64,
    /// Distinct configurations that may be evaluated.
    pub evaluations: usize,
    /// Seed of the searcher.
    pub seed: u64,
    /// Table of the additive model: seeds `moead` and `nsga2`, and is all that `additive` goes by.
    pub seed_table: SeedTable,
}

impl Default for SearchSpec {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::default(),
            objective: Objective::default(),
            max_bits: None,
            max_storage_bits: None,
            max_cache: None,
            max_loss: 0.05,
            evaluations: 50,
            seed: 0,
            seed_table: SeedTable::default(),
        }
    }
}

/// Where the additive model takes the loss of one (group, pair) from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeedTable {
    /// End-to-end KL with that group alone quantized; each measurement counts as an evaluation.
    IsolatedKl,
    /// The layer error of the sensitivity stage, summed over the group: costs no evaluation.
    #[default]
    #[serde(rename = "e_o")]
    Eo,
    /// No additive model: the searcher starts from the uniform configurations.
    None,
}

/// A limit in stored bits an element at one context length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StorageLimit {
    /// Tokens in the cache.
    pub context: usize,
    /// Bits an element.
    pub bits: f64,
}

/// A limit in bytes of the whole cache at one context length and batch size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheLimit {
    /// Tokens in each sequence's cache.
    pub context: usize,
    /// Sequences held at once.
    #[serde(default = "one")]
    pub batch: usize,
    /// Bytes of all of them together.
    pub bytes: ByteSize,
}

fn one() -> usize {
    1
}
