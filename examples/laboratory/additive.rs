//! Do losses add up? The sum of what each group costs alone against what random maps really cost.

use std::fmt::Write as _;
use std::path::Path;

use kvtune::precision::PrecisionMap;
use kvtune::report::{map_text, write_csv, write_text};
use kvtune::search::{Algorithm, LossTable, Problem, Search, SearchOptions, Searcher};
use kvtune::sensitivity::correlation::spearman;
use serde::Serialize;

use crate::bench::Bench;
use crate::folder::Folder;
use crate::proxy::output_errors;
use crate::statistics::{median, slope};

/// One line of `additive.csv`.
#[derive(Clone, Debug, Serialize)]
struct Row {
    #[serde(with = "map_text")]
    map: PrecisionMap,
    equivalent_bits: f64,
    /// Sum of the isolated KLs of the map's choices, nats a token.
    isolated_kl: f64,
    /// Sum of e_o over layers.
    e_o: f64,
    kl: f64,
    flips: f64,
}

/// Draws `maps` random maps of the job's space; writes `additive.csv` and `additive.md` into `out`.
pub(crate) fn run(
    folder: &Folder,
    bench: &mut Bench,
    maps: usize,
    seed: u64,
    out: &Path,
) -> anyhow::Result<String> {
    let space = &folder.space;
    let problem = Problem::of_space(space, &vec![1; space.n_layers()])?;
    let isolated = LossTable::proxy(bench.isolated("groups alone", space)?, &problem)?;
    let errors = LossTable::proxy(output_errors(space, &folder.sensitivity, &folder.job), &problem)?;
    let options = SearchOptions { evaluations: maps, seed, ..SearchOptions::default() };
    let genomes = Search::new(problem, Algorithm::Random, &options)?.ask();
    let measured = bench.genomes("random maps", space, &genomes)?;
    let row = |(genome, row): (_, &crate::bench::Measured)| Row {
        map: row.map.clone(),
        equivalent_bits: row.equivalent_bits,
        isolated_kl: isolated.predict(genome),
        e_o: errors.predict(genome),
        kl: row.kl,
        flips: row.flips,
    };
    let rows: Vec<Row> = genomes.iter().zip(&measured).map(row).collect();
    write_csv(&out.join("additive.csv"), &rows)?;
    let text = summary(&rows);
    write_text(&out.join("additive.md"), &text)?;
    Ok(text)
}

fn summary(rows: &[Row]) -> String {
    let column = |of: fn(&Row) -> f64| rows.iter().map(of).collect::<Vec<_>>();
    let (isolated, e_o) = (column(|row| row.isolated_kl), column(|row| row.e_o));
    let (kl, flips) = (column(|row| row.kl), column(|row| row.flips));
    let rank = |x: &[f64], y: &[f64]| spearman(x, y).map_or(String::from("–"), |rho| format!("{rho:.4}"));
    let mut text = String::from("| prediction | Spearman with KL | Spearman with flips |\n|---|---:|---:|\n");
    for (name, predicted) in [("sum of isolated KL", &isolated), ("sum of e_o", &e_o), ("measured KL", &kl)] {
        let _ = writeln!(text, "| {name} | {} | {} |", rank(predicted, &kl), rank(predicted, &flips));
    }
    let ratios = kl.iter().zip(&isolated).map(|(kl, sum)| kl / sum).collect();
    let median = median(ratios).unwrap_or(f64::NAN);
    let _ = writeln!(
        text,
        "\n{} random maps; measured KL is {:.3} × the sum of isolated KL (least squares), {median:.3} × in the median",
        rows.len(),
        slope(&isolated, &kl)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_tells_rank_and_slope() {
        // KL is twice the prediction; e_o ranks the other way round; flips are tied.
        let row = |x: f64| Row {
            map: PrecisionMap::new(Vec::new()),
            equivalent_bits: 4.0,
            isolated_kl: x,
            e_o: -x,
            kl: 2.0 * x,
            flips: 0.25,
        };
        let text = summary(&[row(1.0), row(2.0), row(4.0)]);
        assert!(text.contains("| sum of isolated KL | 1.0000 | – |"), "{text}");
        assert!(text.contains("| sum of e_o | -1.0000 | – |"), "{text}");
        assert!(text.contains("2.000 × the sum of isolated KL (least squares), 2.000 ×"), "{text}");
    }
}
