use serde::{Deserialize, Serialize};

use crate::score::Objective;

/// `dgap.csv`: what one head, gated one way, leaves of the drift on the test split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DgapRow {
    /// How the cache is held.
    pub setting: String,
    /// What the heads were trained for; another name than `setting` is a transfer.
    pub trained_on: String,
    /// `none`, an oracle, a corrector or a detector.
    pub head: String,
    /// When it corrects.
    pub gate: DgapGate,
    /// What the positions are of.
    #[serde(default)]
    pub text: DgapText,
    /// Documents of the test split.
    pub documents: usize,
    /// Their positions.
    pub positions: usize,
    /// Share of positions that are corrected.
    pub trigger_rate: f64,
    /// Mean Jensen–Shannon divergence from full precision over the K candidates and one bin for all other tokens, bits.
    pub js: f64,
    /// Lower end of its 95 % interval over documents.
    pub js_low: Option<f64>,
    /// Upper end of its 95 % interval over documents.
    pub js_high: Option<f64>,
    /// Mean total variation over the same.
    pub tv: f64,
    /// Mean KL(full ‖ corrected) over the same, nats.
    pub kl: f64,
    /// Mean Jensen–Shannon divergence over the whole vocabulary, bits.
    pub js_whole: f64,
    /// Mean total variation over the whole vocabulary.
    pub tv_whole: f64,
    /// Mean KL(full ‖ corrected) over the whole vocabulary, nats.
    pub kl_whole: f64,
    /// Share of positions whose most likely token is another one.
    pub flips: f64,
    /// Mean share of pairs of candidates in another order than at full precision.
    pub inversion: f64,
    /// exp of the mean negative log-likelihood of the trace's own tokens.
    pub perplexity: f64,
    /// Share of the drift that `oracle-order` takes away which this takes away.
    pub recovery: Option<f64>,
    /// Share of all positions whose drift grew by more than 0.001 bits.
    pub harm: f64,
    /// Share of positions whose most likely full-precision token is among the candidates.
    pub top_1: f64,
    /// Mean share of the 5 most likely ones.
    pub top_5: f64,
    /// Mean share of the 10 most likely ones.
    pub top_10: f64,
    /// Area under the ROC curve of a detector.
    pub auroc: Option<f64>,
    /// Area under its precision–recall curve.
    pub auprc: Option<f64>,
    /// Its expected calibration error.
    pub ece: Option<f64>,
    /// Share of drifted positions that are not corrected.
    pub missed: Option<f64>,
    /// Lower end of its 95 % interval over documents.
    pub missed_low: Option<f64>,
    /// Upper end of its 95 % interval over documents.
    pub missed_high: Option<f64>,
    /// Bytes of the head, f32.
    pub head_bytes: usize,
    /// Multiply–adds of one use of it.
    pub multiply_adds: usize,
    /// Those of a corrected decode step, the detector's included, over those of the model's weights.
    pub relative_cost: f64,
}

/// What the positions are of that heads are judged on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DgapText {
    /// What the full-precision model wrote.
    #[default]
    Continuation,
    /// The prompts, each token after the first few.
    Prompt,
}

/// When a head corrects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DgapGate {
    /// Never.
    #[default]
    Never,
    /// Where the risk reaches the calibrated threshold.
    Gated,
    /// At every step.
    Always,
    /// At a given share of the steps, those of the highest risk: a point of the curve.
    Curve,
}

/// `dgap-front.csv`: one map of a front with and without heads, on the test split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DgapFrontRow {
    /// The map.
    pub map: String,
    /// What it is in the front's file.
    pub role: super::Role,
    /// Mean code width.
    pub equivalent_bits: f64,
    /// Whose heads were used.
    pub heads: String,
    /// What the losses are: the job's objective, or `nll` where that is `accuracy`, which needs questions.
    pub objective: Objective,
    /// Loss as it is.
    pub loss: f64,
    /// Loss with the gated corrector.
    pub corrected_loss: f64,
    /// Equivalent bits that the front takes without heads for the corrected loss, less those of this map.
    pub bits_gained: Option<f64>,
}

/// `dgap-control.csv`: one way to change full-precision logits, on the test split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DgapControlRow {
    /// How the cache is held that lends order or values.
    pub setting: String,
    /// What was done to the logits.
    pub variant: String,
    /// Positions compared.
    pub positions: usize,
    /// Mean Jensen–Shannon divergence from full precision, bits.
    pub js: f64,
    /// Mean KL(full ‖ variant), nats.
    pub kl: f64,
    /// Share of positions whose most likely token is another one.
    pub flips: f64,
    /// exp of the mean negative log-likelihood of the trace's own tokens.
    pub perplexity: f64,
    /// In free generation, the mean share of the continuation before the first token that differs from full
    /// precision.
    pub agreement: Option<f64>,
}

/// `dgap-inversions.csv`: how often quantization turns a pair of likely tokens around, by how far full precision
/// holds them apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DgapInversionRow {
    /// How the cache is held.
    pub setting: String,
    /// Gaps of full-precision logits from here on,
    pub gap_from: f64,
    /// up to here; none for the widest.
    pub gap_to: Option<f64>,
    /// Pairs with such a gap.
    pub pairs: u64,
    /// Share of them that are in another order.
    pub inverted: f64,
}
