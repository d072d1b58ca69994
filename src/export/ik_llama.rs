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
        let text = format!("{} {} -fa on\n", keys.flags('k'), values.flags('v'));
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
    ///
    /// One pass over the layers for each middle type: what a head of so many layers costs beyond the middle type does
    /// not depend on the tail, so before each start of a tail only the best head so far counts.
    fn best(wanted: &[Bits]) -> Self {
        let n = wanted.len();
        let sums: Vec<Vec<i64>> = TYPES.iter().map(|&(_, width)| prefix_sums(wanted, width)).collect();
        let cheapest = |from: usize, to: usize| {
            let costs = sums.iter().enumerate().map(|(kind, sums)| (sums[to] - sums[from], kind));
            costs.min().unwrap_or((0, 0))
        };
        let heads: Vec<(i64, usize)> = (0..=n).map(|len| cheapest(0, len)).collect();
        let tails: Vec<(i64, usize)> = (0..=n).map(|start| cheapest(start, n)).collect();
        let mut best = None;
        for (middle, sums) in sums.iter().enumerate() {
            let mut head = (i64::MAX, 0);
            for start in 0..=n {
                head = head.min((heads[start].0 - sums[start], start));
                let (cost, first) = (head.0 + sums[start] + tails[start].0, head.1);
                let found = (cost, first + n - start, middle, first, start);
                best = Some(best.map_or(found, |best: Found| best.min(found)));
            }
        }
        let (_, _, middle, first, start) = best.unwrap_or_default();
        Self { middle, first: (heads[first].1, first), last: (tails[start].1, n - start) }
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

/// Cost, special layers, middle type, layers of the head, start of the tail: the least is the best.
type Found = (i64, usize, usize, usize, usize);

/// Distances of the first so many layers, added up.
fn prefix_sums(wanted: &[Bits], width: u8) -> Vec<i64> {
    let mut sums = vec![0];
    sums.extend(wanted.iter().scan(0, |sum, &bits| {
        *sum += distance(bits, width).cast_signed();
        Some(*sum)
    }));
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cost(side: Side, wanted: &[Bits]) -> (u64, usize) {
        let given = side.widths(wanted.len());
        let cost = wanted.iter().zip(given).map(|(&wanted, given)| distance(wanted, given.get())).sum();
        (cost, side.first.1 + side.last.1)
    }

    /// The least cost and then the fewest special layers, by trying everything.
    fn least(wanted: &[Bits]) -> (u64, usize) {
        let (n, kinds) = (wanted.len(), 0..TYPES.len());
        let mut least = (u64::MAX, 0);
        for (first, last) in (0..=n).flat_map(|first| (0..=n - first).map(move |last| (first, last))) {
            for (head, middle) in kinds.clone().flat_map(|a| kinds.clone().map(move |b| (a, b))) {
                for tail in kinds.clone() {
                    least =
                        least.min(cost(Side { middle, first: (head, first), last: (tail, last) }, wanted));
                }
            }
        }
        least
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_other_setting_is_nearer(
            widths in prop::collection::vec(prop::sample::select(vec![1_u8, 2, 3, 4, 5, 6, 8, 16]), 0..8)
        ) {
            let wanted: Vec<Bits> =
                widths.into_iter().map(|width| Bits::try_from(width).expect("a width")).collect();
            prop_assert_eq!(cost(Side::best(&wanted), &wanted), least(&wanted));
        }
    }

    #[test]
    fn a_model_of_very_many_layers_takes_no_time() {
        let width = |layer: usize| if (7..90_000).contains(&layer) { 4 } else { 8 };
        let wanted: Vec<Bits> =
            (0..100_000).map(|layer| Bits::try_from(width(layer)).expect("a width")).collect();
        let side = Side::best(&wanted);
        assert_eq!((side.first.1, side.last.1), (7, 10_000));
    }
}
