//! Does grouping layers cost quality? The additive front over single layers against that over groups, both
//! truly evaluated.

use std::fmt::Write as _;
use std::path::Path;

use kvtune::precision::PrecisionMap;
use kvtune::report::{map_text, write_csv, write_text};
use kvtune::score::Objective;
use kvtune::search::{Algorithm, Archive, LossTable, Objectives, Problem, Search, SearchOptions, Searcher};
use kvtune::space::Space;
use serde::Serialize;

use crate::bench::Bench;
use crate::folder::Folder;
use crate::spaces::layers;
use crate::statistics::{at_bits, median, share};

/// One line of `layers.csv`: a map that is on a front by prediction, and what it really costs.
#[derive(Clone, Debug, Serialize)]
struct Row {
    front: &'static str,
    #[serde(with = "map_text")]
    map: PrecisionMap,
    equivalent_bits: f64,
    /// Sum of isolated KLs; empty for maps of the job's own search.
    predicted_kl: Option<f64>,
    kl: f64,
    flips: f64,
}

impl Row {
    fn point(&self) -> Objectives {
        Objectives { bits: self.equivalent_bits, loss: self.kl }
    }
}

/// Evaluates `points` maps of each front; writes `layers.csv` and `layers.md` into `out`.
pub(crate) fn run(folder: &Folder, bench: &mut Bench, points: usize, out: &Path) -> anyhow::Result<String> {
    let unclustered = layers(folder, true)?;
    let by_layer = front(bench, "layers", &unclustered, points)?;
    let by_group = front(bench, "groups", &folder.space, points)?;
    let searched = searched(folder, bench)?;
    let reference = bench.reference(&folder.space, Objective::Kl)?;
    let fronts = [by_layer, by_group, searched];
    write_csv(&out.join("layers.csv"), &fronts.concat())?;
    let text = summary(&fronts, reference);
    write_text(&out.join("layers.md"), &text)?;
    Ok(text)
}

/// The exact front of the additive model, thinned along bits, truly evaluated.
fn front(bench: &mut Bench, name: &'static str, space: &Space, points: usize) -> anyhow::Result<Vec<Row>> {
    let problem = Problem::of_space(space, &vec![1; space.n_layers()])?;
    let table = LossTable::proxy(bench.isolated(&format!("{name} alone"), space)?, &problem)?;
    let options =
        SearchOptions { evaluations: points, table: Some(table.clone()), ..SearchOptions::default() };
    let genomes = Search::new(problem, Algorithm::Additive, &options)?.ask();
    let measured = bench.genomes(&format!("front over {name}"), space, &genomes)?;
    let row = |(genome, row): (_, crate::bench::Measured)| Row {
        front: name,
        predicted_kl: Some(table.predict(genome)),
        equivalent_bits: row.equivalent_bits,
        kl: row.kl,
        flips: row.flips,
        map: row.map,
    };
    Ok(genomes.iter().zip(measured).map(row).collect())
}

/// What the job's own search found, evaluated on the same documents.
fn searched(folder: &Folder, bench: &mut Bench) -> anyhow::Result<Vec<Row>> {
    let maps: Vec<PrecisionMap> = folder.searched().map(|(_, row)| row.map.clone()).collect();
    let rows = bench.measure("the job's search", &maps)?;
    let row = |row: crate::bench::Measured| Row {
        front: "search",
        predicted_kl: None,
        equivalent_bits: row.equivalent_bits,
        kl: row.kl,
        flips: row.flips,
        map: row.map,
    };
    Ok(rows.into_iter().map(row).collect())
}

fn summary(fronts: &[Vec<Row>], reference: Objectives) -> String {
    let mut text = String::from(
        "| front | maps | share of the box | KL, × that over layers at equal bits (median) |\n|---|---:|---:|---:|\n",
    );
    let points = |rows: &[Row]| rows.iter().map(Row::point).collect::<Vec<_>>();
    let by_layer = points(fronts.first().map_or(&[], Vec::as_slice));
    for rows in fronts.iter().filter(|rows| !rows.is_empty()) {
        let mut archive = Archive::default();
        for row in rows {
            archive.insert(&kvtune::search::Genome::default(), row.point());
        }
        let on_front = archive.front().iter().map(|member| member.1);
        let ratios = on_front.filter_map(|at| Some(at.loss / at_bits(&by_layer, at.bits)?)).collect();
        let ratio = median(ratios).map_or(String::from("–"), |ratio| format!("{ratio:.3}"));
        let _ = writeln!(
            text,
            "| {} | {} | {:.5} | {ratio} |",
            rows[0].front,
            rows.len(),
            share(&archive, reference)
        );
    }
    let _ = writeln!(text, "\n| front | bits | predicted KL | KL | flips |\n|---|---:|---:|---:|---:|");
    for Row { front, equivalent_bits, predicted_kl, kl, flips, .. } in fronts.iter().flatten() {
        let predicted = predicted_kl.map_or(String::from("–"), |kl| format!("{kl:.5}"));
        let _ = writeln!(text, "| {front} | {equivalent_bits:.3} | {predicted} | {kl:.5} | {flips:.4} |");
    }
    text
}
