use super::session::Session;
use super::{Outcome, StageError};
use crate::cache::{Simulation, Units};
use crate::model::{BosPolicy, Decoder, DecoderBackend};
use crate::precision::PrecisionPair;
use crate::report::{Among, HeadRow, PositionMode, PositionRow, PromptRow, SensitivityRow, write_csv};
use crate::score::simulation;
use crate::sensitivity::correlation::{Agreement, EXPECTED_AGREEMENT, agreement};
use crate::sensitivity::position::{ByPosition, DECILES, Mode, follow_all};
use crate::sensitivity::{Errors, Metric, Table, accumulated, isolated};
use crate::tasks::mixed;
use crate::trace::{Document, Split, Trace};

/// Prompts of each domain that the agreement between domains is measured on.
const PER_DOMAIN: usize = 2;

/// Measures every layer at every pair of the space, on the documents of the search split.
pub(super) fn run<B: DecoderBackend>(
    session: &Session<'_>,
    decoder: &Decoder<B>,
    trace: &Trace,
) -> Result<Outcome, StageError> {
    let pairs = session.job.search_space.pairs.expand();
    let documents: Vec<&Document> = trace.split(Split::Search).collect();
    let longest = documents.iter().map(|document| document.tokens.len()).max().unwrap_or(0);
    let domains = domain_prompts(session)?;
    let longest = domains.iter().map(|(_, tokens)| tokens.len()).fold(longest, usize::max);
    let simulation = simulation(decoder, &session.job.search_space.scheme, longest)
        .map_err(crate::model::ModelError::from)?;
    let measure = Measure { session, decoder, simulation: &simulation, pairs: &pairs };
    let sequences: Vec<(&[u32], usize)> =
        documents.iter().map(|document| (&document.tokens[..], document.prompt_len)).collect();
    let tables = measure.all(&sequences)?;
    let by_domain = measure.by_domain(&domains)?;
    let pooled = Table::pooled(&tables);
    let (path, heads) = (session.file("sensitivity.csv"), session.file("sensitivity-heads.csv"));
    write_csv(&path, &rows(&pooled))?;
    write_csv(&heads, &head_rows(&pooled))?;
    let prompts = session.file("sensitivity-prompts.csv");
    let names: Vec<&str> = documents.iter().map(|document| document.id.as_str()).collect();
    let mut by_prompt = prompt_rows(Among::Prompts, &names, &tables);
    let (names, by_domain): (Vec<&str>, Vec<Table>) = by_domain.into_iter().unzip();
    by_prompt.extend(prompt_rows(Among::Domains, &names, &by_domain));
    write_csv(&prompts, &by_prompt)?;
    let mut outcome = Outcome { files: vec![path, heads, prompts], summary: Vec::new() };
    let metric = session.job.search_space.sensitivity.metric;
    outcome.summary.extend(said(session, "prompts", agreement(&tables, metric)));
    outcome.summary.extend(said(session, "domains", agreement(&by_domain, metric)));
    if session.job.search_space.sensitivity.accumulate {
        let path = session.file("error_by_position.csv");
        write_csv(&path, &measure.by_position(&documents)?)?;
        outcome.files.push(path);
    }
    Ok(outcome)
}

/// How well prompts or domains agree on which layers are sensitive; a warning where they do not.
fn said(session: &Session<'_>, among: &str, found: Option<Agreement>) -> Option<String> {
    let Agreement { mean, least } = found?;
    let text = format!("rank correlation of layers by e_o between {among}: mean {mean:.3}, least {least:.3}");
    if mean < EXPECTED_AGREEMENT {
        session.observer().warn(&format!(
            "{text}; under {EXPECTED_AGREEMENT} the ranking is the prompts', not the model's: use more of them"
        ));
    }
    Some(text)
}

/// Prompts of several domains, encoded.
fn domain_prompts(session: &Session<'_>) -> Result<Vec<(String, Vec<u32>)>, StageError> {
    let tokenizer = session.tokenizer()?;
    let trace = &session.job.trace;
    let count = |text: &str| tokenizer.count_from_start(text);
    let prompts = mixed(PER_DOMAIN, trace.min_tokens, trace.seed, None, &count)?;
    let encode = |prompt: crate::tasks::Prompt| {
        Ok((prompt.domain.to_owned(), tokenizer.encode_from_start(&prompt.text, BosPolicy::Auto)?))
    };
    prompts.into_iter().map(encode).collect()
}

struct Measure<'a, B: DecoderBackend> {
    session: &'a Session<'a>,
    decoder: &'a Decoder<B>,
    simulation: &'a Simulation,
    pairs: &'a [PrecisionPair],
}

impl<B: DecoderBackend> Measure<'_, B> {
    /// One table a sequence, each given with its prompt's length.
    fn all(&self, sequences: &[(&[u32], usize)]) -> Result<Vec<Table>, StageError> {
        let (observer, layers) = (self.session.observer(), self.session.n_layers());
        let accumulate = self.session.job.search_space.sensitivity.accumulate;
        let steps = sequences.len() * layers * if accumulate { self.pairs.len() } else { 1 };
        observer.begin("sensitivity", steps as u64, "layers");
        let tables = if accumulate { self.accumulated(sequences) } else { self.isolated(sequences) }?;
        observer.end(&format!("{layers} layers at {} pairs", self.pairs.len()));
        Ok(tables)
    }

    fn isolated(&self, sequences: &[(&[u32], usize)]) -> Result<Vec<Table>, StageError> {
        let (model, threads) = ((self.decoder, self.simulation), self.session.context.threads);
        let sequences = self.with_units(sequences);
        Ok(isolated::measure_all(model, self.pairs, &sequences, threads, self.session.observer())?)
    }

    fn accumulated(&self, sequences: &[(&[u32], usize)]) -> Result<Vec<Table>, StageError> {
        let (model, threads) = ((self.decoder, self.simulation), self.session.context.threads);
        let sequences = self.with_units(sequences);
        Ok(accumulated::measure_all(model, self.pairs, &sequences, threads, self.session.observer())?)
    }

    fn with_units<'t>(&self, sequences: &[(&'t [u32], usize)]) -> Vec<(&'t [u32], Units)> {
        let prefill = self.simulation.scheme().prefill;
        sequences.iter().map(|&(tokens, prompt)| (tokens, Units::prompt(prompt, prefill))).collect()
    }

    /// One table a domain, in the order in which domains first come.
    fn by_domain<'p>(&self, prompts: &'p [(String, Vec<u32>)]) -> Result<Vec<(&'p str, Table)>, StageError> {
        let sequences: Vec<(&[u32], usize)> =
            prompts.iter().map(|(_, tokens)| (&tokens[..], tokens.len())).collect();
        let observer = self.session.observer();
        observer.begin("domains", (sequences.len() * self.session.n_layers()) as u64, "layers");
        let tables = self.isolated(&sequences)?;
        let mut domains: Vec<(&str, Table)> = Vec::new();
        for ((domain, _), table) in prompts.iter().zip(&tables) {
            match domains.iter_mut().find(|(known, _)| known == domain) {
                Some((_, sum)) => sum.add(table),
                None => domains.push((domain, table.clone())),
            }
        }
        let names: Vec<&str> = domains.iter().map(|(domain, _)| *domain).collect();
        observer.end(&format!("{} prompts each of {}", PER_DOMAIN, names.join(", ")));
        Ok(domains)
    }

    fn by_position(&self, documents: &[&Document]) -> Result<Vec<PositionRow>, StageError> {
        let observer = self.session.observer();
        let steps = 2 * documents.len() * self.pairs.len() * self.session.n_layers();
        observer.begin("positions", steps as u64, "layers");
        let mut rows = Vec::new();
        for (mode, name) in [
            (Mode::TeacherForced, PositionMode::TeacherForced),
            (Mode::FreeRunning, PositionMode::FreeRunning),
        ] {
            let (model, threads) = ((self.decoder, self.simulation), self.session.context.threads);
            let documents: Vec<(&[u32], usize)> =
                documents.iter().map(|document| (&document.tokens[..], document.prompt_len)).collect();
            let pooled = follow_all(model, self.pairs, &documents, mode, threads, observer)?;
            rows.extend(pooled.iter().flat_map(|pair| position_rows(pair, name)));
        }
        observer.end("error by layer and tenth of the continuation");
        Ok(rows)
    }
}

fn position_rows(pair: &ByPosition, mode: PositionMode) -> Vec<PositionRow> {
    let cell = |layer: usize, decile: usize| {
        let (e_o, kl) = (pair.e_o(layer, decile)?, pair.kl(decile)?);
        Some(PositionRow { layer, decile, pair: pair.pair, mode, e_o, kl })
    };
    (0..pair.outputs.len())
        .flat_map(|layer| (0..DECILES).filter_map(move |decile| cell(layer, decile)))
        .collect()
}

/// Rows of `sensitivity.csv`.
pub(super) fn rows(table: &Table) -> Vec<SensitivityRow> {
    let row = |layer: usize, (errors, &pair): (&crate::sensitivity::LayerErrors, &PrecisionPair)| {
        let Errors { e_k_l1, e_k_elementwise, e_v_l1, e_v_elementwise, e_a, e_o_l1, e_o_elementwise } =
            errors.errors();
        let equivalent_bits = pair.mean_bits();
        SensitivityRow {
            layer,
            pair,
            equivalent_bits,
            e_k_l1,
            e_k_elementwise,
            e_v_l1,
            e_v_elementwise,
            e_a,
            e_o_l1,
            e_o_elementwise,
        }
    };
    let of_layer = |(layer, errors): (usize, &Vec<_>)| -> Vec<SensitivityRow> {
        errors.iter().zip(&table.pairs).map(|cell| row(layer, cell)).collect()
    };
    table.layers.iter().enumerate().flat_map(of_layer).collect()
}

/// One table a name.
fn prompt_rows(among: Among, names: &[&str], tables: &[Table]) -> Vec<PromptRow> {
    let mut rows = Vec::new();
    for (&name, table) in names.iter().zip(tables) {
        for (layer, errors) in table.layers.iter().enumerate() {
            for (errors, &pair) in errors.iter().zip(&table.pairs) {
                let Errors { e_o_l1, e_o_elementwise, .. } = errors.errors();
                rows.push(PromptRow { among, name: name.to_owned(), layer, pair, e_o_l1, e_o_elementwise });
            }
        }
    }
    rows
}

/// Rows of `sensitivity-heads.csv`.
pub(super) fn head_rows(table: &Table) -> Vec<HeadRow> {
    let mut rows = Vec::new();
    for (layer, errors) in table.layers.iter().enumerate() {
        for (errors, &pair) in errors.iter().zip(&table.pairs) {
            for head in 0..errors.n_heads() {
                let Errors { e_k_l1, e_k_elementwise, e_v_l1, e_v_elementwise, e_a, e_o_l1, e_o_elementwise } =
                    errors.head(head);
                let kv_head = head * errors.keys.len() / errors.n_heads();
                rows.push(HeadRow {
                    layer,
                    head,
                    kv_head,
                    pair,
                    e_k_l1,
                    e_k_elementwise,
                    e_v_l1,
                    e_v_elementwise,
                    e_a,
                    e_o_l1,
                    e_o_elementwise,
                });
            }
        }
    }
    rows
}

/// The error that prunes and clusters.
pub(super) fn driving_error(row: &SensitivityRow, metric: Metric) -> f64 {
    match metric {
        Metric::L1 => row.e_o_l1,
        Metric::Elementwise => row.e_o_elementwise,
    }
}
