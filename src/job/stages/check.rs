use std::path::PathBuf;

use super::session::Session;
use super::windows::{Cut, Windowing};
use super::{Configuration, StageError, trace};
use crate::cache::CacheKind;
use crate::model::{Decoder, DecoderBackend, ModelError, WeightType};
use crate::precision::PrecisionMap;
use crate::progress::counted;
use crate::score::{Objective, Scorer, Tally, Window, score_windows, simulation};
use crate::select::{Bootstrap, DocumentLoss, Estimate, estimate, paired};
use crate::trace::{Document, Split, TraceParams};

/// Maps to score on one model.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckRequest {
    /// The model.
    pub model: String,
    /// The maps, all under one scheme; the others are compared with the first.
    pub configurations: Vec<Configuration>,
    /// What they are scored on.
    pub texts: Texts,
    /// The loss.
    pub objective: Objective,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// What maps are scored on.
#[derive(Clone, Debug, PartialEq)]
pub enum Texts {
    /// Prompts of a job, those that its search did not see, and what the model makes of them.
    Prompts(Box<TraceParams>),
    /// Windows of a text.
    Windows {
        /// The text.
        path: PathBuf,
        /// Tokens of a window.
        window: usize,
        /// Windows at most.
        windows: Option<usize>,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckResult {
    /// The loss of each map against full precision.
    pub losses: Vec<Estimate>,
    /// How much more each map after the first loses than the first, on the same documents.
    pub more: Vec<Estimate>,
}

impl CheckRequest {
    /// The prompts, or those that are not asked for.
    pub(super) fn trace(&self) -> TraceParams {
        match &self.texts {
            Texts::Prompts(params) => (**params).clone(),
            Texts::Windows { .. } => TraceParams::default(),
        }
    }
}

/// Scores the maps document by document.
pub(super) fn run<B: DecoderBackend>(
    request: &CheckRequest,
    session: &Session<'_>,
) -> Result<CheckResult, StageError> {
    let maps = request.configurations.iter().map(|configuration| session.map(configuration));
    let maps = maps.collect::<Result<Vec<_>, _>>()?;
    let tallies = match &request.texts {
        Texts::Prompts(_) => on_prompts::<B>(request, session, &maps)?,
        Texts::Windows { path, window, windows } => {
            let cut = Cut::read(path, Windowing::plain(*window, *windows), session, &session.tokenizer()?)?;
            on_windows::<B>(request, session, &maps, &cut.windows())?
        }
    };
    let losses: Vec<Vec<DocumentLoss>> = tallies
        .iter()
        .map(|of_map| of_map.iter().map(|tally| loss(tally, request.objective)).collect())
        .collect();
    let bootstrap = Bootstrap { seed: request.seed, ..Bootstrap::default() };
    let first = losses.first().cloned().unwrap_or_default();
    let more = losses.iter().skip(1).map(|map| paired(map, &first)).collect::<Result<Vec<_>, _>>()?;
    Ok(CheckResult { losses: estimate(&losses, bootstrap)?, more: estimate(&more, bootstrap)? })
}

fn on_prompts<B: DecoderBackend>(
    request: &CheckRequest,
    session: &Session<'_>,
    maps: &[PrecisionMap],
) -> Result<Vec<Vec<Tally>>, StageError> {
    let decoder: Decoder<B> = session.decoder(WeightType::F32)?;
    let trace = trace::of_splits(session, &decoder, &|split| split != Split::Search)?;
    let documents: Vec<&Document> = trace.documents.iter().collect();
    let longest = documents.iter().map(|document| document.tokens.len()).max().unwrap_or(0);
    let simulation = simulation(&decoder, scheme(request), longest).map_err(ModelError::from)?;
    let observer = session.observer();
    observer.begin("check", (maps.len() * documents.len()) as u64, "documents");
    let count = documents.len();
    let scorer = Scorer::new(&decoder, &simulation, documents, session.context.threads);
    let tallies = scorer.evaluate(maps, observer)?;
    observer.end(&format!("{} on {}", counted(maps.len(), "map"), counted(count, "document")));
    Ok(tallies)
}

fn on_windows<B: DecoderBackend>(
    request: &CheckRequest,
    session: &Session<'_>,
    maps: &[PrecisionMap],
    windows: &[Window<'_>],
) -> Result<Vec<Vec<Tally>>, StageError> {
    let decoder: Decoder<B> = session.decoder(WeightType::F32)?;
    let longest = windows.first().map_or(0, Window::len);
    let simulation = simulation(&decoder, scheme(request), longest).map_err(ModelError::from)?;
    let (observer, threads) = (session.observer(), session.context.threads);
    observer.begin("check", windows.len() as u64, "windows");
    let scores =
        score_windows(&decoder, &simulation, CacheKind::Simulated, maps, windows, threads, observer)?;
    observer.end(&format!("{} on {}", counted(maps.len(), "map"), counted(windows.len(), "window")));
    Ok(scores.into_iter().map(|scores| scores.tallies).collect())
}

fn scheme(request: &CheckRequest) -> &crate::quant::Scheme {
    &request.configurations[0].scheme
}

/// Flips, KL and the difference of likelihoods are paired with full precision by what they are.
pub(super) fn loss(tally: &Tally, objective: Objective) -> DocumentLoss {
    DocumentLoss { sum: tally.sum(objective), positions: tally.positions }
}
