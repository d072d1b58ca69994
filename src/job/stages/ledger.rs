//! Which stages of a folder are done, and from what: what makes a run go on where it stopped.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::session::Session;
use super::{Stage, StageError};
use crate::job::{AnswersSpec, Job, Overrides};
use crate::report::{FileError, ModelRecord, RunRecord, StageRecord, utc, write_text};

/// Tokens in the cache that costs are stated for, unless a limit names others.
const CONTEXT: usize = 4096;

/// `run.yaml` and `job.yaml` of a job's folder.
pub(super) struct Ledger {
    record: RunRecord,
}

impl Ledger {
    /// Reads what is there, refuses a folder of another job, and writes the job.
    ///
    /// # Errors
    /// [`StageError::Unmet`] naming the first field that differs, unless files may be replaced.
    pub(super) fn open(session: &Session<'_>) -> Result<Self, StageError> {
        let (job_path, run_path) = (session.file("job.yaml"), session.file("run.yaml"));
        let fresh = fresh(session);
        let record = match (job_path.exists(), run_path.exists()) {
            (true, true) => {
                let record = RunRecord::read(&run_path).map_err(|error| start_over(&run_path, &error))?;
                // Where nothing was finished there is nothing to lose.
                if !session.context.force && !record.stages.is_empty() {
                    refuse_other(session, &job_path, &record)?;
                }
                RunRecord { stages: record.stages, ..fresh }
            }
            _ => fresh,
        };
        let yaml = session.job.to_yaml().map_err(|error| FileError::Content {
            path: job_path.clone(),
            place: String::new(),
            message: error.to_string(),
        })?;
        write_text(&job_path, &yaml)?;
        let ledger = Self { record };
        ledger.record.write(&run_path)?;
        Ok(ledger)
    }

    /// Tokens in the cache that costs are stated for.
    pub(super) fn context(&self) -> usize {
        self.record.context
    }

    /// Sequences that cache bytes are stated for.
    pub(super) fn batch(&self) -> usize {
        self.record.batch
    }

    /// Whether a stage ran to its end on the very inputs that it would have now, and its files are still there.
    ///
    /// # Errors
    /// A file that is there, but not as the stage left it.
    pub(super) fn is_done(&self, session: &Session<'_>, stage: Stage) -> Result<bool, StageError> {
        let key = key(session, stage);
        let recorded = self.record.stages.iter().find(|record| record.stage == stage.name());
        let Some(record) = recorded.filter(|record| record.key == key) else { return Ok(false) };
        let files = stage.files(session.job);
        if !files.iter().all(|file| session.file(file).exists()) {
            return Ok(false);
        }
        for file in files {
            let path = session.file(file);
            if record.files.get(*file) != Some(&digest(&path)?) && !session.context.force {
                return Err(changed(&path, stage));
            }
        }
        Ok(true)
    }

    /// Notes that a stage ran to its end.
    pub(super) fn finish(
        &mut self,
        session: &Session<'_>,
        stage: Stage,
        started: SystemTime,
    ) -> Result<(), StageError> {
        let record = StageRecord {
            stage: stage.name().to_owned(),
            key: key(session, stage),
            started: utc(started),
            elapsed_s: started.elapsed().map_or(0.0, |elapsed| (elapsed.as_secs_f64() * 10.0).round() / 10.0),
            threads: session.context.threads,
            files: digests(session, stage)?,
        };
        self.record.stages.retain(|known| known.stage != record.stage);
        self.record.stages.push(record);
        Ok(self.record.write(&session.file("run.yaml"))?)
    }
}

fn digests(session: &Session<'_>, stage: Stage) -> Result<BTreeMap<String, String>, StageError> {
    stage.files(session.job).iter().map(|&file| Ok((file.to_owned(), digest(&session.file(file))?))).collect()
}

fn digest(path: &Path) -> Result<String, FileError> {
    let read = |source| FileError::Read { path: path.to_owned(), source };
    Ok(hex(&Sha256::digest(std::fs::read(path).map_err(read)?)))
}

fn changed(path: &Path, stage: Stage) -> StageError {
    let path = path.display();
    StageError::Unmet {
        message: format!("`{path}` is not as `kvtune {}` left it: damaged, or edited by hand", stage.name()),
        hint: Some(format!("remove `{path}`, and the same command makes it anew")),
    }
}

/// A file that only spares work.
pub(super) fn start_over(path: &Path, error: &FileError) -> StageError {
    let hint = format!("remove `{}`, and the same command goes on without it", path.display());
    StageError::Unmet { message: error.to_string(), hint: Some(hint) }
}

fn fresh(session: &Session<'_>) -> RunRecord {
    let spec = &session.job.search;
    let context = spec.max_cache.map(|limit| limit.context);
    let context = context.or(spec.max_storage_bits.map(|limit| limit.context)).unwrap_or(CONTEXT);
    RunRecord {
        format: RunRecord::FORMAT,
        model: ModelRecord {
            id: session.resolved.id.clone(),
            sha256: session.fingerprint.clone(),
            layers: session.n_layers(),
        },
        seed: spec.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: session.context.command.clone(),
        context,
        batch: spec.max_cache.map_or(1, |limit| limit.batch),
        stages: Vec::new(),
    }
}

/// A folder holds one job: its files would no longer say what they come from.
fn refuse_other(session: &Session<'_>, path: &Path, record: &RunRecord) -> Result<(), StageError> {
    let differs = |what: String| StageError::Unmet {
        message: format!("`{}` holds another run: {what}", session.job.out.display()),
        hint: Some("use another `--out`, or `--force` to redo what differs".into()),
    };
    if record.model.sha256 != session.fingerprint {
        return Err(differs(format!(
            "its model is {}, this one is {}",
            record.model.sha256, session.fingerprint
        )));
    }
    let theirs = Job::read(path, &Overrides::default())
        .map_err(|error| differs(format!("its job cannot be read: {error}")))?;
    match first_difference(&theirs, session.job) {
        Some(what) => Err(differs(what)),
        None => Ok(()),
    }
}

/// The first field in which two jobs differ, with both values.
fn first_difference(theirs: &Job, ours: &Job) -> Option<String> {
    let value = |job: &Job| {
        let answers = job.answers.as_ref().map(decisive);
        serde_yaml::to_value(Job { answers, ..job.clone() }).unwrap_or_default()
    };
    difference(&value(theirs), &value(ours), "")
}

/// All that answers depend on: how many go side by side changes none.
fn decisive(answers: &AnswersSpec) -> AnswersSpec {
    AnswersSpec { lanes: AnswersSpec::default().lanes, ..answers.clone() }
}

fn difference(theirs: &serde_yaml::Value, ours: &serde_yaml::Value, path: &str) -> Option<String> {
    use serde_yaml::Value;
    if let (Value::Mapping(theirs), Value::Mapping(ours)) = (theirs, ours) {
        let keys = theirs.keys().chain(ours.keys().filter(|key| !theirs.contains_key(*key)));
        let null = Value::Null;
        return keys.filter(|key| key.as_str() != Some("out")).find_map(|key| {
            let path = format!("{path}.{}", key.as_str().unwrap_or_default());
            difference(theirs.get(key).unwrap_or(&null), ours.get(key).unwrap_or(&null), &path)
        });
    }
    let print = |value| serde_yaml::to_string(value).unwrap_or_default().trim().to_owned();
    let text =
        || format!("`{}` is {} there, {} here", path.trim_start_matches('.'), print(theirs), print(ours));
    (theirs != ours).then(text)
}

/// Content of everything a stage's result depends on.
fn key(session: &Session<'_>, stage: Stage) -> String {
    let job = session.job;
    let mut hash = Sha256::new();
    let mut add = |text: &str| hash.update([text.as_bytes(), b"\0"].concat());
    add(&session.fingerprint);
    add(&numerics());
    add(&yaml(&job.trace));
    let space = &job.search_space;
    if stage >= Stage::Sensitivity {
        add(&yaml(&(&space.scheme, &space.pairs, &space.sensitivity)));
    }
    if stage >= Stage::Space {
        add(&yaml(&(&space.prune, &space.cluster)));
    }
    if stage >= Stage::Search {
        add(&yaml(&job.search));
        if let Some(answers) = &job.answers {
            add(&yaml(&decisive(answers)));
        }
    }
    hex(&hash.finalize())
}

fn yaml(value: &impl Serialize) -> String {
    // Parts of a job, which was read from YAML, can be written to it.
    serde_yaml::to_string(value).unwrap_or_default()
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the last bits of a result depend on besides the inputs: version, processor family, vector width.
pub(super) fn numerics() -> String {
    format!("{} {} {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH, vector_width())
}

#[cfg(target_arch = "x86_64")]
fn vector_width() -> &'static str {
    match () {
        () if std::arch::is_x86_feature_detected!("avx512f") => "avx512",
        () if std::arch::is_x86_feature_detected!("avx2") => "avx2",
        () => "sse2",
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn vector_width() -> &'static str {
    "native"
}
