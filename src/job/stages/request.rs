use std::path::PathBuf;

use crate::model::WeightType;
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::quant::Scheme;

/// Text that a model shall continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The model.
    pub model: String,
    /// The text, or what a user says if `chat`.
    pub prompt: String,
    /// Whether the prompt is put into the model's chat template.
    pub chat: bool,
    /// Tokens to add at most.
    pub max_new_tokens: usize,
    /// What weights are held as.
    pub weights: WeightType,
}

/// Configurations to compare on a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The model.
    pub model: String,
    /// What weights are held as.
    pub weights: WeightType,
    /// The text.
    pub text: PathBuf,
    /// Tokens of a window of the text.
    pub window: usize,
    /// Windows at most, from the start.
    pub windows: Option<usize>,
    /// What to compare, besides full precision.
    pub configurations: Vec<Configuration>,
}

/// A cache to evaluate.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// Its name in the table.
    pub name: String,
    /// How the cache is coded.
    pub scheme: Scheme,
    /// Which bits.
    pub bits: ConfigurationBits,
}

/// Which bits a configuration has.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigurationBits {
    /// A pair per layer.
    Map(PrecisionMap),
    /// One pair for all layers.
    Uniform(PrecisionPair),
}

/// One configuration's figures over all scored positions of a text.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct EvaluationResult {
    /// Name of the configuration, `full` for the one that the others are compared with.
    pub configuration: String,
    /// Mean code width.
    pub equivalent_bits: f64,
    /// Stored bits an element at the window's length.
    pub storage_bits: f64,
    /// exp of the mean negative log-likelihood.
    pub perplexity: f64,
    /// Mean KL(full ‖ quantized), nats a token.
    pub kl: f64,
    /// Share of positions whose arg-max differs from full precision.
    pub flips: f64,
    /// Positions scored.
    pub positions: usize,
}
