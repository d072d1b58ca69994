use super::uniform::{Setting, export};
use super::{Export, ExportError, Exporter};
use crate::precision::PrecisionMap;
use crate::quant::Scheme;

/// MLX-LM's `--kv-bits`, one width for all keys and values.
pub(super) struct Mlx;

const SETTINGS: [Setting; 6] = [("2", 2, 2), ("3", 3, 3), ("4", 4, 4), ("5", 5, 5), ("6", 6, 6), ("8", 8, 8)];

impl Exporter for Mlx {
    fn export(&self, map: &PrecisionMap, _: &Scheme) -> Result<Export, ExportError> {
        let mut export = export(map, &SETTINGS, |name| {
            format!("--kv-bits {name} --kv-group-size 64 --quantized-kv-start 0\n")
        });
        export.lost.push(String::from("its groups are 64 channels of one token, for keys as well"));
        Ok(export)
    }
}
