use super::uniform::{approximated, distance};
use super::{Export, ExportError, Exporter};
use crate::precision::{Bits, PrecisionMap, PrecisionPair};
use crate::quant::Scheme;

/// ik_llama.cpp's types for the first and last layers: `-ctk-first TYPE,N` and the like.
pub(super) struct IkLlama;

const TYPES: [(&str, u8); 5] = [("q4_0", 4), ("q5_0", 5), ("q6_0", 6), ("q8_0", 8), ("f16", 16)];

impl Exporter for IkLlama {
    fn export(&self, map: &PrecisionMap, _: &Scheme) -> Result<Export, ExportError> {
        let side =
            |of: fn(&PrecisionPair) -> Bits| Side::best(&map.pairs().iter().map(of).collect::<Vec<_>>());
        let (keys, values) = (side(|pair| pair.key), side(|pair| pair.value));
        let text = format!("{} {} -fa\n", keys.flags('k'), values.flags('v'));
        let n_layers = map.n_layers();
        let given = keys.widths(n_layers).into_iter().zip(values.widths(n_layers));
        let given = PrecisionMap::new(given.map(|(key, value)| PrecisionPair::new(key, value)).collect());
        let mut export = approximated(map, given, text);
        export
            .lost
            .push(String::from("its codes are its own: blocks of 32 channels with one scale, no zero point"));
        Ok(export)
    }
}

/// Keys, or values: one type for most layers, and others for so many first and last ones.
#[derive(Clone, Copy, Debug)]
struct Side {
    middle: usize,
    first: (usize, usize),
    last: (usize, usize),
}

impl Side {
    /// The nearest to the widths wanted; of equals the one with the fewest special layers.
    fn best(wanted: &[Bits]) -> Self {
        let n = wanted.len();
        let sums: Vec<Vec<u64>> = TYPES.iter().map(|&(_, width)| prefix_sums(wanted, width)).collect();
        let span = |kind: usize, from: usize, to: usize| sums[kind][to] - sums[kind][from];
        let kinds = 0..TYPES.len();
        let mut best = (u64::MAX, 0, Self { middle: 0, first: (0, 0), last: (0, 0) });
        for middle in kinds.clone() {
            // The best head of each length, and the best tail: they do not depend on each other.
            let head =
                |len: usize| kinds.clone().map(|kind| (span(kind, 0, len), kind)).min().unwrap_or((0, 0));
            let tail =
                |len: usize| kinds.clone().map(|kind| (span(kind, n - len, n), kind)).min().unwrap_or((0, 0));
            for first in 0..=n {
                for last in 0..=n - first {
                    let ((head_cost, head_kind), (tail_cost, tail_kind)) = (head(first), tail(last));
                    let cost = head_cost + span(middle, first, n - last) + tail_cost;
                    if (cost, first + last) < (best.0, best.1) {
                        let side = Self { middle, first: (head_kind, first), last: (tail_kind, last) };
                        best = (cost, first + last, side);
                    }
                }
            }
        }
        best.2
    }

    fn flags(self, side: char) -> String {
        let mut flags = format!("-ct{side} {}", TYPES[self.middle].0);
        for (place, (kind, count)) in [("first", self.first), ("last", self.last)] {
            if count > 0 {
                flags += &format!(" -ct{side}-{place} {},{count}", TYPES[kind].0);
            }
        }
        flags
    }

    fn widths(self, n: usize) -> Vec<Bits> {
        let kind = |layer: usize| match layer {
            layer if layer < self.first.1 => self.first.0,
            layer if layer >= n - self.last.1 => self.last.0,
            _ => self.middle,
        };
        (0..n).map(|layer| Bits::try_from(TYPES[kind(layer)].1).unwrap_or(Bits::FULL)).collect()
    }
}

/// Distances of the first so many layers, added up.
fn prefix_sums(wanted: &[Bits], width: u8) -> Vec<u64> {
    let mut sums = vec![0];
    sums.extend(wanted.iter().scan(0, |sum, &bits| {
        *sum += distance(bits, width);
        Some(*sum)
    }));
    sums
}
