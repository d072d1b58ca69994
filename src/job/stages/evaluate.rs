use super::session::Session;
use super::{Configuration, ConfigurationBits, Evaluation, EvaluationResult, StageError};
use crate::model::{BosPolicy, DecoderBackend, ModelError};
use crate::precision::{PrecisionMap, equivalent_bits, storage_bits};
use crate::score::{Objective, Tally, score_windows, simulation};

/// Compares configurations on windows of a text, full precision first.
pub(super) fn run<B: DecoderBackend>(
    request: &Evaluation,
    session: &Session<'_>,
) -> Result<Vec<EvaluationResult>, StageError> {
    let tokens = tokens(request, session)?;
    let windows: Vec<&[u32]> =
        tokens.chunks_exact(request.window).take(request.windows.unwrap_or(usize::MAX)).collect();
    let maps = request.configurations.iter().map(|configuration| map(configuration, session));
    let maps = maps.collect::<Result<Vec<_>, _>>()?;
    let decoder = session.decoder::<B>(request.weights)?;
    let observer = session.observer();
    observer.begin("eval", (windows.len() * by_scheme(request).count()) as u64, "windows");
    let mut results = Vec::new();
    let mut maps = maps.into_iter();
    for configurations in by_scheme(request) {
        let scheme = &configurations[0].scheme;
        let simulation = simulation(&decoder, scheme, request.window).map_err(ModelError::from)?;
        let maps: Vec<PrecisionMap> = maps.by_ref().take(configurations.len()).collect();
        let tallies =
            score_windows(&decoder, &simulation, &maps, &windows, session.context.threads, observer)?;
        for ((configuration, map), tallies) in configurations.iter().zip(&maps).zip(&tallies) {
            let tally = Tally::pooled(tallies);
            if results.is_empty() {
                results.push(full(&tally));
            }
            results.push(result(configuration, map, &tally, session, request.window));
        }
    }
    observer.end(&format!("{} windows of {} tokens", windows.len(), request.window));
    Ok(results)
}

/// Neighbors of one scheme share their full-precision pass.
fn by_scheme(request: &Evaluation) -> impl Iterator<Item = &[Configuration]> {
    request.configurations.chunk_by(|a, b| a.scheme == b.scheme)
}

fn tokens(request: &Evaluation, session: &Session<'_>) -> Result<Vec<u32>, StageError> {
    let text = std::fs::read_to_string(&request.text)
        .map_err(|source| crate::report::FileError::Read { path: request.text.clone(), source })?;
    let mut tokens = session.tokenizer()?.encode_from_start(&text, BosPolicy::Never)?;
    if tokens.len() < request.window {
        return Err(StageError::Unmet {
            message: format!(
                "`{}` has {} tokens, but a window has {}",
                request.text.display(),
                tokens.len(),
                request.window
            ),
            hint: Some("use a longer text or a smaller `--window`".into()),
        });
    }
    tokens.truncate(tokens.len() / request.window * request.window);
    Ok(tokens)
}

fn map(configuration: &Configuration, session: &Session<'_>) -> Result<PrecisionMap, StageError> {
    let layers = session.n_layers();
    let map = match &configuration.bits {
        ConfigurationBits::Map(map) => map.clone(),
        ConfigurationBits::Uniform(pair) => PrecisionMap::uniform(layers, *pair),
    };
    map.for_layers(layers).map_err(|error| StageError::Unmet {
        message: format!("`{}`: {error}", configuration.name),
        hint: None,
    })
}

fn full(tally: &Tally) -> EvaluationResult {
    EvaluationResult {
        configuration: "full".into(),
        equivalent_bits: 16.0,
        storage_bits: 16.0,
        perplexity: (tally.nll_full / tally.positions.max(1) as f64).exp(),
        kl: 0.0,
        flips: 0.0,
        positions: tally.positions as usize,
    }
}

fn result(
    configuration: &Configuration,
    map: &PrecisionMap,
    tally: &Tally,
    session: &Session<'_>,
    window: usize,
) -> EvaluationResult {
    let (widths, shape) = (session.widths(), session.checkpoint.config().head_shape().stored());
    let bytes = configuration.scheme.map_bytes(map, &vec![shape; widths.len()], window);
    EvaluationResult {
        configuration: configuration.name.clone(),
        equivalent_bits: equivalent_bits(map, &widths).get(),
        storage_bits: storage_bits(bytes, &widths, window).bits,
        perplexity: (tally.nll / tally.positions.max(1) as f64).exp(),
        kl: tally.mean(Objective::Kl),
        flips: tally.mean(Objective::Flips),
        positions: tally.positions as usize,
    }
}
