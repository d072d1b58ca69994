use std::fmt;

use serde::{Deserialize, Serialize};

use super::{CacheError, FullCache, LayerCache, Memory, PackedCache, Rows, SimulatedCache, Units};

/// Which kind of cache a command runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// Full precision, f32.
    Full,
    /// What codes would read as, held as f32.
    Simulated,
    /// Codes.
    Packed,
}

impl fmt::Display for CacheKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Full => "full",
            Self::Simulated => "simulated",
            Self::Packed => "packed",
        })
    }
}

/// One layer's cache of any kind, so that caches of different kinds and precisions can be lanes of one batch.
#[derive(Clone)]
pub enum AnyCache {
    /// Full precision.
    Full(FullCache),
    /// Simulated codes.
    Simulated(SimulatedCache),
    /// Real codes.
    Packed(PackedCache),
}

impl AnyCache {
    /// The same tokens, for a sequence of its own whose queries read what `units` says: how prompts that begin
    /// alike share what they have in common. Its part of the prompt is a unit of its own, see
    /// [`Units::open_prefix`].
    pub fn fork(&self, units: &Units) -> Self {
        match self {
            Self::Full(cache) => Self::Full(cache.clone()),
            Self::Simulated(cache) => Self::Simulated(cache.fork(units)),
            Self::Packed(cache) => Self::Packed(cache.fork(units)),
        }
    }

    fn inner(&self) -> &dyn LayerCache {
        match self {
            Self::Full(cache) => cache,
            Self::Simulated(cache) => cache,
            Self::Packed(cache) => cache,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn LayerCache {
        match self {
            Self::Full(cache) => cache,
            Self::Simulated(cache) => cache,
            Self::Packed(cache) => cache,
        }
    }
}

impl LayerCache for AnyCache {
    fn len(&self) -> usize {
        self.inner().len()
    }

    fn append(&mut self, k: Rows<'_>, v: Rows<'_>) -> Result<(), CacheError> {
        self.inner_mut().append(k, v)
    }

    fn attend(&mut self, q: Rows<'_>, out: &mut [f32]) -> Result<(), CacheError> {
        self.inner_mut().attend(q, out)
    }

    fn memory(&self) -> Memory {
        self.inner().memory()
    }
}
