//! The one place that reads the environment.

use std::env;
use std::path::{Path, PathBuf};

use crate::model::{Hub, Registry};

/// Threads to work on, unless `--threads` is given.
pub(super) const THREADS: &str = "KVTUNE_THREADS";
/// Folder of the models that kvtune itself fetched.
pub(super) const CACHE: &str = "KVTUNE_CACHE";

/// Where models are found, as the user's other tools are set up (hub variables in the order of hf-hub's own tools).
pub fn registry(offline: bool) -> Registry {
    Registry { cache: cache(), hub: hub(), offline: offline || flag("HF_HUB_OFFLINE") }
}

/// Whether the environment forbids color, or the terminal has none.
pub(super) fn forbids_color() -> bool {
    text("NO_COLOR").is_some() || env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Whether the environment asks for color even where there is no terminal.
pub(super) fn forces_color() -> bool {
    text("CLICOLOR_FORCE").is_some_and(|value| value != "0")
}

/// The command line, as far as it is text.
pub(super) fn command_line() -> String {
    let words = env::args_os().map(|word| word.to_string_lossy().into_owned());
    std::iter::once(String::from("kvtune")).chain(words.skip(1)).collect::<Vec<_>>().join(" ")
}

fn cache() -> PathBuf {
    path(CACHE).unwrap_or_else(|| user_cache().join("kvtune"))
}

fn user_cache() -> PathBuf {
    path("XDG_CACHE_HOME").unwrap_or_else(|| home().join(".cache"))
}

fn home() -> PathBuf {
    env::home_dir().unwrap_or_else(|| PathBuf::from("."))
}

fn hub() -> Hub {
    let home = path("HF_HOME").unwrap_or_else(|| user_cache().join("huggingface"));
    Hub {
        cache: path("HF_HUB_CACHE")
            .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
            .unwrap_or_else(|| home.join("hub")),
        token: token(&home),
        endpoint: text("HF_ENDPOINT").unwrap_or_else(|| String::from("https://huggingface.co")),
    }
}

/// From the variable, else the file that a login leaves; never printed anywhere.
fn token(home: &Path) -> Option<String> {
    if flag("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
        return None;
    }
    text("HF_TOKEN").or_else(|| {
        let file = path("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"));
        let token = std::fs::read_to_string(file).ok()?.trim().to_owned();
        (!token.is_empty()).then_some(token)
    })
}

fn path(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn text(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn flag(name: &str) -> bool {
    text(name).is_some_and(|value| ["1", "on", "yes", "true"].contains(&value.to_lowercase().as_str()))
}
