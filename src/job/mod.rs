//! A calibration job: the YAML that a user writes and the stages that it drives, in order.
//!
//! [`Job::read`] turns a file into a [`Job`] with every default filled in; a field nobody knows, a pair that
//! does not exist, a number out of range is a [`JobError`] that names file and field. Defaults stand beside the
//! struct they belong to (`spec`, `search_space`); how a file becomes a struct is in `read` and `fields`.

mod answers;
mod check;
mod error;
mod fields;
mod plan;
mod read;
#[cfg(test)]
mod reference;
mod search_space;
mod spec;
mod stage;
#[cfg(any(feature = "flex", feature = "cuda"))]
pub mod stages;
mod units;

pub use answers::{AnswersSpec, Combine, ItemCounts, Questions};
pub use error::JobError;
pub use plan::Plan;
pub(crate) use plan::size;
pub use read::{Overrides, QUICKSTART, model_slug};
pub use search_space::{ClusterSpec, Pairs, PruneSpec, SearchSpace, SensitivitySpec, default_scheme};
pub use spec::{CacheLimit, Job, SearchSpec, SeedTable, StorageLimit};
pub use stage::Stage;
pub use units::ByteSize;
