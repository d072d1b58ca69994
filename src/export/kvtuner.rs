use std::fmt::Write as _;

use super::{Engine, Export, ExportError, Exporter};
use crate::precision::{LayerId, PrecisionMap};
use crate::quant::{Prefill, Scheme, SchemeName, Zero};

/// The YAML of KVTuner's published cache class: `per_layer_config_path`.
pub(super) struct Kvtuner;

/// Widths that its backends code: quanto and its own 2, 4 and 8, HQQ 1 and 3 as well.
const WIDTHS: [u8; 5] = [1, 2, 3, 4, 8];

impl Exporter for Kvtuner {
    fn export(&self, map: &PrecisionMap, scheme: &Scheme) -> Result<Export, ExportError> {
        for (layer, pair) in map.pairs().iter().enumerate() {
            if ![pair.key, pair.value].iter().all(|bits| WIDTHS.contains(&bits.get())) {
                return Err(ExportError::Layer {
                    engine: Engine::Kvtuner,
                    layer: LayerId(layer),
                    found: pair.to_string(),
                    expected: "widths of 1, 2, 3, 4 or 8 bits",
                });
            }
        }
        let mut text = format!("# FlexibleQuantizedCacheConfig({})\n", arguments(scheme));
        for (layer, pair) in map.pairs().iter().enumerate() {
            let _ = writeln!(text, "{layer}:\n  nbits_key: {}\n  nbits_value: {}", pair.key, pair.value);
        }
        let exact = vec![String::from("the width of every layer's keys and values")];
        Ok(Export { text, exact, lost: lost(map, scheme), approximation: None })
    }
}

fn arguments(scheme: &Scheme) -> String {
    let (axis, group, residual) = match scheme.name {
        SchemeName::Kivi => (1, 32, 32),
        SchemeName::PerTokenAsym => (0, -1, 0),
    };
    format!(
        "nbits_key=-1, nbits_value=-1, per_layer_quant=True, per_layer_config_path=…, axis_key={axis}, axis_value=0, \
         q_group_size={group}, residual_length={residual}, asym=True"
    )
}

/// Options of the scheme that it has no word for, or has at one value only.
fn options(scheme: &Scheme) -> Vec<String> {
    let plain = match scheme.name {
        SchemeName::Kivi => Scheme::kivi(),
        SchemeName::PerTokenAsym => Scheme::per_token_asym(),
    };
    let differs = [
        ("key.group", scheme.key.group != plain.key.group),
        ("value.group", scheme.value.group != plain.value.group),
        ("key.residual", scheme.key.residual != plain.key.residual),
        ("sinks", scheme.sinks != plain.sinks),
        ("hadamard", scheme.hadamard),
        ("codebook", scheme.codebook != plain.codebook),
        ("key_bias", scheme.key_bias != plain.key_bias),
    ];
    let said =
        |(option, _): (&str, bool)| format!("the scheme's `{option}`, which it has at its own value only");
    differs.into_iter().filter(|&(_, differs)| differs).map(said).collect()
}

/// How its codes differ from those that the map was chosen under.
fn lost(map: &PrecisionMap, scheme: &Scheme) -> Vec<String> {
    let mut lost = Vec::new();
    let odd =
        map.pairs().iter().any(|pair| [pair.key, pair.value].iter().any(|bits| matches!(bits.get(), 1 | 3)));
    if odd {
        lost.push(String::from("1 and 3 bits need its HQQ backend"));
    }
    if scheme.zero == Zero::Float {
        lost.push(String::from(
            "its zero points are rounded to integers, the map's scheme has `zero: float`",
        ));
    }
    if scheme.prefill == Prefill::Dequantized {
        lost.push(String::from(
            "its prompts read full precision, the map's scheme has `prefill: dequantized`",
        ));
    }
    lost.extend(options(scheme));
    if scheme.name == SchemeName::Kivi && scheme.value.residual != 32 {
        lost.push(format!(
            "it keeps the newest 32 values exact as well, the map's scheme {}",
            scheme.value.residual
        ));
    }
    lost
}
