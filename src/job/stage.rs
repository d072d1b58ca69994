//! The stages of a job and the files that each leaves; what they do is in `stages`, which needs a backend.

use super::Job;

/// What every map loses in each task, where each is an objective of its own.
pub(super) const TASK_LOSSES: &str = "task-losses.csv";

/// One stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Prompts and the model's own continuation of them: `trace.safetensors`.
    Trace,
    /// Errors per layer and pair: `sensitivity.csv`.
    Sensitivity,
    /// Candidate pairs and groups: `space.yaml`.
    Space,
    /// Configurations evaluated: `evaluations.csv`.
    Search,
    /// The front and the chosen map: `pareto.csv`, `precision.yaml`.
    Select,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [Self::Trace, Self::Sensitivity, Self::Space, Self::Search, Self::Select];

    /// As the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Sensitivity => "sensitivity",
            Self::Space => "space",
            Self::Search => "search",
            Self::Select => "select",
        }
    }

    /// The files that it always leaves.
    pub fn files(self, job: &Job) -> &'static [&'static str] {
        match self {
            Self::Trace => &["trace.safetensors"],
            Self::Sensitivity => &["sensitivity.csv", "sensitivity-heads.csv", "sensitivity-prompts.csv"],
            Self::Space => &["space.yaml"],
            Self::Search if job.each_task().is_some() => &["evaluations.csv", TASK_LOSSES],
            Self::Search => &["evaluations.csv"],
            Self::Select => &["precision.yaml", "pareto.csv", "pareto.svg"],
        }
    }
}
