use serde_json::{Value, json};

use super::{Engine, Export, ExportError, Exporter};
use crate::precision::PrecisionMap;
use crate::quant::{Axis, Codebook, Group, KeyBias, Metadata, OneBit, Prefill, Scheme, TensorSpec, Zero};

/// A cache class for transformers, with the map inside it: one Python file that needs torch and transformers.
pub(super) struct Hf;

const CLASS: &str = include_str!("kvtune_cache.py");

/// The lines of the class that hold the map and the scheme.
const MAP: &str = "PAIRS = [(4, 4), (4, 2)]";
const SCHEME: &str = "SCHEME = {}";

impl Exporter for Hf {
    fn export(&self, map: &PrecisionMap, scheme: &Scheme) -> Result<Export, ExportError> {
        for (there, option) in [
            (scheme.codebook != Codebook::Uniform, "codebook: lloyd-max"),
            (scheme.key_bias != KeyBias::Keep, "key_bias: subtract"),
        ] {
            if there {
                return Err(ExportError::Option { engine: Engine::Hf, option });
            }
        }
        let pairs: Vec<String> =
            map.pairs().iter().map(|pair| format!("({}, {})", pair.key, pair.value)).collect();
        let text = CLASS
            .replace(MAP, &format!("PAIRS = [{}]", pairs.join(", ")))
            .replace(SCHEME, &format!("SCHEME = {}", python(&options(scheme))));
        let exact = vec![String::from("widths, groups, residual, codec and what prompts read")];
        Ok(Export { text, exact, lost: Vec::new(), approximation: None })
    }
}

fn options(scheme: &Scheme) -> Value {
    json!({
        "key": side(scheme.key),
        "value": side(scheme.value),
        "zero": if scheme.zero == Zero::Rounded { "rounded" } else { "float" },
        "metadata": if scheme.metadata == Metadata::F16 { "f16" } else { "f32" },
        "one_bit": if scheme.one_bit == OneBit::Rtn { "rtn" } else { "two-level" },
        "prefill": if scheme.prefill == Prefill::Exact { "exact" } else { "dequantized" },
        "sinks": scheme.sinks,
        "hadamard": scheme.hadamard,
    })
}

fn side(spec: TensorSpec) -> Value {
    let group = match spec.group {
        Group::Head => Value::Null,
        Group::Size(size) => json!(size),
    };
    let axis = if spec.axis == Axis::Channel { "channel" } else { "token" };
    json!({"axis": axis, "group": group, "residual": spec.residual})
}

/// JSON as Python's literals; none of our texts holds one of the three words.
fn python(value: &Value) -> String {
    value.to_string().replace("null", "None").replace("true", "True").replace("false", "False")
}
