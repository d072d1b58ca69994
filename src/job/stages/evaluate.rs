use super::dgap::{restoration::Repair, setting};
use super::session::Session;
use super::{Configuration, Evaluation, EvaluationResult, StageError, fit};
use crate::cache::Memory;
use crate::dgap::heads::Readout;
use crate::job::plan::size;
use crate::model::{BosPolicy, DecoderBackend, ModelError};
use crate::precision::{PrecisionMap, equivalent_bits, storage_bits};
use crate::score::{Entry, Objective, Tally, score_entries, simulation};

/// Compares configurations on windows of a text, full precision first.
pub(super) fn run<B: DecoderBackend>(
    request: &Evaluation,
    session: &Session<'_>,
) -> Result<Vec<EvaluationResult>, StageError> {
    fit::window(request.window, session)?;
    let tokens = tokens(request, session)?;
    let windows: Vec<&[u32]> =
        tokens.chunks_exact(request.window).take(request.windows.unwrap_or(usize::MAX)).collect();
    let maps = request.configurations.iter().map(|configuration| session.map(configuration));
    let maps = maps.collect::<Result<Vec<_>, _>>()?;
    let repair = repair(request, session)?;
    let decoder = session.decoder::<B>()?;
    let readout = Readout::new(decoder.head_weight());
    let restorer = repair.as_ref().map(|repair| repair.restorer(&readout)).transpose()?;
    let observer = session.observer();
    observer.begin("eval", (windows.len() * by_scheme(request).count()) as u64, "windows");
    let (mut results, mut held) = (Vec::new(), String::new());
    let mut maps = maps.into_iter();
    for configurations in by_scheme(request) {
        let scheme = &configurations[0].scheme;
        let simulation = simulation(&decoder, scheme, request.window).map_err(ModelError::from)?;
        let maps: Vec<PrecisionMap> = maps.by_ref().take(configurations.len()).collect();
        let (kind, threads) = (request.cache, session.context.threads);
        let entry = |(configuration, map)| {
            let is_for = match &repair {
                Some(repair) => repair.is_for(&setting(session, configuration)?),
                None => false,
            };
            Ok(Entry { map, restore: restorer.as_ref().filter(|_| is_for) })
        };
        let entries = configurations.iter().zip(&maps).map(entry).collect::<Result<Vec<_>, StageError>>()?;
        let scores = score_entries(&decoder, &simulation, kind, &entries, &windows, threads, observer)?;
        for ((configuration, map), scores) in configurations.iter().zip(&maps).zip(&scores) {
            let tally = Tally::pooled(&scores.tallies);
            held += &memory_line(request, configuration, map, scores.memory, session);
            if results.is_empty() {
                results.push(full(&tally));
            }
            results.push(result(configuration, map, &tally, session, request.window));
            if let Some(repair) = repair.as_ref().filter(|_| !scores.restored.is_empty()) {
                let tally = Tally::pooled(&scores.restored);
                let repaired = result(configuration, map, &tally, session, request.window);
                results
                    .push(EvaluationResult { configuration: repair.name(&configuration.name), ..repaired });
            }
        }
    }
    observer.end(&format!("{} windows of {} tokens{held}", windows.len(), request.window));
    Ok(results)
}

/// Neighbors of one scheme share their full-precision pass.
fn by_scheme(request: &Evaluation) -> impl Iterator<Item = &[Configuration]> {
    request.configurations.chunk_by(|a, b| a.scheme == b.scheme)
}

/// The heads that were asked for, if they are for this model and one of the configurations.
fn repair<'a>(request: &'a Evaluation, session: &Session<'_>) -> Result<Option<Repair<'a>>, StageError> {
    let Some(restoration) = &request.restoration else { return Ok(None) };
    let repair = Repair::open(restoration, session)?;
    let settings = request.configurations.iter().map(|configuration| setting(session, configuration));
    let settings = settings.collect::<Result<Vec<_>, _>>()?;
    if let Some(first) = settings.first().filter(|_| !settings.iter().any(|setting| repair.is_for(setting))) {
        repair.check(first)?;
    }
    Ok(Some(repair))
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

/// What a window's cache takes of memory, measured; what its codes would take, computed; and what f32 takes.
fn memory_line(
    request: &Evaluation,
    configuration: &Configuration,
    map: &PrecisionMap,
    memory: Memory,
    session: &Session<'_>,
) -> String {
    let full = 2 * size_of::<f32>() * session.widths().iter().sum::<usize>() * request.window;
    format!(
        "\n{}: the {} cache of a window holds {}, {} by its storage bits; f32 takes {}",
        configuration.name,
        request.cache,
        size(memory.bytes() as u64),
        size(bytes(configuration, map, session, request.window)),
        size(full as u64)
    )
}

fn bytes(configuration: &Configuration, map: &PrecisionMap, session: &Session<'_>, tokens: usize) -> u64 {
    let shape = session.checkpoint.config().head_shape().stored();
    configuration.scheme.map_bytes(map, &vec![shape; session.n_layers()], tokens)
}

fn result(
    configuration: &Configuration,
    map: &PrecisionMap,
    tally: &Tally,
    session: &Session<'_>,
    window: usize,
) -> EvaluationResult {
    let (widths, bytes) = (session.widths(), bytes(configuration, map, session, window));
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
