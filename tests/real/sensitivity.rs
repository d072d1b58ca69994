use kvtune::cache::Units;
use kvtune::precision::PrecisionPair;
use kvtune::progress::Silent;
use kvtune::quant::{Metadata, OneBit, Scheme};
use kvtune::score::simulation;
use kvtune::sensitivity::isolated;

use crate::models::{SMOLLM2, decoder, golden, ids};

/// Relative.
const CLOSE: f64 = 0.01;

#[test]
fn smollm2_loses_what_the_reference_says() {
    for (name, scheme) in [("per-token-asym", Scheme::per_token_asym()), ("kivi", Scheme::kivi())] {
        let scheme = Scheme { metadata: Metadata::F32, one_bit: OneBit::Rtn, ..scheme };
        let Some(golden) = golden(&format!("sensitivity-{}-{name}.json", SMOLLM2.0)) else { return };
        let Some(decoder) = decoder(SMOLLM2.1) else { return };
        let tokens = ids(&golden["ids"]);
        let rows = golden["rows"].as_array().unwrap();
        let in_layer_0 = rows.iter().filter(|row| row["layer"] == 0);
        let pairs: Vec<PrecisionPair> =
            in_layer_0.map(|row| row["pair"].as_str().unwrap().parse().unwrap()).collect();
        let simulation = simulation(&decoder, &scheme, tokens.len()).unwrap();
        let units = Units::prompt(tokens.len(), scheme.prefill);
        let started = std::time::Instant::now();
        let table = isolated::measure(&decoder, &simulation, &pairs, &tokens, &units, &Silent).unwrap();
        eprintln!("{name}: {} pairs in {:.1} s", pairs.len(), started.elapsed().as_secs_f64());
        for row in rows {
            let pair: PrecisionPair = row["pair"].as_str().unwrap().parse().unwrap();
            let layer = row["layer"].as_u64().unwrap() as usize;
            let column = pairs.iter().position(|&known| known == pair).unwrap();
            let found = table.layers[layer][column].errors();
            for (column, found) in [
                ("e_k_l1", found.e_k_l1),
                ("e_v_l1", found.e_v_l1),
                ("e_a", found.e_a),
                ("e_o_l1", found.e_o_l1),
            ] {
                let expected = row[column].as_f64().unwrap();
                let off = (found - expected).abs() / expected;
                assert!(off < CLOSE, "{name} layer {layer} {pair} {column}: {found}, expected {expected}");
            }
        }
    }
}
