//! `analyze`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::analysis::HeadId;
use crate::trace::Split;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Writes analysis.yaml, heads.csv, heads.svg, channels.csv, lemma.csv, attention-L.H.png and, where the folder has a map,
knockout.csv.

Examples:
  kvtune analyze runs/smollm2-135m/kivi
  kvtune analyze runs/smollm2-135m/kivi --heads 12.3,0.1 --split search")]
pub(in crate::cli) struct AnalyzeArgs {
    /// A job's folder, with a trace
    #[arg(value_name = "DIR")]
    pub(in crate::cli) folder: PathBuf,
    /// The job's model, where it is found under another name now
    #[arg(short, long, value_name = "MODEL")]
    pub(in crate::cli) model: Option<String>,
    /// Heads whose attention is drawn, layer and head from 0; without it the extremes
    #[arg(long, value_name = "L.H", value_delimiter = ',')]
    pub(in crate::cli) heads: Vec<HeadId>,
    /// Documents that the map is scored on a step lower
    #[arg(long, value_name = "SPLIT", default_value = "select")]
    pub(in crate::cli) split: KnockOutSplit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum KnockOutSplit {
    /// Those that the search saw
    Search,
    /// Those that the map was chosen on
    Select,
}

impl From<KnockOutSplit> for Split {
    fn from(split: KnockOutSplit) -> Self {
        match split {
            KnockOutSplit::Search => Self::Search,
            KnockOutSplit::Select => Self::Select,
        }
    }
}
