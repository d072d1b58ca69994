use serde::Serialize;

use super::answer::{grouped, loss, runs};
use super::folder::Folder;
use crate::precision::PrecisionMap;
use crate::report::plot::{
    Context, Drawing, Progress, heatmap_drawing, pareto_drawing, progress_drawing, short, strip_drawing,
};
use crate::report::space_file::{group_letters, letter};
use crate::report::{EvaluationKind, EvaluationRow, Role};
use crate::score::Objective;
use crate::space::hypervolume;

/// A figure, and what it says in words.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Chart {
    drawing: Drawing,
    caption: String,
}

/// One group of layers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Group {
    letter: String,
    layers: String,
    candidates: String,
    chosen: String,
    note: &'static str,
}

/// One row of the front, for readers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    role: &'static str,
    bits: String,
    storage: String,
    select: String,
    upper: String,
    map: String,
}

/// The front.
pub(super) fn pareto(folder: &Folder) -> Option<Chart> {
    if folder.pareto.is_empty() || !finite(folder) {
        return None;
    }
    let context = Context::beside(&folder.path.join("pareto.csv"));
    let front = folder.pareto.iter().filter(|row| row.role != Role::Uniform).count();
    let caption = format!(
        "Loss against bits: {front} maps of the front (dots) and {} uniform maps (squares); further down and left is \
         better. Point at a mark to see its map.",
        folder.pareto.len() - front
    );
    Some(Chart { drawing: pareto_drawing(&folder.pareto, &context, &caption), caption })
}

/// A value without a place on an axis cannot be drawn; no run of ours writes one.
fn finite(folder: &Folder) -> bool {
    folder.pareto.iter().all(|row| {
        let values = [row.select_loss, row.select_upper, row.test_loss, row.test_low, row.test_high];
        row.equivalent_bits.is_finite()
            && row.search_loss.is_finite()
            && values.into_iter().flatten().all(f64::is_finite)
    })
}

/// The front's rows as a table, which says the same without a figure.
pub(super) fn points(folder: &Folder) -> Vec<Point> {
    let objective = folder.job.as_ref().map_or(Objective::Flips, |job| job.search.objective);
    let shown = |value: Option<f64>| value.map_or(String::from("–"), |value| loss(value, objective));
    let point = |row: &crate::report::ParetoRow| Point {
        role: match row.role {
            Role::Front => "front",
            Role::Uniform => "uniform",
            Role::Chosen => "chosen",
        },
        bits: format!("{:.2}", row.equivalent_bits),
        storage: format!("{:.2}", row.storage_bits),
        select: shown(row.select_loss.or(Some(row.search_loss))),
        upper: shown(row.select_upper),
        map: row.map.to_string(),
    };
    folder.pareto.iter().map(point).collect()
}

/// The chosen map, layer by layer.
pub(super) fn strip(folder: &Folder) -> Option<Chart> {
    let map = map(folder)?;
    let groups = folder.space.as_ref().map(|file| group_letters(&file.space)).unwrap_or_default();
    let caption = format!(
        "Bits of each layer's keys (above) and values (below); darker is more bits{}. The map: {map}.",
        if groups.is_empty() { "" } else { ", letters are groups of layers that share one pair" }
    );
    Some(Chart { drawing: strip_drawing(map, &groups, &caption), caption })
}

fn map(folder: &Folder) -> Option<&PrecisionMap> {
    folder.precision.as_ref().map(|file| &file.map).or(folder.chosen().map(|row| &row.map))
}

/// Errors by layer and pair.
pub(super) fn heatmap(folder: &Folder) -> Option<Chart> {
    let rows = &folder.sensitivity;
    let finite = rows.iter().all(|row| row.e_o_l1.is_finite());
    let worst = rows.iter().filter(|_| finite).max_by(|a, b| a.e_o_l1.total_cmp(&b.e_o_l1))?;
    let caption = format!(
        "Relative error of the attention output, e_o = Σ|o − ô| / Σ|o|, with one layer coded at a time; darker is \
         worse. The largest is {} at layer {} with {}.",
        short(worst.e_o_l1),
        worst.layer,
        worst.pair
    );
    Some(Chart { drawing: heatmap_drawing(rows, &caption), caption })
}

/// How far the search came.
pub(super) fn progress(folder: &Folder) -> Option<Chart> {
    let found = hypervolumes(&folder.evaluations)?;
    let steps = found.shares.len();
    let enough = found.shares.iter().position(|&share| share >= 0.99).map_or(steps, |index| index + 1);
    let uniform = found
        .uniform
        .map_or(String::new(), |share| format!(" Uniform maps alone have {:.1} % of it.", 100.0 * share));
    let caption = format!(
        "Hypervolume of the maps found (search split; reference point: the worst uniform map × 1.1), as a share of \
         what {} evaluations found: 99 % after {}.{uniform}",
        grouped(steps),
        grouped(enough)
    );
    Some(Chart { drawing: progress_drawing(&found, &caption), caption })
}

/// The front's hypervolume after each evaluation that the budget was charged for.
fn hypervolumes(rows: &[EvaluationRow]) -> Option<Progress> {
    let point = |row: &EvaluationRow| (row.equivalent_bits, row.loss);
    let of = |kind| rows.iter().filter(move |row| row.kind == kind).map(point);
    let worst = of(EvaluationKind::Uniform).reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))?;
    let reference = (worst.0 * 1.1, worst.1 * 1.1);
    let uniform: Vec<(f64, f64)> = of(EvaluationKind::Uniform).collect();
    let (mut found, mut volumes) = (Vec::new(), Vec::new());
    for row in rows.iter().filter(|row| row.kind != EvaluationKind::Uniform) {
        if row.kind == EvaluationKind::Search {
            found.push(point(row));
        }
        volumes.push(hypervolume(&found, reference));
    }
    let whole = volumes.last().copied().filter(|whole| whole.is_finite() && *whole > 0.0)?;
    Some(Progress {
        shares: volumes.iter().map(|volume| volume / whole).collect(),
        uniform: Some(hypervolume(&uniform, reference) / whole),
    })
}

/// The groups, with what the chosen map gives each.
pub(super) fn groups(folder: &Folder) -> Vec<Group> {
    let Some(file) = &folder.space else { return Vec::new() };
    let chosen = map(folder);
    let group = |(index, group): (usize, &crate::space::LayerGroup)| {
        let layers: Vec<usize> = group.layers.iter().map(|layer| layer.0).collect();
        let candidates: Vec<String> = group.candidates.iter().map(ToString::to_string).collect();
        let pair = layers.first().and_then(|&first| chosen?.pairs().get(first));
        Group {
            letter: letter(index),
            layers: runs(&layers),
            candidates: candidates.join(" "),
            chosen: pair.map_or(String::from("–"), ToString::to_string),
            note: if group.noise { "fits no cluster" } else { "" },
        }
    };
    file.space.groups().iter().enumerate().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::parse_map;

    fn row(kind: EvaluationKind, bits: f64, loss: f64) -> EvaluationRow {
        EvaluationRow {
            index: 0,
            key: String::new(),
            kind,
            genome: Vec::new(),
            map: parse_map("0 KV2").expect("a map"),
            equivalent_bits: bits,
            storage_bits: bits,
            cache_bytes: 1,
            flips: loss,
            kl: loss,
            nll: loss,
            loss,
        }
    }

    #[test]
    fn hypervolume_grows_to_one_and_uniform_maps_cost_nothing() {
        let rows = [
            row(EvaluationKind::Uniform, 2.0, 1.0),
            row(EvaluationKind::Uniform, 8.0, 0.0),
            row(EvaluationKind::Isolated, 7.0, 0.2),
            row(EvaluationKind::Search, 4.0, 0.5),
            row(EvaluationKind::Search, 3.0, 0.25),
        ];
        let found = hypervolumes(&rows).expect("a curve");
        // Reference (8.8, 1.1): 4.8 · 0.6 = 2.88, then 5.8 · 0.85 = 4.93; uniform 6.8 · 0.1 + 0.8 · 1.0 = 1.48.
        let expected = [0.0, 2.88 / 4.93, 1.0];
        assert!(found.shares.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        assert!((found.uniform.expect("uniform maps") - 1.48 / 4.93).abs() < 1e-9);
    }

    #[test]
    fn a_search_that_found_nothing_has_no_curve() {
        assert_eq!(hypervolumes(&[row(EvaluationKind::Uniform, 2.0, 1.0)]), None);
        assert_eq!(hypervolumes(&[row(EvaluationKind::Search, 2.0, 1.0)]), None);
    }

    #[test]
    fn groups_never_run_out_of_letters() {
        assert_eq!([0, 25, 26, 52].map(letter), ["A", "Z", "A1", "A2"]);
    }
}
