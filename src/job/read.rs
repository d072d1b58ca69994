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
    if let Some(Value::Mapping(scheme)) = fields.get_mut("scheme") {
        fill_scheme(scheme);
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
mod tests {
    use super::super::search_space::Pairs;
    use super::*;
    use crate::quant::{Group, KeyBias};
    use crate::score::Objective;
    use crate::search::Algorithm;
    use crate::space::Noise;

    fn parse(text: &str) -> Result<Job, JobError> {
        Job::parse(Path::new("job.yaml"), text, &Overrides::default())
    }

    fn refused(text: &str) -> (String, Option<String>) {
        let error = parse(text).expect_err("a wrong job");
        (error.to_string(), error.hint())
    }

    #[test]
    fn an_empty_job_is_all_defaults() {
        let job = parse("").expect("a job");
        assert_eq!(job, Job { out: PathBuf::from("runs/smollm2-135m/kivi"), ..Job::default() });
        assert_eq!(parse("trace:\nsearch:\n").expect("a job"), job);
    }

    #[test]
    fn the_committed_kivi_space_is_the_default() {
        let job = parse("search_space: search-spaces/kivi.yaml").expect("a job");
        assert_eq!(job.search_space, SearchSpace::default());
    }

    #[test]
    fn every_shipped_file_is_valid() {
        for (name, text) in SEARCH_SPACES {
            SearchSpace::parse(Path::new(name), text).expect(name);
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("calibration");
        let jobs: Vec<_> =
            std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("a file").path()).collect();
        assert!(jobs.len() >= 4, "{jobs:?}");
        for job in jobs {
            Job::read(&job, &Overrides::default()).expect("a job");
        }
    }

    #[test]
    fn no_search_space_file_is_left_out_of_the_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("search-spaces");
        assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), SEARCH_SPACES.len());
    }

    #[test]
    fn a_job_reads_back_from_what_it_writes() {
        let full = "{model: m, search_space: {scheme: {name: per-token-asym, key_bias: subtract}, pairs: [KV8, K4V2], \
                    cluster: {groups: 4..8, noise: nearest}}, search: {algorithm: key-first, objective: kl, \
                    max_bits: 3.5, max_cache: {context: 4096, bytes: 512MiB}, max_storage_bits: {context: 9, bits: 4}, \
                    seed_table: e_o}, out: there}";
        for text in ["", QUICKSTART, full] {
            let job = parse(text).expect("a job");
            assert_eq!(parse(&job.to_yaml().expect("YAML")).expect("a job"), job, "{text}");
        }
    }

    #[test]
    fn every_field_is_read() {
        let job = parse(
            "{search_space: {scheme: {name: kivi, key: {group: 64, residual: 64}, key_bias: subtract}, \
             pairs: {key: [8], value: [4]}, cluster: {noise: singleton}}, search: {algorithm: nsga2, objective: nll}}",
        )
        .expect("a job");
        assert_eq!(job.search_space.scheme.key.group, Group::Size(64));
        assert_eq!(job.search_space.scheme.value.group, Group::Size(32));
        assert_eq!(job.search_space.scheme.key_bias, KeyBias::Subtract);
        assert_eq!(job.search_space.cluster.noise, Noise::Singleton);
        assert!(matches!(job.search_space.pairs, Pairs::Sides { .. }));
        assert_eq!((job.search.algorithm, job.search.objective), (Algorithm::Nsga2, Objective::Nll));
    }

    #[test]
    fn an_unknown_field_is_answered_with_the_nearest_name() {
        let (message, hint) = refused("search: {max_bit: 4}");
        assert_eq!(message, "`job.yaml` has an unknown field `search.max_bit`");
        assert!(
            hint.expect("a hint").starts_with("did you mean `search.max_bits`? the fields of `search` are")
        );
        let (message, _) = refused("search_space: {scheme: {keys: {}}}");
        assert_eq!(message, "`job.yaml` has an unknown field `search_space.scheme.keys`");
        let (message, _) = refused("3: 4");
        assert_eq!(message, "`job.yaml` has an unknown field `3`");
    }

    #[test]
    fn a_wrong_type_names_the_field() {
        let (message, _) = refused("trace: {documents: {search: many}}");
        assert_eq!(
            message,
            "`job.yaml`: field `trace.documents.search`: invalid type: string \"many\", expected usize"
        );
        let (message, hint) = refused("search: {algorithm: moed}");
        assert!(
            message.starts_with("`job.yaml`: field `search.algorithm`: unknown variant `moed`"),
            "{message}"
        );
        assert_eq!(hint.as_deref(), Some("did you mean `moead`?"));
        assert!(refused("search_space: 4").0.contains("`4` is neither the path of a file nor a mapping"));
        assert!(refused("[1, 2]").0.contains("is not a job: expected a mapping"));
        assert!(refused("a: [").0.starts_with("`job.yaml` is not a job: "));
        assert!(refused("out: a\nout: b").0.contains("duplicate"));
    }

    #[test]
    fn a_pair_or_group_that_does_not_exist_names_the_field() {
        let (message, _) = refused("search_space: {pairs: [KV8, K9V4]}");
        assert!(message.starts_with("`job.yaml`: field `search_space.pairs"), "{message}");
        assert!(message.contains("`K9V4` is not a precision pair"), "{message}");
        let (message, _) = refused("search_space: {scheme: {name: kivi, key: {group: 0}}}");
        assert_eq!(
            message,
            "`job.yaml`: field `search_space.scheme.key.group`: group size 0, expected 1 or more"
        );
        let (message, _) = refused("search_space: {pairs: {key: [7], value: [4]}}");
        assert!(message.contains("`7` is not a bit width"), "{message}");
    }

    #[test]
    fn what_a_later_version_does_is_refused() {
        let (message, _) = refused("dgap: {pairs: [KV1], top_k: 32}");
        assert_eq!(message, "`job.yaml` asks for `dgap`, which this version of kvtune does not do");
    }

    #[test]
    fn a_missing_search_space_says_where_it_was_looked_for() {
        let (message, _) = refused("search_space: search-spaces/nothing.yaml");
        assert_eq!(
            message,
            "`job.yaml`: field `search_space` names `search-spaces/nothing.yaml`, which is neither beside the file \
             nor in the current directory"
        );
    }

    #[test]
    fn files_beside_the_job_come_first() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("space.yaml"), "pairs: [KV4]").expect("written");
        std::fs::write(folder.path().join("job.yaml"), "search_space: space.yaml").expect("written");
        let job = Job::read(&folder.path().join("job.yaml"), &Overrides::default()).expect("a job");
        assert_eq!(job.search_space.pairs.expand().len(), 1);
        std::fs::write(folder.path().join("space.yaml"), "pair: [KV4]").expect("written");
        let error =
            Job::read(&folder.path().join("job.yaml"), &Overrides::default()).expect_err("no such field");
        assert!(error.to_string().contains("space.yaml` has an unknown field `pair`"), "{error}");
    }

    #[test]
    fn another_model_goes_to_its_own_folder() {
        let model = Some(String::from("Qwen/Qwen2.5-3B@main"));
        let overrides = Overrides { model, seed: Some(7), out: None };
        let job = Job::parse(Path::new("q.yaml"), QUICKSTART, &overrides).expect("a job");
        assert_eq!(job.out, Path::new("runs/qwen2.5-3b/kivi"));
        assert_eq!((job.trace.seed, job.search.seed), (7, 7));
        let overrides = Overrides { out: Some(PathBuf::from("x")), ..overrides };
        assert_eq!(
            Job::parse(Path::new("q.yaml"), QUICKSTART, &overrides).expect("a job").out,
            Path::new("x")
        );
    }

    #[test]
    fn a_slug_is_a_plain_folder_name() {
        let cases = [
            ("smollm2-135m", "smollm2-135m"),
            ("./models/My Model/", "my-model"),
            ("a/b/Llama-3.Q4.gguf", "llama-3.q4"),
            ("..", "model"),
            ("", "model"),
        ];
        for (model, slug) in cases {
            assert_eq!(model_slug(model), slug);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(text in "\\PC{0,80}") {
            let _ = parse(&text);
        }
    }
}
