use super::uniform::{Setting, approximated, nearest, pair};
use super::{Export, ExportError, Exporter};
use crate::precision::PrecisionMap;
use crate::quant::Scheme;

/// llama.cpp's `--cache-type-k` and `--cache-type-v`, each for all layers.
pub(super) struct LlamaCpp;

/// Types by width; each group of 32 adds half a bit of scale, which equivalent bits leave out.
pub(super) const TYPES: [(&str, u8); 4] = [("q4_0", 4), ("q5_0", 5), ("q8_0", 8), ("f16", 16)];

impl Exporter for LlamaCpp {
    fn export(&self, map: &PrecisionMap, _: &Scheme) -> Result<Export, ExportError> {
        let settings: Vec<Setting> =
            TYPES.iter().flat_map(|&(key, k)| TYPES.map(|(_, v)| (key, k, v))).collect();
        let (key, k, v) = nearest(map, &settings).unwrap_or(("f16", 16, 16));
        let value = TYPES.iter().find(|&&(_, width)| width == v).map_or("f16", |&(name, _)| name);
        // Its quantized values need flash attention.
        let text = format!("--cache-type-k {key} --cache-type-v {value} --flash-attn on\n");
        let mut export = approximated(map, PrecisionMap::uniform(map.n_layers(), pair(k, v)), text);
        export
            .lost
            .push(String::from("its codes are its own: blocks of 32 channels with one scale, no zero point"));
        Ok(export)
    }
}
