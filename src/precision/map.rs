use std::fmt;

use serde::{Deserialize, Serialize};

use super::{PrecisionError, PrecisionPair};

/// A layer's number, from 0; prints `layer 12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LayerId(pub usize);

impl fmt::Display for LayerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "layer {}", self.0)
    }
}

/// One precision pair per layer: what kvtune finds and an engine loads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PrecisionMap(Vec<PrecisionPair>);

impl PrecisionMap {
    /// A map of the given pairs, layer 0 first.
    pub fn new(pairs: Vec<PrecisionPair>) -> Self {
        Self(pairs)
    }

    /// The same pair in every layer.
    pub fn uniform(n_layers: usize, pair: PrecisionPair) -> Self {
        Self(vec![pair; n_layers])
    }

    /// The pairs, layer 0 first.
    pub fn pairs(&self) -> &[PrecisionPair] {
        &self.0
    }

    /// How many layers the map speaks of.
    pub fn n_layers(&self) -> usize {
        self.0.len()
    }

    /// The first layer that is quantized at all; before it a model runs as at full precision.
    pub fn first_quantized(&self) -> Option<LayerId> {
        self.0.iter().position(|pair| !pair.is_full()).map(LayerId)
    }

    /// The map, if it speaks of exactly `n_layers` layers.
    ///
    /// # Errors
    /// [`PrecisionError::Layers`] otherwise.
    pub fn for_layers(self, n_layers: usize) -> Result<Self, PrecisionError> {
        if self.n_layers() == n_layers {
            Ok(self)
        } else {
            Err(PrecisionError::Layers { found: self.n_layers(), expected: n_layers })
        }
    }
}

/// Runs of equal pairs: `0-3 K8V4, 4 KV2`.
impl fmt::Display for PrecisionMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut start = 0;
        for run in self.0.chunk_by(|a, b| a == b) {
            let end = start + run.len() - 1;
            let separator = if start == 0 { "" } else { ", " };
            match run.len() {
                1 => write!(f, "{separator}{start} {}", run[0])?,
                _ => write!(f, "{separator}{start}-{end} {}", run[0])?,
            }
            start = end + 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &str) -> PrecisionMap {
        let pair = |text: &str| text.parse().expect("a pair");
        PrecisionMap::new(pairs.split(' ').map(pair).collect())
    }

    #[test]
    fn a_map_prints_runs() {
        assert_eq!(map("KV8 KV8 K8V4 KV2 KV2 KV2").to_string(), "0-1 KV8, 2 K8V4, 3-5 KV2");
    }

    #[test]
    fn the_first_quantized_layer_may_keep_one_side() {
        assert_eq!(map("KV16 K16V4 KV2").first_quantized(), Some(LayerId(1)));
        assert_eq!(map("KV16 KV16").first_quantized(), None);
    }

    #[test]
    fn a_map_of_another_model_is_refused_with_both_counts() {
        let error = map("KV8 KV8").for_layers(30).expect_err("2 is not 30");
        assert_eq!(error.to_string(), "the precision map has 2 layers, but the model has 30");
    }
}
