use super::uniform::{Setting, approximated, nearest, pair};
use super::{Export, ExportError, Exporter};
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::quant::Scheme;

/// vLLM's command line: one type for all layers but those that are skipped, which keep the model's type.
pub(super) struct Vllm;

const SETTINGS: [Setting; 6] = [
    ("fp8", 8, 8),
    ("turboquant_k8v4", 8, 4),
    ("int4_per_token_head", 4, 4),
    ("turboquant_k3v4_nc", 3, 4),
    ("turboquant_3bit_nc", 3, 3),
    ("auto", 16, 16),
];

impl Exporter for Vllm {
    fn export(&self, map: &PrecisionMap, _: &Scheme) -> Result<Export, ExportError> {
        let coded: Vec<PrecisionPair> = map.pairs().iter().copied().filter(|pair| !pair.is_full()).collect();
        let (name, key, value) = nearest(&PrecisionMap::new(coded.clone()), &SETTINGS)
            .filter(|_| !coded.is_empty())
            .unwrap_or(("auto", 16, 16));
        let skipped: Vec<String> = map
            .pairs()
            .iter()
            .enumerate()
            .filter(|(_, pair)| pair.is_full() && name != "auto")
            .map(|(layer, _)| layer.to_string())
            .collect();
        let mut text = format!("--kv-cache-dtype {name}");
        if !skipped.is_empty() {
            text += &format!(" --kv-cache-dtype-skip-layers {}", skipped.join(" "));
        }
        let of_layer = |full: &PrecisionPair| if full.is_full() { *full } else { pair(key, value) };
        let given = PrecisionMap::new(map.pairs().iter().map(of_layer).collect());
        let mut export = approximated(map, given, text + "\n");
        export.lost.push(String::from(
            "its codes are its own; layers cannot differ but for being skipped (`--to modelopt` writes a layer map)",
        ));
        Ok(export)
    }
}
