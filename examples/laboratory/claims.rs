//! The paper's claims on errors and maps, against what jobs found: figures of the files alone, no model is run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kvtune::precision::PrecisionPair;
use kvtune::report::{ParetoRow, PromptRow, Role, SensitivityRow, agreement_matrices, read_csv};
use kvtune::sensitivity::correlation::spearman;

use crate::statistics::median;

/// What the folders of some jobs say of each claim, and how far they agree on which layers are sensitive.
pub(crate) fn run(folders: &[PathBuf]) -> anyhow::Result<String> {
    let read = |folder: &PathBuf| -> anyhow::Result<Errors> {
        Ok(Errors(read_csv(&folder.join("sensitivity.csv")).context("not the folder of a job")?))
    };
    let errors = folders.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let mut text = String::new();
    for (folder, errors) in folders.iter().zip(&errors) {
        text += &claims(folder, errors)?;
    }
    Ok(text + &between(folders, &errors))
}

/// One folder's figures, a line a claim.
fn claims(folder: &Path, errors: &Errors) -> anyhow::Result<String> {
    let mut text = format!("## {}\n\n| what | seen |\n|---|---|\n", folder.display());
    let mut line = |what: &str, seen: Option<String>| {
        let _ = writeln!(text, "| {what} | {} |", seen.unwrap_or_else(|| String::from("not measured")));
    };
    line("e_k, mean over layers, at KV8, KV4, KV2", errors.means(|row| row.e_k_l1));
    line("e_v, the same", errors.means(|row| row.e_v_l1));
    line("e_o, the same", errors.means(|row| row.e_o_l1));
    line("e_a, from KV8 to KV4 and from KV4 to KV2, as factors", errors.growth());
    line(
        "layers in which lower keys cost more e_o than lower values, at 8 and 4, 4 and 2 bits",
        errors.keys_first(),
    );
    line("those in which lower values cost more", errors.values_first());
    line("most sensitive layers at KV4 by e_o", errors.most_sensitive("KV4"));
    line("the largest e_o of a layer as a multiple of the median layer's, KV4", errors.spread("KV4"));
    let prompts = folder.join("sensitivity-prompts.csv");
    if prompts.exists() {
        let rows: Vec<PromptRow> = read_csv(&prompts)?;
        for matrix in agreement_matrices(&rows) {
            let seen = format!("{:.3}, {:.3}", matrix.mean, matrix.least);
            line(&format!("rank correlation of layers between {}, mean and least", matrix.among), Some(seen));
        }
    }
    let pareto = folder.join("pareto.csv");
    if pareto.exists() {
        mixed_against_uniform(&read_csv(&pareto)?, &mut line);
    }
    Ok(text + "\n")
}

/// Rank correlation of layers by e_o between every two jobs of as many layers, over the pairs that both measured.
fn between(folders: &[PathBuf], errors: &[Errors]) -> String {
    let mut text = String::from(
        "## Between jobs\n\n| jobs | rank correlation of layers, least and most over pairs | e_o of the second over the first |\n|---|---|---|\n",
    );
    for (at, first) in errors.iter().enumerate() {
        for (other, second) in errors.iter().enumerate().skip(at + 1) {
            if let Some(seen) = first.against(second) {
                let _ =
                    writeln!(text, "| {} and {} | {seen} |", folders[at].display(), folders[other].display());
            }
        }
    }
    text
}

/// Rows of `sensitivity.csv`.
struct Errors(Vec<SensitivityRow>);

impl Errors {
    /// A column at a pair, by layer; empty where the job did not measure the pair.
    fn at(&self, pair: &str, column: impl Fn(&SensitivityRow) -> f64) -> Vec<f64> {
        let pair: Option<PrecisionPair> = pair.parse().ok();
        self.0.iter().filter(|row| Some(row.pair) == pair).map(column).collect()
    }

    /// How another job ranks the same layers.
    fn against(&self, other: &Self) -> Option<String> {
        let (mut found, mut ratios) = (Vec::new(), Vec::new());
        for pair in ["KV8", "K8V4", "K4V8", "KV4", "K4V2", "K2V4", "KV2"] {
            let (own, theirs) = (self.at(pair, |row| row.e_o_l1), other.at(pair, |row| row.e_o_l1));
            if !own.is_empty() && own.len() == theirs.len() {
                found.extend(spearman(&own, &theirs));
                ratios.push(theirs.iter().sum::<f64>() / own.iter().sum::<f64>());
            }
        }
        let ends = |values: &[f64]| {
            Some((
                values.iter().copied().min_by(f64::total_cmp)?,
                values.iter().copied().max_by(f64::total_cmp)?,
            ))
        };
        let ((least, most), (low, high)) = (ends(&found)?, ends(&ratios)?);
        Some(format!("{least:.2} to {most:.2} | {low:.2} to {high:.2} ×"))
    }

    fn mean(&self, pair: &str, column: impl Fn(&SensitivityRow) -> f64) -> Option<f64> {
        let values = self.at(pair, column);
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    fn means(&self, column: fn(&SensitivityRow) -> f64) -> Option<String> {
        let found: Option<Vec<String>> = ["KV8", "KV4", "KV2"]
            .into_iter()
            .map(|pair| Some(format!("{:.1} %", 100.0 * self.mean(pair, column)?)))
            .collect();
        Some(found?.join(", "))
    }

    fn growth(&self) -> Option<String> {
        let e_a = |pair| self.mean(pair, |row| row.e_a);
        let (eight, four, two) = (e_a("KV8")?, e_a("KV4")?, e_a("KV2")?);
        Some(format!("{:.1} ×, {:.1} ×", four / eight, two / four))
    }

    /// Layers whose error of output is larger with the first pair than with the second, each time.
    fn larger(&self, pairs: [(&str, &str); 2]) -> Option<String> {
        let found = pairs.map(|(first, second)| {
            let e_o = |pair| self.at(pair, |row| row.e_o_l1);
            let layers = e_o(first).into_iter().zip(e_o(second)).enumerate();
            let larger: Vec<usize> = layers.filter(|(_, (a, b))| a > b).map(|(layer, _)| layer).collect();
            (e_o(first).len(), larger)
        });
        let all = found[0].0;
        let text = |(_, layers): &(usize, Vec<usize>)| match layers.len() {
            0 => String::from("none"),
            few if few * 3 <= all => format!("{few} of {all} ({})", joined(layers)),
            many => format!("{many} of {all}"),
        };
        (all > 0).then(|| format!("{}; {}", text(&found[0]), text(&found[1])))
    }

    fn keys_first(&self) -> Option<String> {
        self.larger([("K4V8", "K8V4"), ("K2V4", "K4V2")])
    }

    fn values_first(&self) -> Option<String> {
        self.larger([("K8V4", "K4V8"), ("K4V2", "K2V4")])
    }

    fn most_sensitive(&self, pair: &str) -> Option<String> {
        let e_o = self.at(pair, |row| row.e_o_l1);
        let mut layers: Vec<usize> = (0..e_o.len()).collect();
        layers.sort_by(|&a, &b| e_o[b].total_cmp(&e_o[a]));
        layers.truncate(5);
        (!layers.is_empty()).then(|| joined(&layers))
    }

    fn spread(&self, pair: &str) -> Option<String> {
        let e_o = self.at(pair, |row| row.e_o_l1);
        let most = e_o.iter().copied().fold(0.0, f64::max);
        Some(format!("{:.1} ×", most / median(e_o)?))
    }
}

fn joined(layers: &[usize]) -> String {
    layers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// The front's best map of no more bits than each uniform one.
fn mixed_against_uniform(rows: &[ParetoRow], line: &mut impl FnMut(&str, Option<String>)) {
    let uniform = rows.iter().filter(|row| row.role == Role::Uniform);
    for row in uniform.filter(|row| (2.5..=6.0).contains(&row.equivalent_bits)) {
        let no_more = |other: &&ParetoRow| {
            other.role != Role::Uniform && other.equivalent_bits <= row.equivalent_bits + 1e-9
        };
        let loss = |row: &ParetoRow| row.select_loss.unwrap_or(f64::INFINITY);
        let best = rows.iter().filter(no_more).min_by(|a, b| loss(a).total_cmp(&loss(b)));
        let seen = best.filter(|best| loss(best).is_finite()).map(|best| {
            format!("{:.4} against {:.4}, at {:.2} bits", loss(best), loss(row), best.equivalent_bits)
        });
        line(
            &format!("loss on the select split of the front's best map of no more bits than {}", row.map),
            seen,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(layer: usize, pair: &str, e_a: f64, e_o: f64) -> SensitivityRow {
        SensitivityRow {
            layer,
            pair: pair.parse().expect("a pair"),
            equivalent_bits: 4.0,
            e_k_l1: 0.01,
            e_k_elementwise: 0.0,
            e_v_l1: 0.0,
            e_v_elementwise: 0.0,
            e_a,
            e_o_l1: e_o,
            e_o_elementwise: 0.0,
        }
    }

    #[test]
    fn factors_and_layers_are_read_off_the_rows() {
        let errors = Errors(vec![
            row(0, "KV8", 1.0, 0.1),
            row(0, "KV4", 3.0, 0.2),
            row(0, "KV2", 6.0, 0.3),
            row(0, "K4V8", 0.0, 0.5),
            row(0, "K8V4", 0.0, 0.4),
            row(1, "KV4", 5.0, 0.9),
            row(1, "K4V8", 0.0, 0.1),
            row(1, "K8V4", 0.0, 0.2),
        ]);
        assert_eq!(errors.growth().expect("all pairs"), "4.0 ×, 1.5 ×");
        assert_eq!(errors.most_sensitive("KV4").expect("measured"), "1, 0");
        assert_eq!(errors.keys_first().expect("measured"), "1 of 2; none");
        assert_eq!(errors.most_sensitive("KV1"), None);
        let turned = Errors(vec![row(0, "KV4", 0.0, 1.8), row(1, "KV4", 0.0, 0.4)]);
        assert_eq!(errors.against(&turned).expect("one pair in common"), "-1.00 to -1.00 | 2.00 to 2.00 ×");
    }
}
