use serde::Serialize;

use super::folder::Folder;
use crate::precision::PrecisionMap;
use crate::quant::{LayerShape, Scheme};
use crate::report::ParetoRow;

/// Tokens that memory is stated for.
const CONTEXTS: [usize; 3] = [4_096, 32_768, 131_072];

/// Heads are of no more channels than this.
const WIDEST_HEAD: usize = 1_024;

/// What one sequence's cache takes at one length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct MemoryRow {
    pub(super) tokens: usize,
    /// With f16 keys and values.
    pub(super) full_bytes: u64,
    /// With the chosen map, scales and exact tokens included.
    pub(super) map_bytes: u64,
}

/// The chosen map's memory at several lengths; nothing where the files do not tell the cache's shape.
pub(super) fn rows(folder: &Folder) -> Vec<MemoryRow> {
    let (Some(run), Some(chosen), Some(job)) = (&folder.run, folder.chosen(), &folder.job) else {
        return Vec::new();
    };
    let scheme = &job.search_space.scheme;
    let Some(shape) = shape(&folder.pareto, scheme, run.context, run.batch) else { return Vec::new() };
    let row = |tokens: usize| MemoryRow {
        tokens,
        full_bytes: (2 * 2 * shape.width() * chosen.map.n_layers()) as u64 * tokens as u64,
        map_bytes: bytes(scheme, &chosen.map, shape, tokens),
    };
    CONTEXTS.map(row).to_vec()
}

/// The shape of a layer's keys under which every row of the front takes the bytes that it says.
///
/// Files state bytes and bits of whole caches, which gives the width of a layer; where heads of several widths fit,
/// they take the same bytes at these lengths, so that any of them will do.
fn shape(rows: &[ParetoRow], scheme: &Scheme, context: usize, batch: usize) -> Option<LayerShape> {
    let first = rows.first()?;
    let (layers, batch) = (first.map.n_layers(), batch.max(1) as u64);
    let elements = 8.0 * first.cache_bytes as f64 / batch as f64 / first.storage_bits;
    let width = (elements / (2 * layers * context.max(1)) as f64).round();
    if !(1.0..1e9).contains(&width) {
        return None;
    }
    let width = width as usize;
    let fits = |shape: &LayerShape| {
        rows.iter()
            .all(|row| bytes(scheme, &row.map, *shape, context).checked_mul(batch) == Some(row.cache_bytes))
    };
    let heads = (1..=width.min(WIDEST_HEAD)).rev().filter(|head_dim| width.is_multiple_of(*head_dim));
    heads.map(|head_dim| LayerShape { n_kv_heads: width / head_dim, head_dim }).find(fits)
}

fn bytes(scheme: &Scheme, map: &PrecisionMap, shape: LayerShape, tokens: usize) -> u64 {
    scheme.map_bytes(map, &vec![shape; map.n_layers()], tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::precision::storage_bits;
    use crate::report::{Role, parse_map};

    fn row(text: &str, scheme: &Scheme, real: LayerShape) -> ParetoRow {
        let map = parse_map(text).expect("a map");
        let cache_bytes = bytes(scheme, &map, real, 4096);
        let storage_bits = storage_bits(cache_bytes, &vec![real.width(); map.n_layers()], 4096).bits;
        ParetoRow { storage_bits, cache_bytes, ..ParetoRow::made(text, Role::Front, 0.0) }
    }

    #[test]
    fn the_shape_that_is_found_takes_the_same_bytes_at_any_length() {
        for scheme in [Scheme::kivi(), Scheme::per_token_asym()] {
            for real in [(3, 64), (2, 128), (8, 80), (1, 24)] {
                let real = LayerShape { n_kv_heads: real.0, head_dim: real.1 };
                let rows = [row("0-3 KV4", &scheme, real), row("0-1 K8V2, 2-3 K1V3", &scheme, real)];
                let found = shape(&rows, &scheme, 4096, 1).expect("a shape");
                for tokens in [100, 32_768] {
                    let of = |shape| bytes(&scheme, &rows[1].map, shape, tokens);
                    assert_eq!(of(found), of(real), "{found:?} for {real:?}");
                }
            }
        }
    }

    #[test]
    fn bytes_that_no_shape_takes_give_none() {
        let mut row = row("0-3 KV4", &Scheme::kivi(), LayerShape { n_kv_heads: 3, head_dim: 64 });
        row.cache_bytes += 1;
        assert_eq!(shape(&[row], &Scheme::kivi(), 4096, 1), None);
    }
}
