use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_yaml::{Mapping, Value};

use crate::quant::SchemeName;

use super::error::JobError;
use super::fields::{drop_empty, fill, job_template, join, space_template, unknown};
use super::search_space::{SearchSpace, default_scheme};
use super::spec::Job;

/// `calibration/quickstart.yaml` as committed: what `kvtune calibrate` runs where that file is not at hand.
pub const QUICKSTART: &str = include_str!("../../calibration/quickstart.yaml");

/// The search spaces that ship with kvtune, found under these names when no such file is there.
const SEARCH_SPACES: [(&str, &str); 4] = [
    ("search-spaces/kivi.yaml", include_str!("../../search-spaces/kivi.yaml")),
    ("search-spaces/kivi-1bit.yaml", include_str!("../../search-spaces/kivi-1bit.yaml")),
    ("search-spaces/per-token-asym.yaml", include_str!("../../search-spaces/per-token-asym.yaml")),
    ("search-spaces/key-bias-hadamard.yaml", include_str!("../../search-spaces/key-bias-hadamard.yaml")),
];

/// What the command line says over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Another model. It takes the default folder unless `out` is given too, so that no run of one model is
    /// written over that of another.
    pub model: Option<String>,
    /// Another folder.
    pub out: Option<PathBuf>,
    /// Seed of trace and search.
    pub seed: Option<u64>,
}

impl Job {
    /// The job of a file, checked, with every default filled in.
    ///
    /// # Errors
    /// [`JobError`] naming the file and the field.
    pub fn read(path: &Path, overrides: &Overrides) -> Result<Self, JobError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| JobError::Read { path: path.into(), source })?;
        Self::parse(path, &text, overrides)
    }

    /// The job of a text; `path` stands in messages, and other files are looked for beside it.
    ///
    /// # Errors
    /// [`JobError`] naming the field.
    pub fn parse(path: &Path, text: &str, overrides: &Overrides) -> Result<Self, JobError> {
        let mut fields = mapping(path, "job", text)?;
        if fields.contains_key("dgap") {
            return Err(JobError::Reserved { path: path.into(), field: "dgap" });
        }
        let space = fields.remove("search_space");
        refuse_unknown(path, &Value::Mapping(fields.clone()), &job_template(), "")?;
        let mut job: Self = typed(path, fields, "")?;
        job.search_space = space.map_or_else(|| Ok(SearchSpace::default()), |space| space_of(path, space))?;
        if let Some(text) = job.trace.path.take() {
            job.trace.path = Some(existing(path, "trace.path", &text)?);
        }
        for questions in job.answers.iter_mut().flat_map(|answers| &mut answers.tasks) {
            for (field, named) in questions.paths() {
                if let Some(text) = named.take() {
                    *named = Some(found(path, field, &text, Path::exists)?);
                }
            }
        }
        job.apply(overrides);
        job.check(path)?;
        Ok(job)
    }

    /// The job as YAML, nothing left to a default.
    ///
    /// # Errors
    /// Never for a job that was read; the serializer's own otherwise.
    pub fn to_yaml(&self) -> Result<String, serde_yaml::Error> {
        serde_yaml::to_string(self)
    }

    fn apply(&mut self, overrides: &Overrides) {
        if let Some(model) = overrides.model.clone().filter(|model| *model != self.model) {
            self.model = model;
            self.out = PathBuf::new();
        }
        if let Some(seed) = overrides.seed {
            self.trace.seed = seed;
            self.search.seed = seed;
            self.answers.iter_mut().for_each(|answers| answers.seed = seed);
        }
        if let Some(out) = overrides.out.clone() {
            self.out = out;
        }
        if self.out.as_os_str().is_empty() {
            self.out = self.default_out();
        }
    }

    /// The scheme's name as files spell it.
    pub fn scheme_slug(&self) -> &'static str {
        self.search_space.scheme.name.slug()
    }

    fn default_out(&self) -> PathBuf {
        Path::new("runs").join(model_slug(&self.model)).join(self.scheme_slug())
    }
}

/// A model's name as a folder: `Qwen/Qwen2.5-3B-Instruct@main` gives `qwen2.5-3b-instruct`.
pub fn model_slug(model: &str) -> String {
    let last = model.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or(model);
    let name = last.split('@').next().unwrap_or(last);
    let name = name.strip_suffix(".gguf").unwrap_or(name).to_lowercase();
    let plain = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let slug: String = name.chars().map(plain).collect();
    if slug.trim_matches('.').is_empty() { String::from("model") } else { slug }
}

impl SearchSpace {
    /// The search space of a text; `path` stands in messages.
    ///
    /// # Errors
    /// [`JobError`] naming the field.
    pub fn parse(path: &Path, text: &str) -> Result<Self, JobError> {
        space_from(path, mapping(path, "search space", text)?, "")
    }
}

/// An inline mapping, or the file that a path names.
fn space_of(path: &Path, space: Value) -> Result<SearchSpace, JobError> {
    let named = match space {
        Value::Mapping(fields) => return space_from(path, fields, "search_space"),
        Value::String(named) => named,
        other => {
            let found = serde_yaml::to_string(&other).unwrap_or_default();
            let message = format!("`{}` is neither the path of a file nor a mapping", found.trim());
            return Err(JobError::value(path, "search_space", message));
        }
    };
    match existing(path, "search_space", Path::new(&named)) {
        Ok(file) => {
            let text = std::fs::read_to_string(&file)
                .map_err(|source| JobError::Read { path: file.clone(), source })?;
            SearchSpace::parse(&file, &text)
        }
        Err(error) => match SEARCH_SPACES.iter().find(|(shipped, _)| *shipped == named) {
            Some((_, text)) => SearchSpace::parse(Path::new(&named), text),
            None => Err(error),
        },
    }
}

fn space_from(path: &Path, mut fields: Mapping, at: &str) -> Result<SearchSpace, JobError> {
    refuse_unknown(path, &Value::Mapping(fields.clone()), &space_template(), at)?;
    if let Some(scheme) = fields.get_mut("scheme") {
        // `scheme: kivi` is the family as it is.
        if scheme.is_string() {
            let name = std::mem::take(scheme);
            *scheme = Value::Mapping([(Value::from("name"), name)].into_iter().collect());
        }
        if let Value::Mapping(options) = scheme {
            fill_scheme(options);
        }
    }
    let space: SearchSpace = typed(path, fields, at)?;
    space.check(path, at)?;
    Ok(space)
}

/// The groups that a scheme leaves out are those of its family; a family nobody knows is left for typing to name.
fn fill_scheme(scheme: &mut Mapping) {
    let name = scheme.get("name").cloned().unwrap_or_else(|| Value::from("kivi"));
    let Ok(name) = serde_yaml::from_value::<SchemeName>(name) else { return };
    if let Ok(Value::Mapping(defaults)) = serde_yaml::to_value(default_scheme(name)) {
        fill(scheme, &defaults);
    }
}

fn mapping(path: &Path, what: &'static str, text: &str) -> Result<Mapping, JobError> {
    let syntax = |message: String| JobError::Syntax { path: path.into(), what, message };
    let mut value: Value = serde_yaml::from_str(text).map_err(|error| syntax(error.to_string()))?;
    drop_empty(&mut value);
    match value {
        Value::Null => Ok(Mapping::new()),
        Value::Mapping(fields) => Ok(fields),
        _ => Err(syntax(String::from("expected a mapping of fields"))),
    }
}

fn refuse_unknown(path: &Path, value: &Value, template: &Value, at: &str) -> Result<(), JobError> {
    match unknown(value, template, at) {
        Some((field, known)) => Err(JobError::Unknown { path: path.into(), field, known }),
        None => Ok(()),
    }
}

fn typed<T: DeserializeOwned>(path: &Path, fields: Mapping, at: &str) -> Result<T, JobError> {
    serde_path_to_error::deserialize(Value::Mapping(fields)).map_err(|error| {
        let inner = error.path().to_string();
        let field = join(at, inner.trim_matches('.'));
        JobError::value(path, field, error.into_inner().to_string())
    })
}

/// A path as the job means it: beside the job's file, else in the current directory.
fn existing(job: &Path, field: &'static str, named: &Path) -> Result<PathBuf, JobError> {
    found(job, field, named, Path::is_file)
}

/// The same for what need not be a file.
fn found(
    job: &Path,
    field: &'static str,
    named: &Path,
    is_there: fn(&Path) -> bool,
) -> Result<PathBuf, JobError> {
    let beside = job.parent().unwrap_or(Path::new("")).join(named);
    [beside, named.to_owned()].into_iter().find(|path| is_there(path)).ok_or_else(|| JobError::NotFound {
        path: job.into(),
        field,
        named: named.display().to_string(),
    })
}

#[cfg(test)]
mod tests;
