use std::collections::BTreeMap;

use serde::Serialize;

use super::folder::Folder;
use crate::job::Job;
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::report::{ParetoRow, Role};
use crate::score::Objective;
use crate::select::FEWEST_DOCUMENTS;

/// The chosen map in words and figures.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Answer {
    pub(super) title: String,
    pub(super) lead: String,
    pub(super) cards: Vec<Card>,
    pub(super) needs: Vec<Need>,
    pub(super) comparison: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Card {
    name: &'static str,
    value: String,
    note: String,
}

/// The layers that have one pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Need {
    pub(super) pair: String,
    pub(super) layers: String,
    pub(super) count: usize,
}

/// The answer, if a map was chosen.
pub(super) fn answer(folder: &Folder) -> Option<Answer> {
    let row = folder.chosen()?;
    let objective = folder.job.as_ref().map_or(Objective::Flips, |job| job.search.objective);
    let lost_where = folder.job.as_ref().map_or("", Job::lost_where);
    let model = folder.model().unwrap_or("the model");
    let context = folder.run.as_ref().map_or(4096, |run| run.context);
    Some(Answer {
        title: format!("{model}: {:.2} bits per cached number instead of 16", row.equivalent_bits),
        lead: format!(
            "With its scales memory holds {:.2} bits a number at {} tokens, {:.1} times less than f16. {}",
            row.storage_bits,
            grouped(context),
            16.0 / row.storage_bits,
            quality(row, (objective, lost_where))
        ),
        cards: cards(row, (objective, lost_where), context),
        needs: needs(&row.map),
        comparison: comparison(folder, row, objective),
        warnings: warnings(folder, row),
    })
}

fn quality(row: &ParetoRow, (objective, lost_where): (Objective, &str)) -> String {
    let Some(test) = row.test_loss else { return String::from("It was not scored on the test split.") };
    let interval = match (row.test_low, row.test_high) {
        (Some(low), Some(high)) => {
            format!(" (95 % interval {} to {})", loss(low, objective), loss(high, objective))
        }
        _ => String::new(),
    };
    let amount = loss(test, objective);
    match objective {
        Objective::Flips => format!(
            "On prompts that the search never saw, the most likely token is another one at {amount} of the positions{interval}."
        ),
        Objective::Kl => format!(
            "On prompts that the search never saw, the model's output diverges from full precision by {amount}{interval}."
        ),
        Objective::Nll => {
            format!("On prompts that the search never saw, the log-likelihood falls by {amount}{interval}.")
        }
        Objective::Accuracy => {
            format!(
                "On questions that the search never saw, the score{lost_where} falls by {amount}{interval}."
            )
        }
    }
}

/// A loss in its unit.
pub(super) fn loss(value: f64, objective: Objective) -> String {
    match objective {
        Objective::Flips => format!("{:.1}\u{a0}%", 100.0 * value),
        Objective::Accuracy => format!("{:.1} points", 100.0 * value),
        Objective::Kl | Objective::Nll => format!("{value:.4} nats a token"),
    }
}

fn cards(row: &ParetoRow, (objective, lost_where): (Objective, &str), context: usize) -> Vec<Card> {
    let test = row.test_loss.map_or(String::from("not scored"), |test| loss(test, objective));
    let interval = match (row.test_low, row.test_high) {
        (Some(low), Some(high)) => {
            format!("test split, 95 %: {} to {}", loss(low, objective), loss(high, objective))
        }
        _ => String::from("test split"),
    };
    vec![
        Card {
            name: "equivalent bits",
            value: format!("{:.2}", row.equivalent_bits),
            note: String::from("mean of key and value bits, codes only"),
        },
        Card {
            name: "storage bits",
            value: format!("{:.2}", row.storage_bits),
            note: format!("with scales and exact tokens, at {} tokens", grouped(context)),
        },
        Card { name: objective_name(objective), value: test, note: interval + lost_where },
    ]
}

/// What a loss is called.
pub(super) fn objective_name(objective: Objective) -> &'static str {
    match objective {
        Objective::Flips => "flipped tokens",
        Objective::Kl => "KL divergence",
        Objective::Nll => "loss of log-likelihood",
        Objective::Accuracy => "accuracy lost",
    }
}

/// The layers of each pair, most bits first.
pub(super) fn needs(map: &PrecisionMap) -> Vec<Need> {
    let mut by_pair: BTreeMap<PrecisionPair, Vec<usize>> = BTreeMap::new();
    for (layer, &pair) in map.pairs().iter().enumerate() {
        by_pair.entry(pair).or_default().push(layer);
    }
    let mut pairs: Vec<_> = by_pair.into_iter().collect();
    pairs.sort_by(|(a, _), (b, _)| b.mean_bits().total_cmp(&a.mean_bits()).then(b.key.cmp(&a.key)));
    let need = |(pair, layers): (PrecisionPair, Vec<usize>)| Need {
        pair: pair.to_string(),
        layers: runs(&layers),
        count: layers.len(),
    };
    pairs.into_iter().map(need).collect()
}

/// `0, 2–5, 7` of ascending numbers.
pub(super) fn runs(numbers: &[usize]) -> String {
    let runs: Vec<String> = numbers
        .chunk_by(|a, b| a + 1 == *b)
        .map(|run| match (run.first(), run.last()) {
            (Some(first), Some(last)) if run.len() > 1 => format!("{first}–{last}"),
            (Some(only), _) => only.to_string(),
            _ => String::new(),
        })
        .collect();
    runs.join(", ")
}

/// What one pair for all layers would have done, on the select split.
fn comparison(folder: &Folder, row: &ParetoRow, objective: Objective) -> Vec<String> {
    let of = |row: &ParetoRow| row.select_loss.unwrap_or(row.search_loss);
    let uniform = || folder.pareto.iter().filter(|other| other.role == Role::Uniform);
    let pair = |row: &ParetoRow| row.map.pairs().first().map(ToString::to_string).unwrap_or_default();
    let own = loss(of(row), objective);
    let mut said = Vec::new();
    let no_wider = uniform().filter(|other| other.equivalent_bits <= row.equivalent_bits + 1e-9);
    if let Some(other) = no_wider.min_by(|a, b| of(a).total_cmp(&of(b))) {
        said.push(format!(
            "One pair for all layers in no more bits: the best is {} ({:.2} bits), which loses {} on the select split; this map loses {own}.",
            pair(other), other.equivalent_bits, loss(of(other), objective)
        ));
    }
    let as_good = uniform().filter(|other| of(other) <= of(row));
    match as_good.min_by(|a, b| a.equivalent_bits.total_cmp(&b.equivalent_bits)) {
        Some(other) => said.push(format!(
            "One pair for all layers that loses as little: {} at {:.2} bits ({}); this map takes {:.2}.",
            pair(other),
            other.equivalent_bits,
            loss(of(other), objective),
            row.equivalent_bits
        )),
        None if uniform().next().is_some() => {
            said.push(format!("No single pair for all layers that was scored loses as little as {own}."));
        }
        None => {}
    }
    said
}

fn warnings(folder: &Folder, row: &ParetoRow) -> Vec<String> {
    let mut said = Vec::new();
    let limit = folder.job.as_ref().map(|job| (job.search.max_loss, job.search.objective));
    if let (Some((max, objective)), Some(upper)) = (limit, row.select_upper)
        && upper > max
    {
        said.push(format!(
            "No map keeps the loss within {} at its upper bound on the select split; this is the nearest one, with {}.",
            loss(max, objective),
            loss(upper, objective)
        ));
    }
    let provenance = folder.precision.as_ref().and_then(|file| file.provenance.as_ref());
    if let Some(record) =
        provenance.map(|provenance| &provenance.objective).filter(|record| record.exploratory)
    {
        said.push(format!(
            "Exploratory: {} documents on the test split. Under {FEWEST_DOCUMENTS} a split, intervals are too narrow.",
            record.documents
        ));
    }
    said
}

/// 131072 as `131,072`.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::parse_map;

    #[test]
    fn layers_of_a_pair_are_runs_and_wide_pairs_come_first() {
        let map = parse_map("0 KV2, 1-3 K8V4, 4 KV2, 5 K4V8").expect("a map");
        let shown: Vec<(String, String)> =
            needs(&map).into_iter().map(|need| (need.pair, need.layers)).collect();
        let expected = [("K8V4", "1–3"), ("K4V8", "5"), ("KV2", "0, 4")];
        assert_eq!(shown, expected.map(|(pair, layers)| (pair.to_owned(), layers.to_owned())));
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([7, 4096, 131_072, 1_000_000].map(grouped), ["7", "4,096", "131,072", "1,000,000"]);
    }
}
