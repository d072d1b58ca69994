//! True evaluations: a job's model on its trace, each map once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use burn_flex::Flex;
use clap::Args;
use kvtune::cache::Simulation;
use kvtune::cli::registry;
use kvtune::model::{Checkpoint, Decoder};
use kvtune::precision::{PrecisionMap, equivalent_bits};
use kvtune::progress::Silent;
use kvtune::quant::Scheme;
use kvtune::report::{map_text, read_csv, write_csv};
use kvtune::score::{Objective, Scorer, Tally, simulation};
use kvtune::search::{Genome, Objectives};
use kvtune::space::Space;
use kvtune::trace::{Document, Split, Trace};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::folder::Folder;
use crate::statistics::reference;

/// Maps between two writes of the memo.
const BETWEEN_WRITES: usize = 8;

/// What true evaluations run on.
#[derive(Args)]
pub(crate) struct BenchOptions {
    /// Only so many documents of the search split; default: all
    #[arg(long)]
    documents: Option<usize>,
    /// Threads
    #[arg(short = 'j', long, default_value_t = 2)]
    pub(crate) threads: usize,
}

impl BenchOptions {
    /// As the job itself evaluates: all documents.
    pub(crate) fn all(threads: usize) -> Self {
        Self { documents: None, threads }
    }
}

/// A job's model and the documents that experiments run on, before any weight is read.
pub(crate) struct Subject {
    pub(crate) checkpoint: Checkpoint,
    /// Of the weights.
    pub(crate) fingerprint: String,
    pub(crate) trace: Trace,
    /// Documents of the search split that are used, from the first on.
    pub(crate) documents: usize,
    pub(crate) threads: usize,
}

impl Subject {
    pub(crate) fn open(folder: &Folder, options: &BenchOptions) -> anyhow::Result<Self> {
        let threads = options.threads;
        rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
        let resolved = registry(true).resolve(&folder.job.model, &Silent)?;
        let checkpoint = Checkpoint::open(&resolved.path)?;
        let fingerprint = checkpoint.fingerprint()?.to_string();
        let trace_path = folder.path.join("trace.safetensors");
        let trace = Trace::read(&trace_path)?;
        trace.check_model(&trace_path, &resolved.id, &fingerprint, folder.space.n_layers())?;
        let all = trace.split(Split::Search).count();
        let documents = options.documents.unwrap_or(all).min(all);
        Ok(Self { checkpoint, fingerprint, trace, documents, threads })
    }

    /// The documents of the search split that are used.
    pub(crate) fn documents(&self) -> Vec<&Document> {
        self.trace.split(Split::Search).take(self.documents).collect()
    }

    /// What the scheme's caches of a decoder need for these documents.
    pub(crate) fn simulation(&self, decoder: &Decoder<Flex>, scheme: &Scheme) -> anyhow::Result<Simulation> {
        let lengths = self.trace.split(Split::Search).map(|document| document.tokens.len());
        Ok(simulation(decoder, scheme, lengths.max().unwrap_or(0))?)
    }
}

/// One map evaluated: a row of the memo, `measured.csv`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Hash of model, scheme, trace and number of documents.
    inputs: String,
    #[serde(with = "map_text")]
    pub(crate) map: PrecisionMap,
    pub(crate) equivalent_bits: f64,
    pub(crate) kl: f64,
    pub(crate) flips: f64,
    pub(crate) nll: f64,
}

impl Measured {
    pub(crate) fn objectives(&self, objective: Objective) -> Objectives {
        let loss = match objective {
            Objective::Flips => self.flips,
            Objective::Kl => self.kl,
            Objective::Nll | Objective::Accuracy => self.nll,
        };
        Objectives { bits: self.equivalent_bits, loss }
    }
}

/// Evaluates maps, and remembers them in `measured.csv`: a run that was stopped goes on, experiments share.
pub(crate) struct Bench {
    subject: Subject,
    decoder: Decoder<Flex>,
    simulation: Simulation,
    inputs: String,
    path: PathBuf,
    /// All of the file, other inputs too, by inputs and map.
    memo: BTreeMap<(String, String), Measured>,
}

impl Bench {
    pub(crate) fn open(folder: &Folder, options: &BenchOptions, out: &Path) -> anyhow::Result<Self> {
        let subject = Subject::open(folder, options)?;
        let decoder = Decoder::load(&subject.checkpoint, &Default::default())?;
        let scheme = &folder.job.search_space.scheme;
        let simulation = subject.simulation(&decoder, scheme)?;
        let scheme = serde_yaml::to_string(scheme)?;
        let (trace, documents) = (subject.trace.content_key(), subject.documents.to_string());
        let inputs = digest(&[&subject.fingerprint, &scheme, &trace, &documents]);
        let path = out.join("measured.csv");
        let rows: Vec<Measured> = if path.exists() { read_csv(&path)? } else { Vec::new() };
        let memo = rows.into_iter().map(|row| ((row.inputs.clone(), row.map.to_string()), row)).collect();
        Ok(Self { subject, decoder, simulation, inputs, path, memo })
    }

    /// What figures depend on besides the map: a hash of model, scheme, trace and number of documents.
    pub(crate) fn inputs(&self) -> &str {
        &self.inputs
    }

    /// Evaluates maps in order; `what` names them on standard error.
    pub(crate) fn measure(&mut self, what: &str, maps: &[PrecisionMap]) -> anyhow::Result<Vec<Measured>> {
        let mut open: Vec<PrecisionMap> = Vec::new();
        for map in maps {
            if !self.memo.contains_key(&self.key(map)) && !open.contains(map) {
                open.push(map.clone());
            }
        }
        let started = Instant::now();
        for (index, chunk) in open.chunks(BETWEEN_WRITES).enumerate() {
            self.evaluate(chunk)?;
            let done = index * BETWEEN_WRITES + chunk.len();
            eprintln!("{what}: {done} of {} maps, {:.0} s", open.len(), started.elapsed().as_secs_f64());
        }
        let known = |map| self.memo.get(&self.key(map)).cloned().context("a map was not evaluated");
        maps.iter().map(known).collect()
    }

    fn evaluate(&mut self, maps: &[PrecisionMap]) -> anyhow::Result<()> {
        let (documents, threads) = (self.subject.documents(), self.subject.threads);
        let scorer = Scorer::new(&self.decoder, &self.simulation, documents, threads);
        let tallies = scorer.evaluate(maps, &Silent)?;
        let width = self.decoder.config().head_shape().kv_width();
        for (map, tallies) in maps.iter().zip(&tallies) {
            let tally = Tally::pooled(tallies);
            let row = Measured {
                inputs: self.inputs.clone(),
                map: map.clone(),
                equivalent_bits: equivalent_bits(map, &vec![width; map.n_layers()]).get(),
                kl: tally.mean(Objective::Kl),
                flips: tally.mean(Objective::Flips),
                nll: tally.mean(Objective::Nll),
            };
            self.memo.insert(self.key(map), row);
        }
        let rows: Vec<&Measured> = self.memo.values().collect();
        Ok(write_csv(&self.path, &rows)?)
    }

    fn key(&self, map: &PrecisionMap) -> (String, String) {
        (self.inputs.clone(), map.to_string())
    }

    /// Each choice of each group alone, group by group.
    pub(crate) fn alone(&mut self, what: &str, space: &Space) -> anyhow::Result<Vec<Measured>> {
        let groups = space.groups().iter().enumerate();
        let alone = groups.flat_map(|(group, layers)| {
            (0..layers.candidates.len()).filter_map(move |choice| space.alone(group, choice))
        });
        self.measure(what, &alone.collect::<Vec<_>>())
    }

    /// KL of each choice of each group alone.
    pub(crate) fn isolated(&mut self, what: &str, space: &Space) -> anyhow::Result<Vec<Vec<f64>>> {
        let mut kl = self.alone(what, space)?.into_iter().map(|row| row.kl);
        let of_group = |group: &kvtune::space::LayerGroup| kl.by_ref().take(group.candidates.len()).collect();
        Ok(space.groups().iter().map(of_group).collect())
    }

    /// Genomes of a space.
    pub(crate) fn genomes(
        &mut self,
        what: &str,
        space: &Space,
        genomes: &[Genome],
    ) -> anyhow::Result<Vec<Measured>> {
        let maps: Option<Vec<PrecisionMap>> = genomes.iter().map(|genome| space.map(genome)).collect();
        match maps {
            Some(maps) => self.measure(what, &maps),
            None => bail!("a genome is not of the space"),
        }
    }

    /// The box of hypervolumes: 1.1 × the worst of the uniform configurations.
    pub(crate) fn reference(&mut self, space: &Space, objective: Objective) -> anyhow::Result<Objectives> {
        let uniform = space.pairs().iter().map(|&pair| PrecisionMap::uniform(space.n_layers(), pair));
        let rows = self.measure("uniform", &uniform.collect::<Vec<_>>())?;
        Ok(reference(rows.iter().map(|row| row.objectives(objective))))
    }
}

/// Sixteen digits that tell inputs apart.
pub(crate) fn digest(parts: &[&str]) -> String {
    let whole = Sha256::digest(parts.join("\0"));
    whole[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
