use serde::Serialize;

use super::{Among, PromptRow};
use crate::precision::PrecisionPair;
use crate::sensitivity::correlation::spearman;

/// Spearman's correlation of layers by e_o between prompts, or between domains, read off `sensitivity-prompts.csv`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgreementMatrix {
    /// What is compared, in the plural.
    pub among: &'static str,
    /// Of the prompts or domains, in the order of the rows.
    pub names: Vec<String>,
    /// Mean over the pairs; nothing where errors do not differ between layers.
    pub rows: Vec<Vec<Option<f64>>>,
    /// Mean over all two of them and all pairs.
    pub mean: f64,
    /// The least of these.
    pub least: f64,
}

/// One matrix where there are at least two of a kind.
pub fn agreement_matrices(rows: &[PromptRow]) -> Vec<AgreementMatrix> {
    let of = |among, said| matrix(&rows.iter().filter(|row| row.among == among).collect::<Vec<_>>(), said);
    [of(Among::Prompts, "prompts"), of(Among::Domains, "domains")].into_iter().flatten().collect()
}

fn matrix(rows: &[&PromptRow], among: &'static str) -> Option<AgreementMatrix> {
    let names = distinct(rows.iter().map(|row| row.name.clone()));
    let pairs = distinct(rows.iter().map(|row| row.pair));
    let errors = |name: &str, pair: PrecisionPair| -> Vec<f64> {
        rows.iter().filter(|row| row.name == name && row.pair == pair).map(|row| row.e_o_l1).collect()
    };
    let between = |a: &str, b: &str| -> Vec<f64> {
        let correlation = |&pair: &PrecisionPair| {
            let (a, b) = (errors(a, pair), errors(b, pair));
            if a.len() == b.len() { spearman(&a, &b) } else { None }
        };
        pairs.iter().filter_map(correlation).collect()
    };
    let mut all = Vec::new();
    for (index, a) in names.iter().enumerate() {
        names[index + 1..].iter().for_each(|b| all.extend(between(a, b)));
    }
    let least = all.iter().copied().min_by(f64::total_cmp)?;
    let cell = |a: &String, b: &String| mean(&between(a, b));
    let table = names.iter().map(|a| names.iter().map(|b| cell(a, b)).collect()).collect();
    Some(AgreementMatrix { among, rows: table, mean: mean(&all)?, least, names })
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Without repetition, in the order in which they first come.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(name: &str, errors: [f64; 3]) -> Vec<PromptRow> {
        let pair = "KV2".parse().expect("a pair");
        let row = |(layer, e): (usize, f64)| PromptRow {
            among: Among::Prompts,
            name: name.to_owned(),
            layer,
            pair,
            e_o_l1: e,
            e_o_elementwise: e,
        };
        errors.into_iter().enumerate().map(row).collect()
    }

    #[test]
    fn equal_rankings_agree_and_reversed_ones_do_not() {
        let all =
            [rows("a", [1.0, 2.0, 3.0]), rows("b", [0.1, 0.2, 9.0]), rows("c", [3.0, 2.0, 1.0])].concat();
        let found = agreement_matrices(&all);
        let [matrix] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(matrix.rows[0], [Some(1.0), Some(1.0), Some(-1.0)]);
        assert!((matrix.least + 1.0).abs() < 1e-12 && (matrix.mean + 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn one_prompt_agrees_with_nobody() {
        assert_eq!(agreement_matrices(&rows("a", [1.0, 2.0, 3.0])), []);
    }
}
