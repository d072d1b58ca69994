use std::sync::Arc;

use crate::job::Job;
use crate::job::plan::size;
use crate::model::{Checkpoint, Decoder, DecoderBackend, Resolved, Tokenizer, WeightType};
use crate::precision::PrecisionMap;
use crate::progress::Observer;

use super::{Configuration, ConfigurationBits, Context, StageError};

/// A job's model, opened: what every stage needs of it.
pub(super) struct Session<'a> {
    pub(super) job: &'a Job,
    pub(super) context: &'a Context<'a>,
    pub(super) resolved: Resolved,
    pub(super) checkpoint: Arc<Checkpoint>,
    pub(super) fingerprint: String,
}

impl<'a> Session<'a> {
    /// Finds the job's model, fetching it if need be, and reads what can be read without its weights.
    pub(super) fn open(job: &'a Job, context: &'a Context<'a>) -> Result<Self, StageError> {
        let resolved = context.registry.resolve(&job.model, context.observer)?;
        let checkpoint = Arc::new(Checkpoint::open(&resolved.path)?);
        let fingerprint = checkpoint.fingerprint()?.to_string();
        Ok(Self { job, context, resolved, checkpoint, fingerprint })
    }

    pub(super) fn observer(&self) -> &'a dyn Observer {
        self.context.observer
    }

    pub(super) fn n_layers(&self) -> usize {
        self.checkpoint.config().num_hidden_layers
    }

    /// KV width of every layer.
    pub(super) fn widths(&self) -> Vec<usize> {
        vec![self.checkpoint.config().head_shape().kv_width(); self.n_layers()]
    }

    /// The map of a configuration, if it is for a model of as many layers.
    pub(super) fn map(&self, configuration: &Configuration) -> Result<PrecisionMap, StageError> {
        let map = match &configuration.bits {
            ConfigurationBits::Map(map) => map.clone(),
            ConfigurationBits::Uniform(pair) => PrecisionMap::uniform(self.n_layers(), *pair),
        };
        map.for_layers(self.n_layers()).map_err(|error| StageError::Unmet {
            message: format!("`{}`: {error}", configuration.name),
            hint: Some("a map is for one model: find this one's with `kvtune calibrate -m MODEL`".into()),
        })
    }

    pub(super) fn tokenizer(&self) -> Result<Tokenizer, StageError> {
        Ok(Tokenizer::load(&self.checkpoint)?)
    }

    /// Reads the weights, or opens them for streaming where that was asked for or they would not fit.
    pub(super) fn decoder<B: DecoderBackend>(&self, weights: WeightType) -> Result<Decoder<B>, StageError> {
        let observer = self.observer();
        let held = self.held(weights)?;
        if let Held::Streamed { too_many: Some((bytes, free)), .. } = held {
            observer.warn(&format!(
                "the weights would take {} as f32, and {} are free: they stay in their file and a layer is read \
                 at a time, with the same results",
                size(bytes),
                size(free)
            ));
        }
        observer.begin("load", 1, "model");
        let device = B::Device::default();
        let decoder = match held {
            Held::Streamed { .. } => Decoder::stream(Arc::clone(&self.checkpoint), &device)?,
            Held::Resident { .. } => Decoder::load_as(&self.checkpoint, &device, weights)?,
        };
        observer.advance(1);
        let config = self.checkpoint.config();
        let streamed = if decoder.is_streamed() { ", weights streamed" } else { "" };
        let layers = self.n_layers();
        observer.end(&format!("{}: {}, {layers} layers{streamed}", self.resolved.id, config.architecture));
        Ok(decoder)
    }

    /// How weights will be held; what was asked for is checked here, before they are read.
    pub(super) fn held(&self, weights: WeightType) -> Result<Held, StageError> {
        let config = self.checkpoint.config();
        let bytes = config.weight_elements().saturating_mul(weights.bytes() as u64);
        let at_a_time = config.embedding_elements().saturating_add(config.layer_elements());
        let at_a_time = at_a_time.saturating_mul(WeightType::F32.bytes() as u64);
        let on_host = self.context.device.shares_memory();
        let free = self.context.available_memory.filter(|_| on_host);
        let too_many = free.filter(|&free| bytes > free).map(|free| (bytes, free));
        match (self.context.stream_weights, weights, too_many) {
            (true, WeightType::F32, _) => Ok(Held::Streamed { bytes: at_a_time, too_many: None }),
            (true, weights, _) => Err(StageError::StreamedWeights { weights }),
            (false, _, None) => Ok(Held::Resident { bytes: if on_host { bytes } else { 0 } }),
            (false, WeightType::F32, too_many) => Ok(Held::Streamed { bytes: at_a_time, too_many }),
            (false, weights, Some((bytes, free))) => Err(StageError::Unmet {
                message: format!(
                    "the weights would take {} as {weights}, and {} are free",
                    size(bytes),
                    size(free)
                ),
                hint: Some("`--stream-weights` without `--weights` reads a layer at a time".into()),
            }),
        }
    }

    /// The job's scheme as its file spells it: part of what results are found by.
    pub(super) fn scheme_text(&self) -> String {
        serde_yaml::to_string(&self.job.search_space.scheme).expect("a scheme was read from YAML")
    }

    /// Where a file of the job stands.
    pub(super) fn file(&self, name: &str) -> std::path::PathBuf {
        self.job.out.join(name)
    }
}

/// How weights are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// All of them.
    Resident {
        /// Of the machine's memory.
        bytes: u64,
    },
    /// A layer at a time.
    Streamed {
        /// A layer, embedding and head as f32.
        bytes: u64,
        /// Bytes that all would take, and bytes that are free, where that is why.
        too_many: Option<(u64, u64)>,
    },
}

impl Held {
    /// Of the machine's memory.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Resident { bytes } | Self::Streamed { bytes, .. } => bytes,
        }
    }
}
