use std::fmt;

use serde::{Deserialize, Serialize};

use crate::precision::PrecisionMap;
use crate::quant::Scheme;

/// A way to hold the cache that heads are trained for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// What the user called it: a pair, or a file.
    pub name: String,
    /// How keys and values are coded.
    pub scheme: Scheme,
    /// At which widths.
    pub map: PrecisionMap,
}

impl Setting {
    /// Whether the cache is held the same way, whatever it is called.
    pub fn is_like(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.map == other.map
    }
}

/// `KV1 (0-29 KV1, kivi)`, so that two settings that differ print differently in most cases.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.name, self.map, self.scheme.name.slug())
    }
}
