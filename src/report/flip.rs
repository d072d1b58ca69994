use serde::{Deserialize, Serialize};

use super::text::map_text;
use crate::precision::PrecisionMap;

/// The first token that a map's cache changed in a greedy continuation of a prompt, and what followed on either side.
///
/// Both sides run freely from the same prompt, each on its own tokens. Texts hold no control characters but line ends
/// and tabs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlipExample {
    /// Where the map is from.
    pub origin: FlipOrigin,
    /// The map.
    #[serde(with = "map_text")]
    pub map: PrecisionMap,
    /// Its mean code width.
    pub equivalent_bits: f64,
    /// Maps that were tried before and changed no token of any document.
    pub unchanged: Vec<String>,
    /// Documents of the search split.
    pub documents: usize,
    /// Those of them in whose recorded continuation the map changes a token.
    pub changed: usize,
    /// The first of these, shown here.
    pub document: String,
    /// Place of the changed token in the sequence, prompt included, from 0.
    pub position: usize,
    /// Tokens of the continuation before it.
    pub agreed: usize,
    /// The end of what both sides have in common.
    pub before: String,
    /// At full precision.
    pub full: Continued,
    /// With the map's cache.
    pub quantized: Continued,
    /// Full precision's logit of its own token less its logit of the map's: how near the choice was.
    pub logit_gap: f64,
}

/// Where the map of an example is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlipOrigin {
    /// `precision.yaml`.
    Chosen,
    /// `pareto.csv`: the next of fewer bits.
    Front,
    /// The job's pair of fewest bits, in every layer.
    Uniform,
}

/// One side of an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continued {
    /// The token where the sides part.
    pub token: String,
    /// The text from there on, up to some length or where it ends by itself.
    pub text: String,
}

impl FlipExample {
    /// The map in words.
    pub fn name(&self) -> String {
        name(self.origin, self.equivalent_bits)
    }
}

/// A map in words, by where it is from.
pub(crate) fn name(origin: FlipOrigin, equivalent_bits: f64) -> String {
    match origin {
        FlipOrigin::Chosen => format!("the chosen map ({equivalent_bits:.2} bits)"),
        FlipOrigin::Front => format!("the front's map of {equivalent_bits:.2} bits"),
        FlipOrigin::Uniform => format!("the uniform map of {equivalent_bits:.2} bits"),
    }
}
