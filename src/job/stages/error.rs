use crate::analysis::HeadId;
use crate::dgap::DgapError;
use crate::job::JobError;
use crate::model::{ModelError, WeightType};
use crate::precision::PrecisionMap;
use crate::report::FileError;
use crate::report::html::ReportError;
use crate::report::plot::PlotError;
use crate::score::{Objective, ScoreError};
use crate::search::SearchError;
use crate::select::SelectError;
use crate::sensitivity::SensitivityError;
use crate::space::{ClusterParamsError, SpaceError};
use crate::tasks::TaskError;
use crate::tasks::answers::AnswerError;
use crate::trace::TraceError;

/// Why a stage did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The job.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A result file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The plot of the front.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// The page.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The prompts.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The questions.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The layers' errors.
    #[error(transparent)]
    Sensitivity(SensitivityError),
    /// Pruning or grouping.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// Parameters of the grouping.
    #[error(transparent)]
    Cluster(#[from] ClusterParamsError),
    /// The search.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// Scores that cannot be compared.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// DGAP's heads.
    #[error(transparent)]
    Dgap(DgapError),
    /// The user asked to stop; what was done is saved.
    #[error("stopped; the same command goes on from here")]
    Interrupted,
    /// The user asked to stop what leaves nothing to go on from.
    #[error("stopped before the end; the same command begins anew")]
    Stopped,
    /// A budget that is spent before the search begins.
    #[error(
        "`search.evaluations` is {evaluations}, but the additive model alone takes {charged} measurements ({groups} groups){}",
        one_more(*.searches)
    )]
    Budget {
        /// The budget.
        evaluations: usize,
        /// What the measurements take of it.
        charged: usize,
        /// Groups that they are of.
        groups: usize,
        /// Searches that share what is left.
        searches: usize,
    },
    /// Whoever takes the text as it grows could not.
    #[error("cannot pass the text on: {0}")]
    Output(#[from] std::io::Error),
    /// No map is within the loss that was allowed; all files are written, for the nearest one.
    #[error(
        "no map keeps {objective} within {max_loss} at its upper bound on the select split; the nearest has \
         {upper:.4} at {bits:.2} bits: {map}"
    )]
    NoMap {
        /// What was held against the limit.
        objective: Objective,
        /// The limit.
        max_loss: f64,
        /// The nearest map.
        map: PrecisionMap,
        /// Its equivalent bits.
        bits: f64,
        /// Its upper bound.
        upper: f64,
    },
    /// Windows that leave tokens out, or never move on.
    #[error("`--stride` is {stride}, but it must lie in 1..={window}, the tokens of a `--window`")]
    Stride {
        /// Tokens from one window to the next.
        stride: usize,
        /// Tokens of a window.
        window: usize,
    },
    /// Weights that shall be held in a type, and not be held.
    #[error("weights that are streamed stay as they are stored, they cannot be {weights}")]
    StreamedWeights {
        /// The type.
        weights: WeightType,
    },
    /// A head that the model does not have.
    #[error(
        "there is no head {head}: the model has layers 0 to {last_layer}, each with heads 0 to {last_head}"
    )]
    Head {
        /// What was asked for.
        head: HeadId,
        /// The model's last layer.
        last_layer: usize,
        /// Its last query head.
        last_head: usize,
    },
    /// What was asked is well formed, but cannot be had.
    #[error("{message}")]
    Unmet {
        /// What, and why not.
        message: String,
        /// What the user may do about it.
        hint: Option<String>,
    },
}

impl StageError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Job(error) => error.hint(),
            Self::Model(error) => error.hint(),
            Self::File(error) => error.hint(),
            Self::Plot(error) => error.hint(),
            Self::Report(error) => error.hint(),
            Self::Task(error) => error.hint(),
            Self::Answer(error) => error.hint(),
            Self::Trace(error) => error.hint(),
            Self::Dgap(error) => error.hint(),
            Self::NoMap { .. } => {
                Some("raise `search.max_loss` or the limit on bits; all files were written".into())
            }
            Self::Search(SearchError::Limit { name, .. }) => {
                Some(format!("raise `search.{name}`, or give `search_space.pairs` of fewer bits"))
            }
            Self::Search(SearchError::TooLarge { .. }) => {
                Some("raise `search.evaluations`, or choose another `search.algorithm`".into())
            }
            Self::Budget { .. } => {
                Some("raise `search.evaluations`, or set `search.seed_table: e_o`, which takes none".into())
            }
            Self::StreamedWeights { .. } => Some("leave out `--weights` or `--stream-weights`".into()),
            Self::Unmet { hint, .. } => hint.clone(),
            _ => None,
        }
    }

    /// Whether the user asked to stop.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Stopped | Self::Model(ModelError::Interrupted { .. }))
    }

    /// The same error of a command that saves nothing on its way.
    pub(super) fn unsaved(self) -> Self {
        if matches!(self, Self::Interrupted) { Self::Stopped } else { self }
    }

    /// Whether it takes another job to mend it, rather than other files or looser limits.
    pub fn is_in_the_job(&self) -> bool {
        match self {
            Self::Job(error) => !matches!(error, JobError::Read { .. }),
            Self::Model(error) => matches!(error, ModelError::KeyBias(_) | ModelError::Width(_)),
            Self::Search(error) => !matches!(error, SearchError::Limit { .. }),
            Self::Answer(error) => error.is_usage(),
            Self::Dgap(error) => matches!(error, DgapError::TopK { .. } | DgapError::NoHead { .. }),
            Self::Cluster(_)
            | Self::Budget { .. }
            | Self::Head { .. }
            | Self::Stride { .. }
            | Self::StreamedWeights { .. } => true,
            _ => false,
        }
    }
}

fn one_more(searches: usize) -> String {
    if searches > 1 { format!(", and {searches} searches one or more each") } else { String::new() }
}

impl From<ScoreError> for StageError {
    fn from(error: ScoreError) -> Self {
        match error {
            ScoreError::Model(error) => Self::Model(error),
            ScoreError::Interrupted => Self::Interrupted,
        }
    }
}

impl From<SensitivityError> for StageError {
    fn from(error: SensitivityError) -> Self {
        match error {
            SensitivityError::Model(error) => Self::Model(error),
            SensitivityError::Interrupted => Self::Interrupted,
            error => Self::Sensitivity(error),
        }
    }
}

impl From<DgapError> for StageError {
    fn from(error: DgapError) -> Self {
        match error {
            DgapError::File(error) => Self::File(error),
            DgapError::Interrupted => Self::Interrupted,
            error => Self::Dgap(error),
        }
    }
}
