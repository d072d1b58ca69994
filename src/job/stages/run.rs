use std::time::SystemTime;

use super::ledger::Ledger;
use super::session::Session;
use super::{Outcome, Stage, StageError, exam, search, select, sensitivity, space, trace};
use crate::model::{Decoder, DecoderBackend, ModelError, WeightType};
use crate::score::simulation;
use crate::trace::Trace;

/// A job under way: weights and trace are read when the first stage asks for them.
pub(super) struct Run<'a, B: DecoderBackend> {
    session: &'a Session<'a>,
    ledger: Ledger,
    decoder: Option<Decoder<B>>,
    trace: Option<Trace>,
}

impl<'a, B: DecoderBackend> Run<'a, B> {
    /// A run in the job's folder.
    ///
    /// # Errors
    /// [`StageError`] where the folder holds another job.
    pub(super) fn open(session: &'a Session<'a>) -> Result<Self, StageError> {
        exam::check(session)?;
        Ok(Self { session, ledger: Ledger::open(session)?, decoder: None, trace: None })
    }

    /// Whether a stage is done for the job's inputs.
    pub(super) fn is_done(&self, stage: Stage) -> Result<bool, StageError> {
        self.ledger.is_done(self.session, stage)
    }

    /// Runs a stage unless it is done for the same inputs.
    pub(super) fn stage(&mut self, stage: Stage) -> Result<Outcome, StageError> {
        if self.ledger.is_done(self.session, stage)? {
            let files = stage.files(self.session.job).iter().map(|file| self.session.file(file)).collect();
            return Ok(Outcome { files, summary: vec![format!("{}: done before, kept", stage.name())] });
        }
        let started = SystemTime::now();
        let result = self.run(stage);
        if result.is_ok() {
            self.ledger.finish(self.session, stage, started)?;
        }
        result
    }

    fn run(&mut self, stage: Stage) -> Result<Outcome, StageError> {
        let session = self.session;
        if stage == Stage::Space {
            return space::run(session);
        }
        let decoder = match self.decoder.take() {
            Some(decoder) => decoder,
            None => session.decoder(WeightType::F32)?,
        };
        let decoder = self.decoder.insert(decoder);
        // Whether model and scheme go together is known before any work is done.
        simulation(decoder, &session.job.search_space.scheme, 1).map_err(ModelError::from)?;
        if stage == Stage::Trace {
            return trace::run(session, decoder);
        }
        let trace = match self.trace.take() {
            Some(trace) => trace,
            None => read_trace(session)?,
        };
        let trace = self.trace.insert(trace);
        match stage {
            Stage::Sensitivity => sensitivity::run(session, decoder, trace),
            Stage::Search => search::run(session, decoder, trace, &self.ledger),
            _ => select::run(session, decoder, trace, &self.ledger),
        }
    }
}

/// The trace of the job's folder, if it is the session's model's.
pub(super) fn read_trace(session: &Session<'_>) -> Result<Trace, StageError> {
    let path = session.file("trace.safetensors");
    let trace = Trace::read(&path)?;
    trace.check_model(&path, &session.resolved.id, &session.fingerprint, session.n_layers())?;
    Ok(trace)
}
