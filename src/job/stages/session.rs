use std::sync::Arc;

use crate::job::Job;
use crate::job::plan::size;
use crate::model::{Checkpoint, Decoder, DecoderBackend, Resolved, Tokenizer, WeightType};
use crate::progress::Observer;

use super::{Context, StageError};

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

    pub(super) fn tokenizer(&self) -> Result<Tokenizer, StageError> {
        Ok(Tokenizer::load(&self.checkpoint)?)
    }

    /// Reads the weights, or opens them for streaming where that was asked for or they would not fit.
    pub(super) fn decoder<B: DecoderBackend>(&self, weights: WeightType) -> Result<Decoder<B>, StageError> {
        let observer = self.observer();
        let stream = self.streams(weights)?;
        observer.begin("load", 1, "model");
        let device = B::Device::default();
        let decoder = match stream {
            true => Decoder::stream(Arc::clone(&self.checkpoint), &device)?,
            false => Decoder::load_as(&self.checkpoint, &device, weights)?,
        };
        observer.advance(1);
        let config = self.checkpoint.config();
        let held = if stream { ", weights streamed" } else { "" };
        let layers = self.n_layers();
        observer.end(&format!("{}: {}, {layers} layers{held}", self.resolved.id, config.architecture));
        Ok(decoder)
    }

    /// Whether weights stay in their file, with a word to the user where he did not ask for it.
    fn streams(&self, weights: WeightType) -> Result<bool, StageError> {
        let bytes = self.checkpoint.config().weight_elements() * weights.bytes() as u64;
        let too_many = self.context.free_memory.filter(|&free| bytes > free);
        match (self.context.stream_weights, weights, too_many) {
            (true, WeightType::F32, _) => Ok(true),
            (true, weights, _) => Err(StageError::Unmet {
                message: format!(
                    "weights that are streamed stay as they are stored, they cannot be {weights}"
                ),
                hint: Some("leave out `--weights` or `--stream-weights`".into()),
            }),
            (false, _, None) => Ok(false),
            (false, WeightType::F32, Some(free)) => {
                self.observer().warn(&format!(
                    "the weights would take {} as f32, and {} are free: they stay in their file and a layer is \
                     read at a time, with the same results",
                    size(bytes),
                    size(free)
                ));
                Ok(true)
            }
            (false, weights, Some(free)) => Err(StageError::Unmet {
                message: format!(
                    "the weights would take {} as {weights}, and {} are free",
                    size(bytes),
                    size(free)
                ),
                hint: Some("`--stream-weights` without `--weights` reads a layer at a time".into()),
            }),
        }
    }

    /// Where a file of the job stands.
    pub(super) fn file(&self, name: &str) -> std::path::PathBuf {
        self.job.out.join(name)
    }
}
