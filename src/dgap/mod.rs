//! DGAP: heads that see from quantized logits when a step has drifted from full precision, and repair the most
//! likely candidates before a token is chosen.
//!
//! Of arXiv:2607.16248 this much is taken: a risk
//! detector on features of the quantized logits alone, a corrector that runs where the risk is above a calibrated
//! threshold and changes only the top K candidates, no full-precision logits at run time, the model and the cache
//! untouched. Features, heads, losses, thresholds and measures are **ours**.
//!
//! | file | what |
//! |---|---|
//! | `sheet`, `traced` | what both runs say at the same positions, and the file of it |
//! | `observe` | a document run with a quantized cache |
//! | `export` | heads for other engines |
//! | `restore` | heads at work while a model decodes |
//! | `control` | order against size of logits |
//! | `drift`, `oracle` | how far a step is off, and how much of that any top-K corrector could repair |
//! | `features`, `heads` | what heads see, and their arithmetic |
//! | `examples`, `loss`, `train`, `adam` | training |
//! | `threshold`, `metrics`, `judge` | when to correct, and how good detectors and correctors are |
//! | `set`, `file`, `loaded` | the heads of one setting, `dgap.safetensors`, and heads on a device |
//!
//! Knows logits and hidden states, not how a cache came to hold what it holds.

mod adam;
pub mod control;
pub mod drift;
mod error;
mod examples;
pub mod export;
mod features;
mod file;
pub mod heads;
pub mod judge;
mod loaded;
pub mod loss;
mod metrics;
mod observe;
mod oracle;
mod restore;
mod set;
mod setting;
mod sheet;
mod threshold;
mod traced;
mod train;

pub use error::DgapError;
pub use examples::Examples;
pub use features::{Features, History, Step};
pub use loaded::Loaded;
pub use metrics::{Detection, detection};
pub use observe::observe;
pub use oracle::{Oracle, oracle};
pub use restore::Restorer;
pub use set::{About, HeadRecord, Heads};
pub use setting::Setting;
pub use sheet::{HELD, Position, Row, Sheet};
pub use threshold::{Policy, Threshold};
pub use traced::{Traced, TracedDocument, TracedEntry, TracedMeta};
pub use train::{Epoch, TrainParams, Trained, Training};

#[cfg(all(test, feature = "flex"))]
mod tests;
