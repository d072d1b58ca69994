//! What an analysis found, in a few lines: said by `kvtune analyze`, and in the page.

use super::analysis_file::{
    AnalysisFile, ChannelFindings, CorrelationFindings, KnockOutFindings, LemmaFindings, Moved,
};
use super::analysis_rows::{KnockOutRow, PatternRow};
#[cfg(any(feature = "flex", feature = "cuda"))]
use super::flip::FlipExample;
use crate::analysis::{FIRST, OUTLIER, RECENT, STREAMING};

/// The findings in a few lines.
pub(crate) fn analysis_words(
    file: &AnalysisFile,
    rows: &[PatternRow],
    lowered: &[KnockOutRow],
) -> Vec<String> {
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
#[cfg(any(feature = "flex", feature = "cuda"))]
pub(crate) fn example_words(found: Option<&FlipExample>, unchanged: &[String]) -> Vec<String> {
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

    #[test]
    fn a_correlation_is_held_against_the_paper() {
        let mut found = CorrelationFindings {
            pair: "KV2".parse().expect("a pair"),
            concentration: Some(0.62),
            concentration_within_layers: None,
            streaming_mass: None,
            streaming_mass_within_layers: None,
            top_mass: None,
            top_mass_within_layers: None,
            e_a_concentration: None,
            e_a_streaming_mass: None,
        };
        assert!(told_correlation(&found).ends_with("concentrated heads do not lose less, against the paper"));
        (found.concentration, found.e_a_streaming_mass) = (Some(-0.5), Some(-0.25));
        let told = told_correlation(&found);
        assert!(told.contains("as the paper says; of e_a with"), "{told}");
        found.concentration = None;
        assert_eq!(told_correlation(&found), "e_o at KV2 ranks with nothing: the heads are alike");
    }

    #[test]
    fn outliers_are_told_with_the_share_of_the_bias() {
        let found = ChannelFindings {
            channels: 3,
            outliers: 1,
            largest_ratio: 10.0,
            bias_share_of_outliers: Some(0.9),
            bias_share: Some(1.0 / 3.0),
        };
        assert_eq!(
            told_channels(&found),
            "key channels: 1 of 3 reach over 4 times the median of their head, 10.0 times at most; the key bias makes \
             90 % of theirs, 33 % of all"
        );
    }
}
