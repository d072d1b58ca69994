//! The files that a job leaves behind, and how each is written, read back and drawn.
//!
//! Every file appears whole or not at all ([`write_atomic`]). Nothing that varies between equal runs goes into
//! a CSV: times and the command line are in `run.yaml` beside them. Knows rows and maps, not how they came about.

mod accuracy_rows;
mod agreement;
mod analysis_file;
mod analysis_rows;
mod analysis_words;
mod dgap_rows;
mod files;
mod flip;
pub mod html;
pub mod plot;
mod precision_file;
mod rows;
mod run_record;
mod space_file;
mod table;
mod text;

#[cfg(test)]
mod golden;

pub use accuracy_rows::AccuracyRow;
pub use agreement::{AgreementMatrix, agreement_matrices};
pub use analysis_file::{
    AnalysisFile, ChannelFindings, ChosenHead, CorrelationFindings, HeadCounts, KnockOutFindings,
    LemmaFindings, Moved,
};
pub use analysis_rows::{ChannelRow, KnockOutRow, LemmaRow, LemmaSource, PatternRow};
pub(crate) use analysis_words::analysis_words;
#[cfg(any(feature = "flex", feature = "cuda"))]
pub(crate) use analysis_words::example_words;
pub use dgap_rows::{DgapControlRow, DgapFrontRow, DgapGate, DgapInversionRow, DgapRow, DgapText};
pub use files::{FileError, read_text, write_atomic, write_text};
#[cfg(any(feature = "flex", feature = "cuda"))]
pub(crate) use flip::name as flip_name;
pub use flip::{Continued, FlipExample, FlipOrigin};
pub use precision_file::{ObjectiveRecord, PrecisionFile, Provenance};
pub use rows::{
    Among, EvaluationKind, EvaluationRow, HeadRow, ParetoRow, PositionMode, PositionRow, PromptRow, Role,
    SensitivityRow, TaskLossRow,
};
pub use run_record::{ModelRecord, RunRecord, StageRecord, utc};
pub use space_file::SpaceFile;
pub use table::{read_csv, write_csv};
pub use text::{genome_text, map_text, parse_map};
