use super::dgap::{restoration::Repair, setting};
use super::session::Session;
use super::windows::Cut;
use super::{Configuration, Evaluation, EvaluationResult, StageError};
use crate::cache::Memory;
use crate::dgap::heads::Readout;
use crate::job::plan::size;
use crate::model::{DecoderBackend, ModelError, Tokenizer};
use crate::precision::{PrecisionMap, equivalent_bits, storage_bits};
use crate::score::{Entry, Objective, Tally, Window, score_entries, score_windows, simulation};

/// Compares configurations on windows of a text, full precision first.
pub(super) fn run<B: DecoderBackend>(
    request: &Evaluation,
    session: &Session<'_>,
) -> Result<Vec<EvaluationResult>, StageError> {
    let tokenizer = session.tokenizer()?;
    let cut = Cut::read(&request.text, request.windowing, session, &tokenizer)?;
    let (windows, cached) = (cut.windows(), cut.cached());
    let extent = Extent::of(&windows, &tokenizer)?;
    let maps = request.configurations.iter().map(|configuration| session.map(configuration));
    let maps = maps.collect::<Result<Vec<_>, _>>()?;
    let repair = Repair::of(request.restoration.as_ref(), &request.configurations, session)?;
    let decoder = session.decoder::<B>(request.weights)?;
    let readout = repair.as_ref().map(|_| Readout::new(decoder.head_weight()));
    let both = repair.as_ref().zip(readout.as_ref());
    let restorer = both.map(|(repair, readout)| repair.restorer(readout)).transpose()?;
    let observer = session.observer();
    observer.begin("eval", (windows.len() * by_scheme(request).count()) as u64, "windows");
    let (mut results, mut held) = (Vec::new(), String::new());
    let mut maps = maps.into_iter();
    for configurations in by_scheme(request) {
        let scheme = &configurations[0].scheme;
        let simulation = simulation(&decoder, scheme, cached).map_err(ModelError::from)?;
        let maps: Vec<PrecisionMap> = maps.by_ref().take(configurations.len()).collect();
        let (kind, threads) = (request.cache, session.context.threads);
        let scores = match repair.as_ref().zip(restorer.as_ref()) {
            None => score_windows(&decoder, &simulation, kind, &maps, &windows, threads, observer)?,
            Some((repair, restorer)) => {
                let entry = |(configuration, map)| {
                    let is_for = repair.is_for(&setting(session, configuration)?);
                    Ok(Entry { map, restore: Some(restorer).filter(|_| is_for) })
                };
                let entries = configurations.iter().zip(&maps).map(entry);
                let entries = entries.collect::<Result<Vec<_>, StageError>>()?;
                score_entries(&decoder, &simulation, kind, &entries, &windows, threads, observer)?
            }
        };
        for ((configuration, map), scores) in configurations.iter().zip(&maps).zip(&scores) {
            let tally = Tally::pooled(&scores.tallies);
            held += &memory_line((request, cached), configuration, map, scores.memory, session);
            if results.is_empty() {
                results.push(full(&tally, extent));
            }
            results.push(result(configuration, map, (&tally, extent), session, cached));
            if let Some(repair) = repair.as_ref().filter(|_| !scores.restored.is_empty()) {
                let tally = Tally::pooled(&scores.restored);
                let repaired = result(configuration, map, (&tally, extent), session, cached);
                results
                    .push(EvaluationResult { configuration: repair.name(&configuration.name), ..repaired });
            }
        }
    }
    observer.end(&format!("{}{held}", cut.summary(windows.len())));
    Ok(results)
}

/// Neighbors of one scheme share their full-precision pass.
fn by_scheme(request: &Evaluation) -> impl Iterator<Item = &[Configuration]> {
    request.configurations.chunk_by(|a, b| a.scheme == b.scheme)
}

/// How much text is scored.
#[derive(Clone, Copy)]
struct Extent {
    words: usize,
    bytes: usize,
}

impl Extent {
    fn of(windows: &[Window<'_>], tokenizer: &Tokenizer) -> Result<Self, StageError> {
        let mut extent = Self { words: 0, bytes: 0 };
        for window in windows {
            let text = tokenizer.decode(window.scored())?;
            extent.words += text.split_whitespace().count();
            extent.bytes += text.len();
        }
        Ok(extent)
    }
}

/// exp of the negative log-likelihood over so many units.
fn perplexity(nll: f64, units: usize) -> f64 {
    (nll / units.max(1) as f64).exp()
}

fn full(tally: &Tally, extent: Extent) -> EvaluationResult {
    EvaluationResult {
        configuration: "full".into(),
        equivalent_bits: 16.0,
        storage_bits: 16.0,
        perplexity: perplexity(tally.nll_full, tally.positions as usize),
        kl: 0.0,
        flips: 0.0,
        positions: tally.positions as usize,
        word_perplexity: perplexity(tally.nll_full, extent.words),
        byte_perplexity: perplexity(tally.nll_full, extent.bytes),
    }
}

/// What a window's cache takes of memory, measured; what its codes would take, computed; and what f32 takes.
fn memory_line(
    (request, cached): (&Evaluation, usize),
    configuration: &Configuration,
    map: &PrecisionMap,
    memory: Memory,
    session: &Session<'_>,
) -> String {
    let full = 2 * size_of::<f32>() * session.widths().iter().sum::<usize>() * cached;
    format!(
        "\n{}: the {} cache of a window holds {}, {} by its storage bits; f32 takes {}",
        configuration.name,
        request.cache,
        size(memory.bytes() as u64),
        size(bytes(configuration, map, session, cached)),
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
    (tally, extent): (&Tally, Extent),
    session: &Session<'_>,
    cached: usize,
) -> EvaluationResult {
    let (widths, bytes) = (session.widths(), bytes(configuration, map, session, cached));
    EvaluationResult {
        configuration: configuration.name.clone(),
        equivalent_bits: equivalent_bits(map, &widths).get(),
        storage_bits: storage_bits(bytes, &widths, cached).bits,
        perplexity: perplexity(tally.nll, tally.positions as usize),
        kl: tally.mean(Objective::Kl),
        flips: tally.mean(Objective::Flips),
        positions: tally.positions as usize,
        word_perplexity: perplexity(tally.nll, extent.words),
        byte_perplexity: perplexity(tally.nll, extent.bytes),
    }
}
