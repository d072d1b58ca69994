use kvtune::cache::Units;
use kvtune::precision::PrecisionPair;
use kvtune::progress::Silent;
use kvtune::quant::Prefill;
use kvtune::sensitivity::{Errors, isolated};
use serde_json::{Value, json};

use crate::fixture::{all, scheme};

/// Relative; the elementwise mean is ruled by elements near zero, where f32 and f64 already differ.
const L1: f64 = 0.01;
const ELEMENTWISE: f64 = 0.10;

fn check(row: &Value, column: &str, found: f64, tolerance: f64, what: &str) {
    if let Some(expected) = row[column].as_f64() {
        let close = (found - expected).abs() <= tolerance * expected.abs().max(1e-9);
        assert!(close, "{what} {column}: found {found}, expected {expected}");
    }
}

fn check_row(row: &Value, errors: Errors, what: &str) {
    check(row, "e_k_l1", errors.e_k_l1, L1, what);
    check(row, "e_v_l1", errors.e_v_l1, L1, what);
    check(row, "e_a", errors.e_a, L1, what);
    check(row, "e_o_l1", errors.e_o_l1, L1, what);
    check(row, "e_k_elementwise", errors.e_k_elementwise, ELEMENTWISE, what);
    check(row, "e_v_elementwise", errors.e_v_elementwise, ELEMENTWISE, what);
    check(row, "e_o_elementwise", errors.e_o_elementwise, ELEMENTWISE, what);
}

#[test]
fn errors_without_accumulation_are_the_references() {
    for model in all() {
        for (name, rows) in model.sensitivity["rows"].as_object().unwrap() {
            let options = json!({"one_bit": "two-level"});
            let simulation = model.simulation(&scheme(&model.expected["schemes"][name], &options));
            let rows = rows.as_array().unwrap();
            let mut pairs: Vec<PrecisionPair> = Vec::new();
            for row in rows {
                let pair = row["pair"].as_str().unwrap().parse().unwrap();
                if !pairs.contains(&pair) {
                    pairs.push(pair);
                }
            }
            let units = Units::prompt(model.ids.len(), Prefill::Dequantized);
            let table =
                isolated::measure(&model.decoder, &simulation, &pairs, &model.ids, &units, &Silent).unwrap();
            for row in rows {
                let layer = row["layer"].as_u64().unwrap() as usize;
                let pair = row["pair"].as_str().unwrap().parse().unwrap();
                let column = pairs.iter().position(|&p| p == pair).unwrap();
                let what = format!("{} {name} layer {layer} {pair}", model.name);
                check_row(row, table.layers[layer][column].errors(), &what);
            }
        }
    }
}
