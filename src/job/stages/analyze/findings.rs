//! What was found, in numbers; `report` has the words.

use crate::analysis::median;
use crate::precision::PrecisionPair;
use crate::report::{ChannelFindings, ChannelRow, CorrelationFindings, LemmaFindings, Moved, PatternRow};
use crate::sensitivity::correlation::spearman;

use super::Disturbed;

/// Rank correlations at each pair, in the order in which pairs first come.
pub(super) fn correlations(rows: &[PatternRow], n_layers: usize) -> Vec<CorrelationFindings> {
    let mut pairs: Vec<PrecisionPair> = Vec::new();
    for row in rows {
        if !pairs.contains(&row.pair) {
            pairs.push(row.pair);
        }
    }
    pairs.into_iter().map(|pair| at(rows, pair, n_layers)).collect()
}

fn at(rows: &[PatternRow], pair: PrecisionPair, n_layers: usize) -> CorrelationFindings {
    let rows: Vec<&PatternRow> = rows.iter().filter(|row| row.pair == pair).collect();
    let concentration: Value = |row| row.concentration;
    let streaming: Value = |row| row.first_mass + row.recent_mass;
    let (top, e_o, e_a): (Value, Value, Value) = (|row| row.top_mass, |row| row.e_o_l1, |row| row.e_a);
    CorrelationFindings {
        pair,
        concentration: overall(&rows, concentration, e_o),
        concentration_within_layers: within(&rows, n_layers, concentration),
        streaming_mass: overall(&rows, streaming, e_o),
        streaming_mass_within_layers: within(&rows, n_layers, streaming),
        top_mass: overall(&rows, top, e_o),
        top_mass_within_layers: within(&rows, n_layers, top),
        e_a_concentration: overall(&rows, concentration, e_a),
        e_a_streaming_mass: overall(&rows, streaming, e_a),
    }
}

/// A column of a head's row.
type Value = fn(&PatternRow) -> f64;

fn overall(rows: &[&PatternRow], a: Value, b: Value) -> Option<f64> {
    let column = |value: Value| rows.iter().map(|row| value(row)).collect::<Vec<f64>>();
    spearman(&column(a), &column(b))
}

/// Correlation of e_o inside a layer, mean over the layers that have a ranking.
fn within(rows: &[&PatternRow], n_layers: usize, value: Value) -> Option<f64> {
    let of_layer = |layer| {
        let rows: Vec<&PatternRow> = rows.iter().filter(|row| row.layer == layer).copied().collect();
        overall(&rows, value, |row| row.e_o_l1)
    };
    mean((0..n_layers).filter_map(of_layer))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// Outliers among key channels.
pub(super) fn channels(rows: &[ChannelRow]) -> ChannelFindings {
    let shares =
        |only: bool| mean(rows.iter().filter(|row| row.outlier || !only).filter_map(|row| row.bias_share));
    ChannelFindings {
        channels: rows.len(),
        outliers: rows.iter().filter(|row| row.outlier).count(),
        largest_ratio: rows
            .chunk_by(|a, b| (a.layer, a.kv_head) == (b.layer, b.kv_head))
            .map(ratio)
            .fold(0.0, f64::max),
        bias_share_of_outliers: shares(true),
        bias_share: shares(false),
    }
}

/// Of the largest channel of a head to the median one; 0 where that is.
fn ratio(head: &[ChannelRow]) -> f64 {
    let largest: Vec<f64> = head.iter().map(|row| row.max).collect();
    let top = largest.iter().copied().fold(0.0, f64::max);
    median(&largest).filter(|&median| median > 0.0).map_or(0.0, |median| top / median)
}

/// Noise on keys.
pub(super) fn lemma(made: &Disturbed, own: &[Disturbed]) -> LemmaFindings {
    LemmaFindings { synthetic: moved(made), model: own.iter().map(moved).collect() }
}

fn moved(disturbed: &Disturbed) -> Moved {
    let within = |range| disturbed.tally.within(range);
    let (all, dominated, undominated) = (within(0.0..1.0), within(0.99..1.0), within(0.0..0.9));
    Moved {
        noise_bits: disturbed.noise_bits,
        queries: all.queries,
        beyond_bound: all.beyond,
        dominated_attention: dominated.attention_shift(),
        dominated_output: dominated.output_change(),
        undominated_attention: undominated.attention_shift(),
        undominated_output: undominated.output_change(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::HeadClass;

    fn row(layer: usize, concentration: f64, e_o_l1: f64) -> PatternRow {
        PatternRow {
            layer,
            head: 0,
            kv_head: 0,
            entropy: 1.0,
            concentration,
            first_mass: concentration,
            recent_mass: 0.0,
            top_mass: 0.5,
            class: HeadClass::Retrieval,
            pair: "KV2".parse().expect("a pair"),
            e_a: 0.5,
            e_o_l1,
            e_o_elementwise: e_o_l1,
        }
    }

    #[test]
    fn a_layer_may_rank_its_heads_against_the_whole() {
        // Inside each layer error falls with concentration; the second layer has more of both.
        let rows = [row(0, 0.1, 0.2), row(0, 0.2, 0.1), row(1, 0.8, 0.9), row(1, 0.9, 0.8)];
        let found = correlations(&rows, 2)[0];
        assert!(found.concentration.is_some_and(|all| all > 0.5), "{found:?}");
        assert!(found.concentration_within_layers.is_some_and(|within| (within + 1.0).abs() < 1e-12));
        assert_eq!((found.top_mass, found.top_mass_within_layers), (None, None), "all alike");
        assert_eq!(found.e_a_streaming_mass, None, "all e_a are alike");
    }

    #[test]
    fn outliers_are_counted_with_the_share_of_the_bias() {
        let channel = |max: f64, outlier: bool, bias_share: f64| ChannelRow {
            layer: 0,
            kv_head: 0,
            channel: 0,
            max,
            spread: max,
            rms: max,
            outlier,
            bias_share: Some(bias_share),
            spread_without_bias: Some(0.0),
        };
        let rows = [channel(1.0, false, 0.0), channel(1.0, false, 0.1), channel(10.0, true, 0.9)];
        let found = channels(&rows);
        assert_eq!((found.outliers, found.channels), (1, 3));
        assert!(found.bias_share_of_outliers.is_some_and(|share| (share - 0.9).abs() < 1e-12), "{found:?}");
    }
}
