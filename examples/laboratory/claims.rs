//! The paper's claims on errors and maps, against what jobs found: figures of the files alone, no model is run.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use kvtune::precision::PrecisionPair;
use kvtune::report::{Among, ParetoRow, PromptRow, Role, SensitivityRow, read_csv};
use kvtune::sensitivity::correlation::spearman;

use crate::statistics::median;

/// What one job's folder says of each claim, a line each.
pub(crate) fn run(folder: &Path) -> anyhow::Result<String> {
    let errors = Errors(read_csv(&folder.join("sensitivity.csv")).context("not the folder of a job")?);
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
        line("rank correlation of layers between prompts, mean and least", agreement(&rows, Among::Prompts));
        line("between domains", agreement(&rows, Among::Domains));
    }
    let pareto = folder.join("pareto.csv");
    if pareto.exists() {
        mixed_against_uniform(&read_csv(&pareto)?, &mut line);
    }
    Ok(text + "\n")
}

/// Rows of `sensitivity.csv`.
struct Errors(Vec<SensitivityRow>);

impl Errors {
    /// A column at a pair, by layer; empty where the job did not measure the pair.
    fn at(&self, pair: &str, column: impl Fn(&SensitivityRow) -> f64) -> Vec<f64> {
        let pair: Option<PrecisionPair> = pair.parse().ok();
        self.0.iter().filter(|row| Some(row.pair) == pair).map(column).collect()
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

/// Spearman's correlation of e_o over layers between every two prompts, or domains, at every pair.
fn agreement(rows: &[PromptRow], among: Among) -> Option<String> {
    let rows: Vec<&PromptRow> = rows.iter().filter(|row| row.among == among).collect();
    let key = |row: &&PromptRow| (row.name.clone(), row.pair);
    let mut samples: Vec<(String, PrecisionPair, Vec<f64>)> = Vec::new();
    for row in &rows {
        let (name, pair) = key(row);
        match samples.iter_mut().find(|sample| (&sample.0, sample.1) == (&name, pair)) {
            Some(sample) => sample.2.push(row.e_o_l1),
            None => samples.push((name, pair, vec![row.e_o_l1])),
        }
    }
    let both = samples.iter().enumerate().flat_map(|(at, a)| samples[at + 1..].iter().map(move |b| (a, b)));
    let found: Vec<f64> =
        both.filter(|(a, b)| a.1 == b.1).filter_map(|(a, b)| spearman(&a.2, &b.2)).collect();
    let least = found.iter().copied().min_by(f64::total_cmp)?;
    Some(format!("{:.3}, {least:.3}", found.iter().sum::<f64>() / found.len() as f64))
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
    }
}
