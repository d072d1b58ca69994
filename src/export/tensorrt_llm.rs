use super::uniform::{Setting, approximated, nearest, pair};
use super::{Export, ExportError, Exporter};
use crate::precision::PrecisionMap;
use crate::quant::Scheme;

/// TensorRT-LLM's `kv_cache_config.dtype`, a type per range of layers.
pub(super) struct TensorrtLlm;

const SETTINGS: [Setting; 3] = [("fp8", 8, 8), ("nvfp4", 4, 4), ("auto", 16, 16)];

impl Exporter for TensorrtLlm {
    fn export(&self, map: &PrecisionMap, _: &Scheme) -> Result<Export, ExportError> {
        let of_layer =
            |&wanted| nearest(&PrecisionMap::uniform(1, wanted), &SETTINGS).unwrap_or(("auto", 16, 16));
        let settings: Vec<Setting> = map.pairs().iter().map(of_layer).collect();
        let dtype = ranges(&settings);
        let text = format!("kv_cache_config:\n  dtype: \"{dtype}\"\n");
        let given = PrecisionMap::new(settings.iter().map(|&(_, key, value)| pair(key, value)).collect());
        let mut export = approximated(map, given, text);
        export.lost.push(String::from(
            "its codes are floats, the map's are integers; types per layer are not in a release yet, which takes one \
             of auto, fp8 and nvfp4 for all",
        ));
        Ok(export)
    }
}

/// `0-3:fp8,4-35:nvfp4`, or the type alone where all layers share it.
fn ranges(settings: &[Setting]) -> String {
    let mut start = 0;
    let mut runs = Vec::new();
    for run in settings.chunk_by(|a, b| a.0 == b.0) {
        let end = start + run.len() - 1;
        let layers = if run.len() == 1 { start.to_string() } else { format!("{start}-{end}") };
        runs.push((layers, run[0].0));
        start = end + 1;
    }
    match runs.as_slice() {
        [(_, name)] => (*name).to_owned(),
        runs => runs.iter().map(|(layers, name)| format!("{layers}:{name}")).collect::<Vec<_>>().join(","),
    }
}
