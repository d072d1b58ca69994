use super::super::search_space::Pairs;
use super::*;
use crate::quant::{Group, KeyBias, Scheme};
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
    assert!(hint.expect("a hint").starts_with("did you mean `search.max_bits`? the fields of `search` are"));
    let (message, _) = refused("search_space: {scheme: {keys: {}}}");
    assert_eq!(message, "`job.yaml` has an unknown field `search_space.scheme.keys`");
    let (message, _) = refused("3: 4");
    assert_eq!(message, "`job.yaml` has an unknown field `3`");
}

#[test]
fn a_scheme_is_named_or_spelled_out() {
    let named = parse("search_space: {scheme: per-token-asym, pairs: [KV4, KV2]}").expect("a job");
    assert_eq!(named.search_space.scheme, Scheme::per_token_asym());
    let spelled = parse("search_space: {scheme: {name: per-token-asym}, pairs: [KV4, KV2]}").expect("a job");
    assert_eq!(named, spelled);
    let (message, hint) = refused("search_space: {scheme: kiwi}");
    assert!(
        message.starts_with("`job.yaml`: field `search_space.scheme.name`: unknown variant `kiwi`"),
        "{message}"
    );
    assert_eq!(hint.as_deref(), Some("did you mean `kivi`?"));
}

#[test]
fn a_wrong_type_names_the_field() {
    let (message, _) = refused("trace: {documents: {search: many}}");
    assert_eq!(
        message,
        "`job.yaml`: field `trace.documents.search`: invalid type: string \"many\", expected usize"
    );
    let (message, hint) = refused("search: {algorithm: moed}");
    assert!(message.starts_with("`job.yaml`: field `search.algorithm`: unknown variant `moed`"), "{message}");
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
    let error = Job::read(&folder.path().join("job.yaml"), &Overrides::default()).expect_err("no such field");
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
    assert_eq!(Job::parse(Path::new("q.yaml"), QUICKSTART, &overrides).expect("a job").out, Path::new("x"));
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
