use super::uniform::{Setting, export};
use super::{Export, ExportError, Exporter};
use crate::precision::PrecisionMap;
use crate::quant::Scheme;

/// SGLang's `--kv-cache-dtype`, one type for all layers.
pub(super) struct Sglang;

const SETTINGS: [Setting; 3] = [("fp8_e4m3", 8, 8), ("fp4_e2m1", 4, 4), ("bf16", 16, 16)];

impl Exporter for Sglang {
    fn export(&self, map: &PrecisionMap, _: &Scheme) -> Result<Export, ExportError> {
        let mut export = export(map, &SETTINGS, |name| format!("--kv-cache-dtype {name}\n"));
        export.lost.push(String::from("its codes are floats, the map's are integers"));
        Ok(export)
    }
}
