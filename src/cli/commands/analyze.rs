use super::{Session, job};
use crate::cli::args::AnalyzeArgs;
use crate::job::stages::{self, AnalysisRequest};

pub(super) fn analyze(args: &AnalyzeArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let request = AnalysisRequest {
        folder: args.folder.clone(),
        model: args.model.clone(),
        heads: args.heads.clone(),
        split: args.split.into(),
    };
    let outcome = session.with_context(false, |context| stages::analyze(&request, context))?;
    job::say(&outcome, session)
}
