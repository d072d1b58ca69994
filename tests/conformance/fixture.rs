use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::backend::Autodiff;
use burn_flex::Flex;
use kvtune::cache::Simulation;
use kvtune::model::{Checkpoint, Decoder};
use kvtune::quant::{
    Axis, Codebook, Group, KeyBias, Metadata, OneBit, Prefill, Scheme, SchemeName, TensorSpec, Zero,
};
use serde_json::Value;

/// One folder: a model and what is expected of it.
pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) checkpoint: Arc<Checkpoint>,
    pub(crate) decoder: Decoder<Flex>,
    /// The same model through plain burn operations: a second f32 program that rounds elsewhere.
    pub(crate) plain: Decoder<Autodiff<Flex>>,
    pub(crate) expected: Value,
    pub(crate) sensitivity: Value,
    pub(crate) ids: Vec<u32>,
}

/// Every model folder, or none and a word on stderr.
pub(crate) fn all() -> Vec<Fixture> {
    let root = match std::env::var_os("KVTUNE_CONFORMANCE") {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance"),
    };
    let Ok(entries) = std::fs::read_dir(&root) else {
        eprintln!("skipped: no conformance models at `{}` (set KVTUNE_CONFORMANCE)", root.display());
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("config.json").is_file())
        .collect();
    folders.sort();
    folders.iter().map(|folder| load(folder)).collect()
}

fn load(folder: &Path) -> Fixture {
    let json =
        |file: &str| -> Value { serde_json::from_slice(&std::fs::read(folder.join(file)).unwrap()).unwrap() };
    let expected = json("expected.json");
    let checkpoint = Arc::new(Checkpoint::open(folder).unwrap());
    Fixture {
        name: folder.file_name().unwrap().to_string_lossy().into_owned(),
        decoder: Decoder::load(&checkpoint, &Default::default()).unwrap(),
        plain: Decoder::load(&checkpoint, &Default::default()).unwrap(),
        checkpoint,
        sensitivity: json("sensitivity.json"),
        ids: numbers(&expected["input_ids"]).iter().map(|&id| id as u32).collect(),
        expected,
    }
}

impl Fixture {
    pub(crate) fn simulation(&self, scheme: &Scheme) -> Simulation {
        kvtune::score::simulation(&self.decoder, scheme, self.ids.len()).unwrap()
    }
}

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// A scheme as the reference spells it, with its options.
pub(crate) fn scheme(spelled: &Value, options: &Value) -> Scheme {
    let word = |key: &str| options[key].as_str();
    Scheme {
        name: if spelled["k"]["axis"] == "token_groups" {
            SchemeName::Kivi
        } else {
            SchemeName::PerTokenAsym
        },
        key: spec(&spelled["k"]),
        value: spec(&spelled["v"]),
        zero: if word("zero") == Some("rounded") { Zero::Rounded } else { Zero::Float },
        metadata: if word("meta") == Some("f16") { Metadata::F16 } else { Metadata::F32 },
        one_bit: if word("one_bit") == Some("rtn") { OneBit::Rtn } else { OneBit::TwoLevel },
        codebook: Codebook::Uniform,
        sinks: options["sinks"].as_u64().unwrap_or(0) as usize,
        hadamard: options["hadamard"].as_bool().unwrap_or(false),
        key_bias: if word("key_bias") == Some("subtract") { KeyBias::Subtract } else { KeyBias::Keep },
        prefill: if word("prefill") == Some("exact") { Prefill::Exact } else { Prefill::Dequantized },
    }
}

fn spec(spelled: &Value) -> TensorSpec {
    TensorSpec {
        axis: if spelled["axis"] == "token_groups" { Axis::Channel } else { Axis::Token },
        group: spelled["group"].as_u64().map_or(Group::Head, |size| Group::Size(size as usize)),
        residual: spelled["residual"].as_u64().unwrap() as usize,
    }
}
