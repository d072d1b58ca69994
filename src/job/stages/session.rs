use crate::job::Job;
use crate::model::{Checkpoint, Decoder, DecoderBackend, Resolved, Tokenizer};
use crate::precision::PrecisionMap;
use crate::progress::Observer;

use super::{Configuration, ConfigurationBits, Context, StageError};

/// A job's model, opened: what every stage needs of it.
pub(super) struct Session<'a> {
    pub(super) job: &'a Job,
    pub(super) context: &'a Context<'a>,
    pub(super) resolved: Resolved,
    pub(super) checkpoint: Checkpoint,
    pub(super) fingerprint: String,
}

impl<'a> Session<'a> {
    /// Finds the job's model, fetching it if need be, and reads what can be read without its weights.
    pub(super) fn open(job: &'a Job, context: &'a Context<'a>) -> Result<Self, StageError> {
        let resolved = context.registry.resolve(&job.model, context.observer)?;
        let checkpoint = Checkpoint::open(&resolved.path)?;
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

    /// Reads the weights.
    pub(super) fn decoder<B: DecoderBackend>(&self) -> Result<Decoder<B>, StageError> {
        let observer = self.observer();
        observer.begin("load", 1, "model");
        let decoder = Decoder::load(&self.checkpoint, &B::Device::default())?;
        observer.advance(1);
        let config = self.checkpoint.config();
        observer.end(&format!("{}: {}, {} layers", self.resolved.id, config.architecture, self.n_layers()));
        Ok(decoder)
    }

    /// Where a file of the job stands.
    pub(super) fn file(&self, name: &str) -> std::path::PathBuf {
        self.job.out.join(name)
    }
}
