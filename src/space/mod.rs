//! From errors per layer to a search space: Pareto-efficient pairs of a layer, groups of like layers.
//!
//! KVTuner shrinks the space twice before it searches: a layer keeps the pairs that no other pair beats
//! ([`prune`]), and layers that keep the same pairs and react alike share one variable ([`cluster`]). What is
//! left is a [`Space`]; a [`Genome`] is a point of it. Dominance has its one definition here ([`dominates`]).

mod cluster;
mod dbscan;
mod dominance;
mod genome;
mod groups;
mod params;
mod partition;
mod prune;

pub use cluster::{Clustering, LayerErrors, cluster};
pub use dominance::{dominates, dominates_over, hypervolume, pareto_indices, pareto_indices_over};
pub use genome::{Genome, GenomeError};
pub use groups::{LayerGroup, Space, SpaceSize};
pub use params::{ClusterParams, ClusterParamsError, ClusterValidParams, GroupRange, Noise};
pub use partition::{Partition, PartitionError};
pub use prune::{PairError, PruneParams, prune};

use crate::precision::{LayerId, PrecisionPair};

/// Why errors per layer give no search space.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpaceError {
    /// A layer without a single measured pair.
    #[error("{layer} has no precision pair to choose from, expected at least one")]
    NoPairs {
        /// The layer.
        layer: LayerId,
    },
    /// An error that is no number, or negative.
    #[error("{layer} at {pair} has the error {found}, expected a finite number of at least 0")]
    Measured {
        /// The layer.
        layer: LayerId,
        /// The pair measured there.
        pair: PrecisionPair,
        /// What was found.
        found: f64,
    },
    /// A pair measured, or listed, twice.
    #[error("{layer} lists {pair} twice")]
    RepeatedPair {
        /// The layer (the first of its group).
        layer: LayerId,
        /// The pair.
        pair: PrecisionPair,
    },
    /// Pruning's tolerance is no number, or negative.
    #[error("prune `tolerance` is {found}, expected a finite number of at least 0")]
    Tolerance {
        /// What was found.
        found: f64,
    },
    /// No eps gives a number of groups in the range.
    #[error("no `eps` gives {range} groups of layers, those tried gave between {fewest} and {most}")]
    GroupCount {
        /// The range asked for.
        range: GroupRange,
        /// Fewest groups that any eps gives.
        fewest: usize,
        /// Most groups that any eps gives.
        most: usize,
    },
    /// Layers missing, or in two groups.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// Clustering parameters out of range.
    #[error(transparent)]
    Cluster(#[from] ClusterParamsError),
}

#[cfg(test)]
mod golden;
