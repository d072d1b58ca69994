use std::path::{Path, PathBuf};

use burn_flex::Flex;
use kvtune::cache::Simulation;
use kvtune::model::{Checkpoint, Decoder};
use kvtune::quant::Scheme;
use serde_json::Value;

/// The names that reference files and model files go by.
pub(crate) const SMOLLM2: (&str, &str) = ("smollm2", "smollm2-135m.gguf");
pub(crate) const QWEN: (&str, &str) = ("qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b.gguf");

/// The decoder of a model file, or nothing and a word on stderr.
pub(crate) fn decoder(file: &str) -> Option<Decoder<Flex>> {
    let folder = match std::env::var_os("KVTUNE_TEST_MODELS") {
        Some(folder) => PathBuf::from(folder),
        None => cache_home()?.join("kvtune"),
    };
    let path = folder.join(file);
    if !path.is_file() {
        eprintln!("skipped: no `{}` (run scripts/fetch-test-models.sh)", path.display());
        return None;
    }
    Some(Decoder::load(&Checkpoint::open(&path).unwrap(), &Default::default()).unwrap())
}

fn cache_home() -> Option<PathBuf> {
    let set = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    set.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
}

/// A reference file, or nothing and a word on stderr.
pub(crate) fn golden(file: &str) -> Option<Value> {
    let folder = match std::env::var_os("KVTUNE_GOLDEN") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden"),
    };
    let path = folder.join(file);
    let Ok(bytes) = std::fs::read(&path) else {
        eprintln!("skipped: no `{}` (set KVTUNE_GOLDEN)", path.display());
        return None;
    };
    Some(serde_json::from_slice(&bytes).unwrap())
}

pub(crate) fn simulation(decoder: &Decoder<Flex>, scheme: &Scheme, len: usize) -> Simulation {
    let bias = |layer| decoder.rotated_key_bias(layer, len);
    Simulation::new(scheme, decoder.shape(), &decoder.config().sliding_window, bias).unwrap()
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}
