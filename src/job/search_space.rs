use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};

use crate::precision::{Bits, PrecisionPair};
use crate::quant::{Scheme, SchemeName};
use crate::sensitivity::Metric;
use crate::space::{ClusterParams, GroupRange, Noise};

/// What a search may choose from: the scheme, the candidate pairs, and how pairs and layers are thinned out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchSpace {
    /// How the cache is coded.
    pub scheme: Scheme,
    /// The pairs a layer may have, before pruning.
    pub pairs: Pairs,
    /// How the error of a pair is measured.
    pub sensitivity: SensitivitySpec,
    /// How dominated pairs are dropped.
    pub prune: PruneSpec,
    /// How like layers are grouped.
    pub cluster: ClusterSpec,
}

impl Default for SearchSpace {
    fn default() -> Self {
        Self {
            scheme: default_scheme(SchemeName::Kivi),
            pairs: Pairs::default(),
            sensitivity: SensitivitySpec::default(),
            prune: PruneSpec::default(),
            cluster: ClusterSpec::default(),
        }
    }
}

/// A scheme as its paper defines it, every option at its default.
pub fn default_scheme(name: SchemeName) -> Scheme {
    match name {
        SchemeName::Kivi => Scheme::kivi(),
        SchemeName::PerTokenAsym => Scheme::per_token_asym(),
    }
}

/// Candidate pairs: every combination of some key and value widths, or a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Pairs {
    /// `{key: [2, 4, 8], value: [2, 4, 8]}`.
    Sides {
        /// Widths of keys.
        key: Vec<Bits>,
        /// Widths of values.
        value: Vec<Bits>,
    },
    /// `[KV8, K8V4, KV4]`.
    List(Vec<PrecisionPair>),
}

impl Pairs {
    /// All pairs, widest first and the one with wider keys first among equals.
    pub fn expand(&self) -> Vec<PrecisionPair> {
        let mut pairs = match self {
            Self::List(pairs) => pairs.clone(),
            Self::Sides { key, value } => {
                key.iter().flat_map(|&k| value.iter().map(move |&v| PrecisionPair::new(k, v))).collect()
            }
        };
        pairs.sort_by(|a, b| b.mean_bits().total_cmp(&a.mean_bits()).then(b.key.cmp(&a.key)));
        pairs
    }
}

impl Default for Pairs {
    fn default() -> Self {
        let bits = [2, 4, 8].map(|bits| Bits::try_from(bits).expect("2, 4 and 8 are widths"));
        Self::Sides { key: bits.to_vec(), value: bits.to_vec() }
    }
}

/// By hand, for an untagged enum would swallow which width or pair is wrong.
impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> serde::de::Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of pairs such as [KV8, K8V4], or {key: [2, 4], value: [2, 4]}")
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, seq: A) -> Result<Pairs, A::Error> {
        Deserialize::deserialize(SeqAccessDeserializer::new(seq)).map(Pairs::List)
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Pairs, A::Error> {
        #[derive(Deserialize)]
        struct Sides {
            key: Vec<Bits>,
            value: Vec<Bits>,
        }
        let Sides { key, value } = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Pairs::Sides { key, value })
    }
}

/// How the error of a pair is measured; see [`crate::sensitivity`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SensitivitySpec {
    /// Which column drives pruning and clustering; both are always measured.
    pub metric: Metric,
    /// Whether the error of earlier layers flows into later ones.
    pub accumulate: bool,
}

/// How dominated pairs are dropped; see [`crate::space::prune`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PruneSpec {
    /// Relative difference of errors that counts as a tie.
    pub tolerance: f64,
}

/// How like layers are grouped; see [`crate::space::cluster()`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSpec {
    /// Radius of a neighborhood, in units of e_o.
    pub eps: f64,
    /// Layers within `eps`, itself included, that make a layer a core point.
    pub min_samples: usize,
    /// What becomes of layers in no cluster.
    pub noise: Noise,
    /// Look for an `eps` that gives so many groups, instead of the one above.
    pub groups: Option<GroupRange>,
}

impl ClusterSpec {
    /// As clustering takes them; not checked yet.
    pub fn params(&self) -> ClusterParams {
        let params = ClusterParams::default().eps(self.eps).min_samples(self.min_samples).noise(self.noise);
        match self.groups {
            Some(groups) => params.groups(groups),
            None => params,
        }
    }
}

impl Default for ClusterSpec {
    fn default() -> Self {
        Self { eps: 0.05, min_samples: 2, noise: Noise::default(), groups: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(yaml: &str) -> Pairs {
        serde_yaml::from_str(yaml).expect("pairs")
    }

    fn printed(pairs: &Pairs) -> Vec<String> {
        pairs.expand().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn sides_expand_to_every_combination_widest_first() {
        let expected = ["KV4", "K4V2", "K2V4", "KV2"];
        assert_eq!(printed(&pairs("{key: [2, 4], value: [4, 2]}")), expected);
    }

    #[test]
    fn a_list_is_put_in_the_same_order() {
        assert_eq!(printed(&pairs("[KV2, K4V2, KV8]")), ["KV8", "K4V2", "KV2"]);
    }

    #[test]
    fn a_wrong_pair_is_named() {
        let error = serde_yaml::from_str::<Pairs>("[KV8, K9V4]").expect_err("no such pair");
        assert!(error.to_string().contains("`K9V4` is not a precision pair"), "{error}");
    }
}
