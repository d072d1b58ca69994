//! Engines with fewer settings than layers: the nearest setting, and what it changes.

use std::collections::BTreeMap;

use crate::precision::{Bits, PrecisionMap, PrecisionPair};

use super::Export;

/// One setting for all layers, and the widths that it stands for.
pub(super) type Setting = (&'static str, u8, u8);

/// How far a width is from the one wanted: a missing bit counts twice, since it costs quality, a spare one memory.
pub(super) fn distance(wanted: Bits, given: u8) -> u64 {
    let (wanted, given) = (u64::from(wanted.get()), u64::from(given));
    if given < wanted { 2 * (wanted - given) } else { given - wanted }
}

/// The setting that is nearest over all layers given; the first of equals.
pub(super) fn nearest(map: &PrecisionMap, settings: &[Setting]) -> Option<Setting> {
    let cost = |&(_, key, value): &Setting| -> u64 {
        map.pairs().iter().map(|pair| distance(pair.key, key) + distance(pair.value, value)).sum()
    };
    settings.iter().copied().min_by_key(cost)
}

/// The pair of two widths that exist.
pub(super) fn pair(key: u8, value: u8) -> PrecisionPair {
    let bits = |width: u8| Bits::try_from(width).unwrap_or(Bits::FULL);
    PrecisionPair::new(bits(key), bits(value))
}

/// An export with one setting for all layers; the text is made of the setting's name.
pub(super) fn export(map: &PrecisionMap, settings: &[Setting], text: impl FnOnce(&str) -> String) -> Export {
    let (name, key, value) = nearest(map, settings).unwrap_or(("", 16, 16));
    approximated(map, PrecisionMap::uniform(map.n_layers(), pair(key, value)), text(name))
}

/// An export of another map in the place of the one wanted.
pub(super) fn approximated(wanted: &PrecisionMap, given: PrecisionMap, text: String) -> Export {
    let mut lost = changes(wanted, &given);
    if lost.is_empty() {
        let exact = vec![String::from("the width of every layer")];
        return Export { text, exact, lost, approximation: None };
    }
    lost.push(format!("{:.2} equivalent bits become {:.2}", bits(wanted), bits(&given)));
    Export { text, exact: Vec::new(), lost, approximation: Some(given) }
}

fn bits(map: &PrecisionMap) -> f64 {
    map.pairs().iter().map(|pair| pair.mean_bits()).sum::<f64>() / map.n_layers().max(1) as f64
}

/// Where two maps differ: `keys of layers 0, 3-5: 2 bits become 4`.
fn changes(wanted: &PrecisionMap, given: &PrecisionMap) -> Vec<String> {
    let mut places: BTreeMap<(&str, Bits, Bits), Vec<usize>> = BTreeMap::new();
    for (layer, (wanted, given)) in wanted.pairs().iter().zip(given.pairs()).enumerate() {
        for (side, wanted, given) in [("keys", wanted.key, given.key), ("values", wanted.value, given.value)]
        {
            if wanted != given {
                places.entry((side, wanted, given)).or_default().push(layer);
            }
        }
    }
    let line = |((side, wanted, given), layers): ((&str, Bits, Bits), Vec<usize>)| {
        let layers = if layers.len() == 1 {
            format!("layer {}", runs(&layers))
        } else {
            format!("layers {}", runs(&layers))
        };
        format!("{side} of {layers}: {wanted} bits become {given}")
    };
    places.into_iter().map(line).collect()
}

/// `0, 2-5, 7` of ascending numbers.
pub(super) fn runs(numbers: &[usize]) -> String {
    let run = |run: &[usize]| match run {
        [only] => only.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    numbers.chunk_by(|a, b| a + 1 == *b).map(run).collect::<Vec<_>>().join(", ")
}
