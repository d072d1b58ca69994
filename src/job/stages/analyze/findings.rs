//! What was found, in numbers and in words.

use crate::analysis::{FIRST, OUTLIER, RECENT, STREAMING, median};
use crate::precision::PrecisionPair;
use crate::report::{
    AnalysisFile, ChannelFindings, ChannelRow, CorrelationFindings, FlipExample, KnockOutFindings,
    KnockOutRow, LemmaFindings, Moved, PatternRow,
};
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

/// The findings in a few lines.
pub(super) fn told(file: &AnalysisFile, rows: &[PatternRow], lowered: &[KnockOutRow]) -> Vec<String> {
    let heads = file.heads;
    let mut lines = vec![format!(
        "{} heads: {} streaming, {} retrieval (over {STREAMING} of attention on the first {FIRST} and last {RECENT} \
         tokens, or not)",
        heads.streaming + heads.retrieval,
        heads.streaming,
        heads.retrieval
    )];
    let shown = PatternRow::shown_pair(rows.iter().map(|row| row.pair));
    let found = file.correlations.iter().find(|found| Some(found.pair) == shown);
    lines.extend(found.map(told_correlation));
    lines.extend(told_lemma(&file.lemma));
    lines.push(told_channels(&file.channels));
    lines.extend(file.knockout.iter().flat_map(|found| told_knockout(found, lowered)));
    lines
}

/// The paper has errors fall as attention concentrates.
fn told_correlation(found: &CorrelationFindings) -> String {
    let Some(all) = found.concentration else {
        return format!("e_o at {} ranks with nothing: the heads are alike", found.pair);
    };
    let within = match found.concentration_within_layers {
        Some(within) => format!(", {within:.3} within layers"),
        None => String::new(),
    };
    let verdict = if all < 0.0 {
        "concentrated heads lose less, as the paper says"
    } else {
        "concentrated heads do not lose less, against the paper"
    };
    let attention = match found.e_a_streaming_mass {
        Some(attention) => format!("; of e_a with the share on first and recent tokens: {attention:.3}"),
        None => String::new(),
    };
    format!(
        "rank correlation of e_o at {} with concentration: {all:.3}{within}; {verdict}{attention}",
        found.pair
    )
}

fn told_lemma(found: &LemmaFindings) -> Vec<String> {
    std::iter::once(&found.synthetic).chain(&found.model).map(told_moved).collect()
}

fn told_moved(moved: &Moved) -> String {
    let whose = match moved.noise_bits {
        Some(bits) => format!("the model's queries under noise of {bits}-bit keys"),
        None => String::from("made queries"),
    };
    let by = |attention: Option<f64>, output: Option<f64>| match (attention, output) {
        (Some(attention), Some(output)) => {
            format!("attention {attention:.4}, output {:.2} %", 100.0 * output)
        }
        _ => String::from("no such query"),
    };
    format!(
        "Lemma 1, {whose}: one key over 0.99 moves by {}; none over 0.9 by {}; {} of {} queries moved further than it \
         allows",
        by(moved.dominated_attention, moved.dominated_output),
        by(moved.undominated_attention, moved.undominated_output),
        moved.beyond_bound,
        moved.queries
    )
}

fn told_channels(found: &ChannelFindings) -> String {
    let bias = match (found.bias_share_of_outliers, found.bias_share) {
        (Some(of_outliers), Some(of_all)) => format!(
            "; the key bias makes {:.0} % of theirs, {:.0} % of all",
            100.0 * of_outliers,
            100.0 * of_all
        ),
        _ => String::new(),
    };
    format!(
        "key channels: {} of {} reach over {OUTLIER} times the median of their head, {:.1} times at most{bias}",
        found.outliers, found.channels, found.largest_ratio
    )
}

fn told_knockout(found: &KnockOutFindings, rows: &[KnockOutRow]) -> Vec<String> {
    let exploratory = if found.exploratory { ", exploratory" } else { "" };
    let agreement = match (found.loss_with_e_o, found.kl_with_e_o) {
        (Some(loss), Some(kl)) => {
            format!("; rank correlation with the rise of e_o: {loss:.3}, of KL: {kl:.3}")
        }
        _ => String::new(),
    };
    let mut lines = vec![format!(
        "knock-out: {} sides of groups a step lower on {} documents of the {} split{exploratory}{agreement}",
        found.lowered, found.documents, found.split
    )];
    lines.extend(rows.first().map(|row| {
        format!(
            "the worst: group {} ({} layers) from {} to {}: {} {:+.4} [{:+.4}, {:+.4}], KL {:+.4} nats a token",
            row.group,
            row.layers.len(),
            row.from,
            row.to,
            found.objective,
            row.loss_change,
            row.loss_low,
            row.loss_high,
            row.kl_change
        )
    }));
    lines
}

/// The first changed token and what followed, side by side; or that there was none, with the maps that were tried.
pub(super) fn told_example(found: Option<&FlipExample>, unchanged: &[String]) -> Vec<String> {
    let same = match unchanged {
        [] => None,
        maps => Some(format!("free-running, {} changed no token of any document", maps.join(" and "))),
    };
    let Some(found) = found else { return same.into_iter().collect() };
    let FlipExample { document, agreed, before, full, quantized, .. } = found;
    let told = [
        format!(
            "free-running, {} changes a token in {} of {} documents; the first, `{document}`, parts at token {} of \
             the continuation, where full precision's logit is {:.3} ahead:",
            found.name(),
            found.changed,
            found.documents,
            agreed + 1,
            found.logit_gap
        ),
        format!("  both           …{before:?}"),
        format!("  full precision {:?}", full.text),
        format!("  the map        {:?}", quantized.text),
    ];
    same.into_iter().chain(told).collect()
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
        let told = told_correlation(&found);
        assert!(told.ends_with("against the paper"), "all e_a are alike: {told}");
    }

    #[test]
    fn outliers_are_told_with_the_share_of_the_bias() {
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
        let told = told_channels(&channels(&rows));
        assert_eq!(
            told,
            "key channels: 1 of 3 reach over 4 times the median of their head, 10.0 times at most; the key bias makes \
             90 % of theirs, 33 % of all"
        );
    }
}
