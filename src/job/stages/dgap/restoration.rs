use super::super::session::Session;
use super::super::{Configuration, Restoration, StageError};
use super::setting;
use crate::dgap::heads::{Corrector, Readout};
use crate::dgap::{Heads, Restorer, Setting};
use crate::model::DecoderBackend;

/// Heads to decode with, once they are known to be of the session's model.
pub(in crate::job::stages) struct Repair<'a> {
    request: &'a Restoration,
    heads: Heads,
}

impl<'a> Repair<'a> {
    /// The heads that were asked for, if any were; refused unless they are for one of the configurations.
    pub(in crate::job::stages) fn of(
        request: Option<&'a Restoration>,
        configurations: &[Configuration],
        session: &Session<'_>,
    ) -> Result<Option<Self>, StageError> {
        let Some(request) = request else { return Ok(None) };
        let repair = Self::open(request, session)?;
        let settings = configurations.iter().map(|configuration| setting(session, configuration));
        let settings = settings.collect::<Result<Vec<_>, _>>()?;
        if let Some(first) =
            settings.first().filter(|_| !settings.iter().any(|setting| repair.is_for(setting)))
        {
            repair.check(first)?;
        }
        Ok(Some(repair))
    }

    pub(in crate::job::stages) fn open(
        request: &'a Restoration,
        session: &Session<'_>,
    ) -> Result<Self, StageError> {
        let heads = Heads::read(&request.heads)?;
        heads.about.check_model(
            &request.heads,
            &session.resolved.id,
            &session.fingerprint,
            session.checkpoint.config(),
        )?;
        heads.corrector(&request.heads, request.corrector)?;
        heads.detector(&request.heads)?;
        Ok(Self { request, heads })
    }

    pub(in crate::job::stages) fn is_for(&self, setting: &Setting) -> bool {
        self.heads.about.setting.is_like(setting)
    }

    /// Refuses a cache that the heads were not trained for.
    pub(in crate::job::stages) fn check(&self, setting: &Setting) -> Result<(), StageError> {
        Ok(self.heads.about.check_setting(&self.request.heads, setting)?)
    }

    pub(in crate::job::stages) fn restorer<B: DecoderBackend>(
        &'a self,
        readout: &'a Readout<B>,
    ) -> Result<Restorer<'a, B>, StageError> {
        let Restoration { heads, corrector, risk } = self.request;
        Ok(Restorer::new(&self.heads, heads, *corrector, *risk, readout)?)
    }

    /// What its rows are called.
    pub(in crate::job::stages) fn name(&self, configuration: &str) -> String {
        format!("{configuration} + {}", self.corrector())
    }

    /// The corrector that is used.
    pub(in crate::job::stages) fn corrector(&self) -> Corrector {
        self.request.corrector.unwrap_or(self.heads.about.corrector)
    }

    /// The risk from which on a step is corrected.
    pub(in crate::job::stages) fn risk(&self) -> f64 {
        self.request.risk.unwrap_or(self.heads.about.threshold.risk)
    }
}
