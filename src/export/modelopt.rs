use serde_json::{Map, Value, json};

use super::{Engine, Export, ExportError, Exporter};
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::quant::Scheme;

/// ModelOpt's `hf_quant_config.json` with a cache type per layer (schema 1).
pub(super) struct Modelopt;

const SCHEMA: u32 = 1;

impl Exporter for Modelopt {
    fn export(&self, map: &PrecisionMap, _: &Scheme) -> Result<Export, ExportError> {
        let unsaid: Vec<String> = map
            .pairs()
            .iter()
            .enumerate()
            .filter(|(_, pair)| algorithm(**pair).is_none())
            .map(|(layer, pair)| format!("{layer} {pair}"))
            .collect();
        if !unsaid.is_empty() {
            return Err(ExportError::Layers {
                engine: Engine::Modelopt,
                expected: "KV8 (FP8) or KV4 (NVFP4)",
                layers: unsaid.join(", "),
            });
        }
        let layers: Map<String, Value> = map
            .pairs()
            .iter()
            .enumerate()
            .map(|(layer, &pair)| {
                (format!("model.layers.{layer}.self_attn"), json!({"quant_algo": algorithm(pair)}))
            })
            .collect();
        let config = json!({
            "producer": {"name": "kvtune", "version": env!("CARGO_PKG_VERSION")},
            "quantization": {
                "kv_cache_quant_algo": "MIXED_PRECISION",
                "kv_cache_quantized_layers": layers,
                "kv_cache_schema_version": SCHEMA,
            },
        });
        Ok(Export {
            text: format!("{config:#}\n"),
            exact: vec![String::from("which layers have 8 bits and which 4")],
            lost: vec![
                String::from(
                    "its codes are floats, FP8 and NVFP4 (4.5 bits with scales), the map's are integers",
                ),
                String::from(
                    "vLLM's releases up to 0.33 do not read a cache type per layer (its pull request 56116 adds it)",
                ),
            ],
            approximation: None,
        })
    }
}

fn algorithm(pair: PrecisionPair) -> Option<&'static str> {
    match (pair.key.get(), pair.value.get()) {
        (8, 8) => Some("FP8"),
        (4, 4) => Some("NVFP4"),
        _ => None,
    }
}
