//! `kvtune analyze`: why layers are sensitive, from the files of a job.

mod example;
mod findings;
mod heads;
mod inputs;
mod knockout;

use super::session::Session;
use super::{AnalysisRequest, Outcome, StageError};
use crate::analysis::{LayerObservation, Observation, PatternSums, Setting, lemma, observe, outliers};
use crate::cache::Simulation;
use crate::job::{Job, Overrides};
use crate::model::{Decoder, DecoderBackend, ModelError, WeightType};
use crate::precision::Bits;
use crate::report::{
    AnalysisFile, ChannelRow, KnockOutFindings, LemmaRow, LemmaSource, ModelRecord, analysis_words,
    example_words, write_csv,
};
use crate::score::simulation;
use crate::trace::{Document, Split};

use self::heads::Heads;
use self::inputs::Inputs;

/// The job of the request's folder, results and all going there.
pub(super) fn job(request: &AnalysisRequest) -> Result<Job, StageError> {
    let path = request.folder.join("job.yaml");
    if !path.is_file() {
        return Err(StageError::Unmet {
            message: format!("`{}` is no job's folder: it has no `job.yaml`", request.folder.display()),
            hint: Some(
                "name a folder that `kvtune calibrate` wrote, such as `runs/smollm2-135m/kivi`".into(),
            ),
        });
    }
    let (model, out) = (request.model.clone(), Some(request.folder.clone()));
    Ok(Job::read(&path, &Overrides { model, out, seed: None })?)
}

/// Observes, measures what is missing, lowers the map, and writes what came of it.
pub(super) fn run<B: DecoderBackend>(
    request: &AnalysisRequest,
    session: &Session<'_>,
) -> Result<Outcome, StageError> {
    heads::check(request, session)?;
    let inputs = Inputs::read(request, session)?;
    let documents: Vec<&Document> = inputs.trace.split(Split::Search).collect();
    refuse_short(&documents)?;
    let decoder = session.decoder::<B>(WeightType::F32)?;
    let longest = inputs.trace.documents.iter().map(|document| document.tokens.len()).max().unwrap_or(0);
    let longest = longest.saturating_add(example::AFTER);
    let scheme = &session.job.search_space.scheme;
    let simulation = simulation(&decoder, scheme, longest).map_err(ModelError::from)?;
    let observation = observed(session, &decoder, &simulation, &documents)?;
    let errors = inputs.errors(session, &decoder, &simulation, &documents)?;
    let heads = Heads { session, request, observation: &observation, errors: &errors };
    let mut outcome = Outcome::default();
    let (rows, drawn) = heads.write(&mut outcome)?;
    let channels = write_channels(session, &observation, &mut outcome)?;
    let (made, own) = (Disturbed::made(session.job.search.seed), disturbed(session, &observation));
    write_lemma(session, std::iter::once(&made).chain(&own), &mut outcome)?;
    let lowered = knockout::run(request, session, &decoder, &simulation, &inputs, &errors, &mut outcome)?;
    let (knockout, lowered) = lowered.unzip();
    let parting = example::find(session, &decoder, &simulation, &inputs, &documents)?;
    let file = AnalysisFile {
        format: AnalysisFile::FORMAT,
        model: ModelRecord {
            id: session.resolved.id.clone(),
            sha256: session.fingerprint.clone(),
            layers: session.n_layers(),
        },
        trace: inputs.trace.content_key(),
        seed: session.job.search.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        documents: documents.len(),
        heads: heads.counts(),
        errors_from_file: errors.from_file,
        correlations: findings::correlations(&rows, session.n_layers()),
        drawn,
        channels: findings::channels(&channels),
        lemma: findings::lemma(&made, &own),
        knockout,
        example: parting.example,
    };
    let path = session.file("analysis.yaml");
    file.write(&path)?;
    outcome.files.insert(0, path);
    outcome.summary = analysis_words(&file, &rows, &lowered.unwrap_or_default());
    outcome.summary.extend(example_words(file.example.as_ref(), &parting.unchanged));
    if let Some(note) = missing(&inputs, file.knockout.as_ref()) {
        outcome.summary.push(note);
    }
    Ok(outcome)
}

/// A query sees first, recent and other tokens only in a sequence that is long enough.
fn refuse_short(documents: &[&Document]) -> Result<(), StageError> {
    let longest = documents.iter().map(|document| document.tokens.len()).max().unwrap_or(0);
    if longest > PatternSums::FROM {
        return Ok(());
    }
    Err(StageError::Unmet {
        message: format!(
            "the longest document of the search split has {longest} tokens, but attention on first and recent ones \
             says something only beyond {}",
            PatternSums::FROM
        ),
        hint: Some("record a trace with a larger `trace.min_tokens`".into()),
    })
}

/// The key widths of the job, narrowest first: noise is as large as their errors.
fn key_widths(session: &Session<'_>) -> Vec<Bits> {
    let mut widths: Vec<Bits> = session.job.search_space.pairs.expand().iter().map(|pair| pair.key).collect();
    widths.sort();
    widths.dedup();
    widths
}

/// Some queries under noise.
struct Disturbed {
    source: LemmaSource,
    noise_bits: Option<Bits>,
    tally: lemma::Tally,
}

impl Disturbed {
    fn made(seed: u64) -> Self {
        Self { source: LemmaSource::Synthetic, noise_bits: None, tally: lemma::synthetic(seed) }
    }
}

/// The model's queries at each key width.
fn disturbed(session: &Session<'_>, observation: &Observation) -> Vec<Disturbed> {
    let own = key_widths(session).into_iter().enumerate().map(|(width, bits)| Disturbed {
        source: LemmaSource::Model,
        noise_bits: Some(bits),
        tally: observation.lemma(width),
    });
    own.collect()
}

fn observed<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    simulation: &Simulation,
    documents: &[&Document],
) -> Result<Observation, StageError> {
    let observer = session.observer();
    observer.begin("attention", (documents.len() * session.n_layers()) as u64, "layers");
    let noise_bits = key_widths(session);
    let setting = Setting {
        decoder,
        simulation,
        noise_bits: &noise_bits,
        seed: session.job.search.seed,
        threads: session.context.threads,
        observer,
    };
    let tokens: Vec<&[u32]> = documents.iter().map(|document| &document.tokens[..]).collect();
    let observation = observe(&setting, &tokens)?;
    observer.end(&format!("{} documents of the search split", documents.len()));
    Ok(observation)
}

fn write_channels(
    session: &Session<'_>,
    observation: &Observation,
    outcome: &mut Outcome,
) -> Result<Vec<ChannelRow>, StageError> {
    let rows: Vec<ChannelRow> =
        observation.layers.iter().enumerate().flat_map(|(layer, seen)| channel_rows(layer, seen)).collect();
    let path = session.file("channels.csv");
    write_csv(&path, &rows)?;
    outcome.files.push(path);
    Ok(rows)
}

fn channel_rows(layer: usize, seen: &LayerObservation) -> Vec<ChannelRow> {
    let of_head = |(kv_head, channels): (usize, &Vec<crate::analysis::ChannelSums>)| {
        let stats: Vec<_> = channels.iter().filter_map(crate::analysis::ChannelSums::stats).collect();
        let outliers = outliers(&stats.iter().map(|stats| stats.max).collect::<Vec<_>>());
        let row =
            move |(channel, (stats, outlier)): (usize, (crate::analysis::ChannelStats, bool))| ChannelRow {
                layer,
                kv_head,
                channel,
                max: stats.max,
                spread: stats.spread,
                rms: stats.rms,
                outlier,
                bias_share: stats.bias_share,
                spread_without_bias: stats.spread_without_bias,
            };
        stats.into_iter().zip(outliers).enumerate().map(row)
    };
    seen.channels.iter().enumerate().flat_map(of_head).collect()
}

fn write_lemma<'d>(
    session: &Session<'_>,
    disturbed: impl Iterator<Item = &'d Disturbed>,
    outcome: &mut Outcome,
) -> Result<(), StageError> {
    let ends = lemma::EDGES.into_iter().skip(1).chain([1.0]);
    let edges: Vec<(f64, f64)> = lemma::EDGES.into_iter().zip(ends).collect();
    let of_source = |disturbed: &Disturbed| -> Vec<LemmaRow> {
        let row = |(bin, &(top_from, top_to)): (&lemma::Bin, &(f64, f64))| LemmaRow {
            source: disturbed.source,
            noise_bits: disturbed.noise_bits,
            top_from,
            top_to,
            queries: bin.queries,
            attention_shift: bin.attention_shift(),
            bound: bin.mean_bound(),
            output_change: bin.output_change(),
            beyond_bound: bin.beyond,
        };
        disturbed.tally.bins().iter().zip(&edges).map(row).collect()
    };
    let path = session.file("lemma.csv");
    write_csv(&path, &disturbed.flat_map(of_source).collect::<Vec<_>>())?;
    outcome.files.push(path);
    Ok(())
}

/// Says what was left out for want of a file.
fn missing(inputs: &Inputs, knockout: Option<&KnockOutFindings>) -> Option<String> {
    let lacking = match (&inputs.map, &inputs.space) {
        (None, _) => "precision.yaml",
        (_, None) => "space.yaml",
        _ => return None,
    };
    knockout.is_none().then(|| format!("no map was lowered: the folder has no `{lacking}`"))
}
