use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::precision::{Bits, PrecisionPair};

use super::files::{FileError, read_yaml, write_yaml};
use super::flip::FlipExample;
use super::run_record::{ModelRecord, refuse_format};

/// `analysis.yaml`: what an analysis found, in numbers, and where its CSVs come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnalysisFile {
    /// Version of the formats of this file and its CSVs.
    pub format: u32,
    /// The model.
    pub model: ModelRecord,
    /// sha256 of the trace's content.
    pub trace: String,
    /// Seed of noise and bootstrap.
    pub seed: u64,
    /// Version of kvtune.
    pub version: String,
    /// Documents of the search split, which heads and channels were observed on.
    pub documents: usize,
    /// Heads by class.
    pub heads: HeadCounts,
    /// Whether errors of heads are those of `sensitivity-heads.csv`; else they were measured for this analysis.
    pub errors_from_file: bool,
    /// Spearman's correlation of the heads' e_o with their attention, by pair.
    pub correlations: Vec<CorrelationFindings>,
    /// Heads whose attention was drawn.
    pub drawn: Vec<ChosenHead>,
    /// Outliers among key channels.
    pub channels: ChannelFindings,
    /// Noise on keys.
    pub lemma: LemmaFindings,
    /// The chosen map a step lower; absent where the folder has no map or no groups.
    pub knockout: Option<KnockOutFindings>,
    /// A token that the map's cache changed; absent where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<FlipExample>,
}

/// How many heads attend how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadCounts {
    /// First and recent tokens have over 0.9 of the attention.
    pub streaming: usize,
    /// The others.
    pub retrieval: usize,
    /// Queries of each head that were looked at.
    pub queries: u64,
}

/// Rank correlations of e_o, and at the end of e_a, at one pair; absent where one side is constant.
///
/// e_o is relative, so a head that rests on a sink whose value is next to nothing has a large one for a small
/// movement; e_a shows the movement of attention alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorrelationFindings {
    /// The pair.
    pub pair: PrecisionPair,
    /// With concentration, over all heads; the paper has it negative.
    pub concentration: Option<f64>,
    /// With concentration, mean over layers of the correlation inside each.
    pub concentration_within_layers: Option<f64>,
    /// With the mass on first and recent tokens, over all heads.
    pub streaming_mass: Option<f64>,
    /// With that mass, mean over layers.
    pub streaming_mass_within_layers: Option<f64>,
    /// With the mass of the token that has most, over all heads.
    pub top_mass: Option<f64>,
    /// With that mass, mean over layers.
    pub top_mass_within_layers: Option<f64>,
    /// Of e_a with concentration, over all heads.
    pub e_a_concentration: Option<f64>,
    /// Of e_a with the mass on first and recent tokens, over all heads.
    pub e_a_streaming_mass: Option<f64>,
}

/// A head whose attention was drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenHead {
    /// Layer and head, `12.3`.
    pub head: String,
    /// `most streaming`, `most retrieving`, `most sensitive`, or `asked for`.
    pub why: String,
    /// The figure.
    pub file: String,
}

/// Outliers among key channels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelFindings {
    /// Channels of all KV heads.
    pub channels: usize,
    /// Those whose largest key is over 4 times the median of their head.
    pub outliers: usize,
    /// Largest ratio of a channel's largest key to the median of its head.
    pub largest_ratio: f64,
    /// Mean over outliers of the share of Σ k² that goes with the key bias; absent without bias or outliers.
    pub bias_share_of_outliers: Option<f64>,
    /// Mean over all channels.
    pub bias_share: Option<f64>,
}

/// Noise on keys: Lemma 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LemmaFindings {
    /// Made queries.
    pub synthetic: Moved,
    /// The model's own, under noise of several sizes.
    pub model: Vec<Moved>,
}

/// How far queries move under noise; shares are absent where there are no such queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// The key width whose error the noise is as large as; absent for made queries.
    pub noise_bits: Option<Bits>,
    /// Queries.
    pub queries: u64,
    /// Queries that moved further than the lemma allows.
    pub beyond_bound: u64,
    /// Mean of ½ Σ|a − â| where one key has over 0.99 of the attention.
    pub dominated_attention: Option<f64>,
    /// Σ|o − ô| / Σ|o| there.
    pub dominated_output: Option<f64>,
    /// Mean of ½ Σ|a − â| where no key has 0.9 of it.
    pub undominated_attention: Option<f64>,
    /// Σ|o − ô| / Σ|o| there.
    pub undominated_output: Option<f64>,
}

/// The chosen map a step lower, group by group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnockOutFindings {
    /// The documents' split: `select` or `search`, never `test`.
    pub split: String,
    /// How many.
    pub documents: usize,
    /// Whether they are too few for more than a first look.
    pub exploratory: bool,
    /// Rows of `knockout.csv`.
    pub lowered: usize,
    /// Sides of groups that have no step below.
    pub narrowest: usize,
    /// The objective.
    pub objective: String,
    /// Loss of the map itself there.
    pub loss: f64,
    /// KL of the map itself there, nats a token.
    pub kl: f64,
    /// Spearman's correlation of the change of the objective with the rise of e_o, summed over the layers.
    pub loss_with_e_o: Option<f64>,
    /// The same of the change of KL.
    pub kl_with_e_o: Option<f64>,
    /// Largest change of KL over the median one: how far off a cliff the worst group falls.
    pub cliff: Option<f64>,
}

impl AnalysisFile {
    /// The format that this version writes and reads.
    pub const FORMAT: u32 = 1;

    /// Writes the file.
    ///
    /// # Errors
    /// [`FileError::Write`].
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        write_yaml(path, self)
    }

    /// Reads it back.
    ///
    /// # Errors
    /// [`FileError::Read`]; [`FileError::Content`] for another format.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let file: Self = read_yaml(path)?;
        refuse_format(path, file.format, Self::FORMAT)?;
        Ok(file)
    }
}
