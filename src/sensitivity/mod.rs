//! What coding the cache does to each layer: errors of keys, values, attention weights and attention outputs.
//!
//! They are KVTuner's e_k, e_v, e_a and e_o, each in two metrics ([`Metric`]). Without accumulation ([`isolated`])
//! queries, keys and values are those of the full-precision run and only one layer's attention is recomputed.
//! With it ([`accumulated`]) the whole model runs with the coded cache and each layer is compared with the
//! full-precision run. [`position`] follows the accumulated error along the sequence, [`correlation`] asks
//! whether the ranking of layers is the prompt's or the model's. Knows nothing of how errors are searched over.

pub mod accumulated;
mod compare;
pub mod correlation;
mod errors;
pub mod isolated;
mod lockstep;
pub mod position;

pub use errors::{Errors, LayerErrors, Metric, Table};
pub(crate) use lockstep::{coded_keys, coded_values};

use crate::model::ModelError;
use crate::precision::LayerId;

/// Why measuring stopped.
#[derive(Debug, thiserror::Error)]
pub enum SensitivityError {
    /// The model's or a cache's complaint.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An activation that is NaN or infinite.
    #[error("{layer}: the {tensor} of head {head} hold a value that is not finite")]
    NotFinite {
        /// Where.
        layer: LayerId,
        /// Which tensor.
        tensor: &'static str,
        /// The head, counted among query heads for outputs and KV heads for keys and values.
        head: usize,
    },
    /// The observer asked to stop.
    #[error("interrupted")]
    Interrupted,
}
