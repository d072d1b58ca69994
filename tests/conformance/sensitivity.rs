use kvtune::cache::{LayerCache, Units};
use kvtune::precision::PrecisionPair;
use kvtune::progress::Silent;
use kvtune::quant::Prefill;
use kvtune::sensitivity::{Errors, isolated};
use kvtune_kernels::statistics::root_mean_square;
use serde_json::{Value, json};

use crate::fixture::{Fixture, all, scheme};

/// Relative.
const L1: f64 = 0.01;
/// Relative; this mean is ruled by the elements nearest zero.
const ELEMENTWISE: f64 = 0.10;
/// Of the rms. An output nearer zero has under one digit that f32 determines (rounding alone moves outputs by
/// about 1e-6 of the rms), and one such element can rule the elementwise mean of its layer.
const DETERMINED: f32 = 1e-5;

fn check(row: &Value, column: &str, found: f64, tolerance: f64, what: &str) {
    if let Some(expected) = row[column].as_f64() {
        let close = (found - expected).abs() <= tolerance * expected.abs().max(1e-9);
        assert!(close, "{what} {column}: found {found}, expected {expected}");
    }
}

fn check_row(row: &Value, errors: Errors, determined: bool, what: &str) {
    check(row, "e_k_l1", errors.e_k_l1, L1, what);
    check(row, "e_v_l1", errors.e_v_l1, L1, what);
    check(row, "e_a", errors.e_a, L1, what);
    check(row, "e_o_l1", errors.e_o_l1, L1, what);
    check(row, "e_k_elementwise", errors.e_k_elementwise, ELEMENTWISE, what);
    check(row, "e_v_elementwise", errors.e_v_elementwise, ELEMENTWISE, what);
    if determined {
        check(row, "e_o_elementwise", errors.e_o_elementwise, ELEMENTWISE, what);
    }
}

/// By layer, whether f32 determines every attention output.
fn determined(model: &Fixture) -> Vec<bool> {
    let decoder = &model.decoder;
    let angles = decoder.angles(0, model.ids.len());
    let mut hidden = decoder.embed(&model.ids);
    let mut layers = Vec::new();
    for (layer, mut cache) in decoder.full_caches().into_iter().enumerate() {
        let open = decoder.open(layer).unwrap();
        let projected = open.project(&hidden, &angles);
        let mut out = vec![0.0; model.ids.len() * decoder.shape().q_width()];
        cache.append(projected.k(), projected.v()).unwrap();
        cache.attend(projected.q(), &mut out).unwrap();
        let rms = root_mean_square(&out) as f32;
        layers.push(out.iter().all(|x| x.abs() > DETERMINED * rms));
        if !layers[layer] {
            eprintln!("{} layer {layer}: e_o elementwise is not determined by f32", model.name);
        }
        hidden = open.finish(hidden, out);
    }
    layers
}

#[test]
fn errors_without_accumulation_are_the_references() {
    for model in all() {
        let determined = determined(&model);
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
            let ids = &model.ids;
            let table = isolated::measure(&model.decoder, &simulation, &pairs, ids, &units, &Silent).unwrap();
            for row in rows {
                let layer = row["layer"].as_u64().unwrap() as usize;
                let pair = row["pair"].as_str().unwrap().parse().unwrap();
                let column = pairs.iter().position(|&p| p == pair).unwrap();
                let what = format!("{} {name} layer {layer} {pair}", model.name);
                check_row(row, table.layers[layer][column].errors(), determined[layer], &what);
            }
        }
    }
}
