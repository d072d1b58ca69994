//! Models of the Hugging Face hub, in the cache that other tools share.

use std::path::{Path, PathBuf};

use hf_hub::api::sync::{ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};
use serde_json::Value;

use super::{Hub, Resolved};
use crate::model::ModelError;
use crate::progress::Observer;

/// `org/name[@revision]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Id {
    repository: String,
    revision: String,
}

const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";

/// Fetched where the repository has them.
const SMALL_FILES: [&str; 5] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
];

impl Id {
    /// Reads an id; `None` where it is none, or would reach out of the cache.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (repository, revision) = text.split_once('@').unwrap_or((text, "main"));
        let (organization, name) = repository.split_once('/')?;
        let part = |part: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            !part.is_empty() && !part.starts_with('.') && part.chars().all(allowed)
        };
        let valid = part(organization) && part(name) && revision.split('/').all(part);
        valid.then(|| Self { repository: repository.into(), revision: revision.into() })
    }

    fn at(&self, revision: &str) -> Repo {
        Repo::with_revision(self.repository.clone(), RepoType::Model, revision.into())
    }
}

/// The snapshot of a repository: from the cache without touching the network, else downloaded.
pub(super) fn resolve(
    id: &Id,
    hub: &Hub,
    offline: bool,
    observer: &dyn Observer,
) -> Result<Resolved, ModelError> {
    let snapshot = match cached(id, hub) {
        Some(snapshot) => snapshot,
        None if offline => {
            return Err(ModelError::Offline { model: id.repository.clone(), cache: hub.cache.clone() });
        }
        None => download(id, hub, observer)?,
    };
    let commit = snapshot.file_name().unwrap_or_default().to_string_lossy();
    Ok(Resolved { id: format!("{}@{commit}", id.repository), path: snapshot })
}

/// A snapshot of which nothing is missing.
fn cached(id: &Id, hub: &Hub) -> Option<PathBuf> {
    let repository = Cache::new(hub.cache.clone()).repo(id.at(&id.revision));
    // A revision may be a branch, which `refs` resolves, or the commit itself.
    let by_branch = repository.get("config.json").and_then(|config| config.parent().map(Path::to_path_buf));
    let by_commit = || Some(repository.pointer_path(&id.revision)).filter(|folder| folder.is_dir());
    by_branch.or_else(by_commit).filter(|folder| is_complete(folder))
}

fn is_complete(snapshot: &Path) -> bool {
    let there = |file: &str| snapshot.join(file).is_file();
    let weights = there(SINGLE)
        || std::fs::read(snapshot.join(INDEX))
            .ok()
            .and_then(|index| shards(&index))
            .is_some_and(|shards| shards.iter().all(|shard| there(shard)));
    weights && there("config.json") && there("tokenizer.json")
}

/// Files that an index lists, each once; `None` where it is no index or lists a file elsewhere.
fn shards(index: &[u8]) -> Option<Vec<String>> {
    let index: Value = serde_json::from_slice(index).ok()?;
    let files = index.get("weight_map")?.as_object()?.values().map(|file| file.as_str().map(str::to_owned));
    let mut files = files.collect::<Option<Vec<_>>>()?;
    files.sort_unstable();
    files.dedup();
    let inside = |file: &String| Path::new(file).file_name().is_some_and(|name| name == file.as_str());
    files.iter().all(inside).then_some(files)
}

fn download(id: &Id, hub: &Hub, observer: &dyn Observer) -> Result<PathBuf, ModelError> {
    let failed = |error: ApiError| ModelError::Fetch {
        model: id.repository.clone(),
        why: format!("{error} (revision `{}` at {})", id.revision, hub.endpoint),
    };
    let cache = Cache::new(hub.cache.clone());
    let api = ApiBuilder::from_cache(cache.clone())
        .with_token(hub.token.clone())
        .with_endpoint(hub.endpoint.clone())
        .with_progress(false)
        .with_retries(3)
        .build()
        .map_err(failed)?;
    let info = api.repo(id.at(&id.revision)).info().map_err(failed)?;
    // All files of one commit, whatever is pushed meanwhile.
    let fetch = Fetch { id, repository: api.repo(id.at(&info.sha)), observer };
    let listed = |file: &str| info.siblings.iter().any(|sibling| sibling.rfilename == file);
    for file in SMALL_FILES.into_iter().filter(|file| listed(file)) {
        fetch.file(file)?;
    }
    let weights = if listed(SINGLE) {
        fetch.file(SINGLE)?
    } else if listed(INDEX) {
        fetch.shards()?
    } else {
        return Err(fetch.failed(format!("the repository has neither {SINGLE} nor {INDEX}")));
    };
    let written = cache.repo(id.at(&id.revision)).create_ref(&info.sha);
    written.map_err(|source| ModelError::Write { path: hub.cache.clone(), source })?;
    let snapshot = weights.parent().map(Path::to_path_buf);
    snapshot.ok_or_else(|| fetch.failed("the downloaded file has no folder"))
}

/// Downloads of one repository at one commit.
struct Fetch<'a> {
    id: &'a Id,
    repository: ApiRepo,
    observer: &'a dyn Observer,
}

impl Fetch<'_> {
    fn file(&self, file: &str) -> Result<PathBuf, ModelError> {
        if self.observer.interrupted() {
            return Err(ModelError::Interrupted { model: self.id.repository.clone() });
        }
        let progress = Told(self.observer);
        self.repository
            .download_with_progress(file, progress)
            .map_err(|error| self.failed(format!("`{file}`: {error}")))
    }

    fn shards(&self) -> Result<PathBuf, ModelError> {
        let path = self.file(INDEX)?;
        let index = std::fs::read(&path).map_err(ModelError::read(&path))?;
        let wrong =
            || ModelError::file(&path, "lists no shards beside it", "a `weight_map` of plain file names");
        for shard in shards(&index).ok_or_else(wrong)? {
            self.file(&shard)?;
        }
        Ok(path)
    }

    fn failed(&self, why: impl Into<String>) -> ModelError {
        ModelError::Fetch { model: self.id.repository.clone(), why: why.into() }
    }
}

/// Passes the hub client's progress on.
struct Told<'a>(&'a dyn Observer);

impl hf_hub::api::Progress for Told<'_> {
    fn init(&mut self, size: usize, filename: &str) {
        self.0.begin(&format!("downloading {filename}"), size as u64, "B");
    }

    fn update(&mut self, size: usize) {
        self.0.advance(size as u64);
    }

    fn finish(&mut self) {}
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::progress::Silent;

    #[test]
    fn ids_have_two_parts_and_perhaps_a_revision() {
        let id = Id::parse("Qwen/Qwen2.5-0.5B@refs/pr/1").expect("an id");
        assert_eq!((id.repository.as_str(), id.revision.as_str()), ("Qwen/Qwen2.5-0.5B", "refs/pr/1"));
        assert_eq!(Id::parse("a/b").expect("an id").revision, "main");
        for wrong in ["name", "a/b/c", "../b", "a/..", "a/b@../../x", "a/b@", "a b/c", "/a/b", ""] {
            assert_eq!(Id::parse(wrong), None, "{wrong}");
        }
    }

    /// A cache with one snapshot of `org/name` at commit `c0ffee`, branch `main`, holding `files`.
    fn cache_with(files: &[(&str, &str)]) -> (tempfile::TempDir, Hub) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("models--org--name");
        let snapshot = root.join("snapshots/c0ffee");
        fs::create_dir_all(&snapshot).expect("a snapshot");
        fs::create_dir_all(root.join("refs")).expect("refs");
        fs::write(root.join("refs/main"), "c0ffee").expect("a ref");
        for (name, content) in files {
            fs::write(snapshot.join(name), content).expect("a file");
        }
        let hub = Hub { cache: folder.path().into(), token: None, endpoint: "http://[::1]:9".into() };
        (folder, hub)
    }

    fn resolve_offline(id: &str, hub: &Hub) -> Result<Resolved, ModelError> {
        resolve(&Id::parse(id).expect("an id"), hub, true, &Silent)
    }

    #[test]
    fn a_whole_snapshot_is_found_by_branch_and_by_commit() {
        let (_folder, hub) = cache_with(&[("config.json", ""), ("tokenizer.json", ""), (SINGLE, "")]);
        for id in ["org/name", "org/name@c0ffee"] {
            let found = resolve_offline(id, &hub).expect("cached");
            assert_eq!(found.id, "org/name@c0ffee");
            assert!(found.path.ends_with("models--org--name/snapshots/c0ffee"));
        }
    }

    #[test]
    fn a_snapshot_that_lacks_a_shard_is_not_taken() {
        let index = r#"{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}"#;
        let files = [("config.json", ""), ("tokenizer.json", ""), (INDEX, index), ("1.safetensors", "")];
        let (_folder, hub) = cache_with(&files);
        let error = resolve_offline("org/name", &hub).expect_err("a shard is missing");
        assert!(matches!(error, ModelError::Offline { .. }));
        let (_folder, hub) = cache_with(&[files.as_slice(), &[("2.safetensors", "")]].concat());
        resolve_offline("org/name", &hub).expect("all shards are there");
    }

    #[test]
    fn an_index_cannot_reach_out_of_its_folder() {
        assert_eq!(shards(br#"{"weight_map": {"a": "../1.safetensors"}}"#), None);
        assert_eq!(shards(br#"{"weight_map": {"a": 1}}"#), None);
        assert_eq!(shards(br#"{"weight_map": {"b": "1", "a": "1"}}"#), Some(vec!["1".into()]));
    }

    #[test]
    fn a_hub_that_does_not_answer_is_named() {
        let (_folder, hub) = cache_with(&[]);
        let error =
            resolve(&Id::parse("org/name").expect("an id"), &hub, false, &Silent).expect_err("nobody there");
        let message = error.to_string();
        assert!(
            message.contains("cannot fetch `org/name`") && message.contains("http://[::1]:9"),
            "{message}"
        );
    }
}
