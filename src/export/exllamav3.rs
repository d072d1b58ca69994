use super::uniform::{Setting, approximated, nearest, pair};
use super::{Export, ExportError, Exporter};
use crate::precision::PrecisionMap;
use crate::quant::Scheme;

/// ExLlamaV3's `-cq KEYS,VALUES`, for all layers.
pub(super) struct Exllamav3;

/// Its widths are 2 to 8, of which 7 is none of ours.
const WIDTHS: [u8; 6] = [2, 3, 4, 5, 6, 8];

impl Exporter for Exllamav3 {
    fn export(&self, map: &PrecisionMap, _: &Scheme) -> Result<Export, ExportError> {
        let settings: Vec<Setting> =
            WIDTHS.iter().flat_map(|&key| WIDTHS.map(|value| ("", key, value))).collect();
        let (_, key, value) = nearest(map, &settings).unwrap_or(("", 8, 8));
        let text = format!("-cq {key},{value}\n");
        let mut export = approximated(map, PrecisionMap::uniform(map.n_layers(), pair(key, value)), text);
        export.lost.push(String::from(
            "its codes are its own, rotated and without zero point; layers may differ only from Python",
        ));
        Ok(export)
    }
}
