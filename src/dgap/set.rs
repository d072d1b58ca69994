use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{DgapError, short};
use super::heads::{Corrector, Detector, Head, Shape, Standard};
use super::setting::Setting;
use super::threshold::Threshold;
use super::train::{Epoch, TrainParams};
use crate::model::Config;

/// The heads of one setting, and what is needed to use them: what `dgap.safetensors` holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Heads {
    /// Where they come from, and how they are to be used; `dgap.yaml` has it too.
    pub about: About,
    /// Of the features.
    pub features: Standard,
    /// Of the hidden states.
    pub hidden: Standard,
    /// Detectors.
    pub detectors: Vec<Head<Detector>>,
    /// Correctors.
    pub correctors: Vec<Head<Corrector>>,
}

/// Everything about heads but their numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Version of the layout.
    pub format: u32,
    /// Version of kvtune that trained them.
    pub version: String,
    /// What the user called the model.
    pub model_id: String,
    /// sha256 of the model's files.
    pub model_fingerprint: String,
    /// How the cache is held.
    pub setting: Setting,
    /// Hash of the trace that they were trained on.
    pub trace_key: String,
    /// Seed of the trace's prompts.
    pub trace_seed: u64,
    /// Layers whose leaving hidden states heads read behind the last one.
    pub layers: Vec<usize>,
    /// Sizes of inputs.
    pub shape: Shape,
    /// Names of the features, in order.
    pub features: Vec<String>,
    /// Drift in bits above which a step counts as drifted.
    pub drift_limit: f64,
    /// The detector that decides.
    pub detector: Detector,
    /// The corrector that is used unless another one is asked for.
    pub corrector: Corrector,
    /// From which risk on a step is corrected.
    pub threshold: Threshold,
    /// How they were trained, the seed included.
    pub training: TrainParams,
    /// Positions trained on, held out for early stopping, and calibrated on.
    pub positions: [usize; 3],
    /// What training gave, head by head.
    pub heads: Vec<HeadRecord>,
}

/// How one head came to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeadRecord {
    /// Its name.
    pub name: String,
    /// Bytes of its weights.
    pub bytes: usize,
    /// Passes over the training positions.
    pub epochs: Vec<Epoch>,
}

impl About {
    /// Version of the layout that this version writes and reads.
    pub const FORMAT: u32 = 1;

    /// Refuses heads, read from `path`, of another model.
    ///
    /// # Errors
    /// [`DgapError::OtherModel`], naming both; [`DgapError::File`] for sizes that are not the model's.
    pub fn check_model(
        &self,
        path: &Path,
        id: &str,
        fingerprint: &str,
        config: &Config,
    ) -> Result<(), DgapError> {
        let sizes = (self.shape.hidden, self.shape.vocab) == (config.hidden_size, config.vocab_size);
        let layers = self.layers.iter().all(|&layer| layer < config.num_hidden_layers);
        if self.model_fingerprint == fingerprint {
            let message = "damaged: its sizes are not those of its model";
            return if sizes && layers { Ok(()) } else { Err(DgapError::damaged(path, message)) };
        }
        Err(DgapError::OtherModel {
            path: path.to_owned(),
            found: self.model_id.clone(),
            found_sha256: short(&self.model_fingerprint),
            expected: id.to_owned(),
            expected_sha256: short(fingerprint),
        })
    }

    /// Refuses heads, read from `path`, of another setting.
    ///
    /// # Errors
    /// [`DgapError::OtherSetting`], naming both.
    pub fn check_setting(&self, path: &Path, setting: &Setting) -> Result<(), DgapError> {
        if self.setting.is_like(setting) {
            return Ok(());
        }
        let (found, expected) = (self.setting.to_string(), setting.to_string());
        let (found, expected) = match found == expected {
            true => (format!("{:?}", self.setting.scheme), format!("{:?}", setting.scheme)),
            false => (found, expected),
        };
        Err(DgapError::OtherSetting { path: path.to_owned(), found, expected })
    }
}

impl Heads {
    /// The corrector that is asked for, else the one that the file names.
    ///
    /// # Errors
    /// [`DgapError::NoHead`] where the file, at `path`, does not hold it.
    pub fn corrector(&self, path: &Path, asked: Option<Corrector>) -> Result<&Head<Corrector>, DgapError> {
        let kind = asked.unwrap_or(self.about.corrector);
        self.correctors.iter().find(|head| head.kind == kind).ok_or_else(|| {
            let known: Vec<String> = self.correctors.iter().map(|head| head.kind.to_string()).collect();
            DgapError::NoHead { path: path.to_owned(), found: kind.to_string(), known: known.join(", ") }
        })
    }

    /// The detector that decides.
    ///
    /// # Errors
    /// [`DgapError::NoHead`] where the file, at `path`, does not hold it.
    pub fn detector(&self, path: &Path) -> Result<&Head<Detector>, DgapError> {
        let kind = self.about.detector;
        self.detectors.iter().find(|head| head.kind == kind).ok_or_else(|| {
            let known: Vec<String> = self.detectors.iter().map(|head| head.kind.to_string()).collect();
            DgapError::NoHead { path: path.to_owned(), found: kind.to_string(), known: known.join(", ") }
        })
    }
}
