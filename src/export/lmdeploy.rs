use super::uniform::{Setting, export};
use super::{Export, ExportError, Exporter};
use crate::precision::PrecisionMap;
use crate::quant::Scheme;

/// LMDeploy's `--quant-policy`, one for all layers.
pub(super) struct Lmdeploy;

const SETTINGS: [Setting; 4] = [("8", 8, 8), ("4", 4, 4), ("42", 4, 2), ("0", 16, 16)];

impl Exporter for Lmdeploy {
    fn export(&self, map: &PrecisionMap, _: &Scheme) -> Result<Export, ExportError> {
        let mut export = export(map, &SETTINGS, |name| format!("--quant-policy {name}\n"));
        export.lost.push(String::from("its codes are its own: one token of one head is a group; policy 42 is its own codec (turbo_quant)"));
        Ok(export)
    }
}
