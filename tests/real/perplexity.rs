use std::path::Path;

use kvtune::cache::CacheKind;
use kvtune::model::{Checkpoint, Tokenizer};
use kvtune::precision::{Bits, PrecisionMap, PrecisionPair};
use kvtune::progress::Silent;
use kvtune::quant::{Metadata, Scheme};
use kvtune::score::{Tally, Window, score_windows, simulation};
use serde_json::Value;

use crate::models::{QWEN, SMOLLM2, decoder, golden, ids, model_path, numbers};

/// Relative.
const FULL: f64 = 1e-3;
/// Relative; accumulated figures depend on rounding noise.
const QUANTIZED: f64 = 0.03;

/// Some rows of the reference's table: all of them are made anew by the commands in `results/README.md`.
#[test]
fn smollm2_reads_prose_as_the_reference_does() {
    check(SMOLLM2, &[("per-token-asym", [4, 4]), ("kivi", [4, 4]), ("kivi", [2, 2])]);
}

#[test]
fn qwen_reads_prose_as_the_reference_does() {
    check(QWEN, &[("kivi", [4, 4])]);
}

fn check((name, file): (&str, &str), wanted: &[(&str, [u8; 2])]) {
    let Some(golden) = golden(&format!("perplexity-{name}.json")) else { return };
    let Some(decoder) = decoder(file) else { return };
    let Some(tokens) = prose(file, &golden) else { return };
    let window = golden["window"].as_u64().unwrap() as usize;
    let windows: Vec<Window<'_>> = tokens.chunks_exact(window).take(4).map(Window::plain).collect();
    for (scheme_name, scheme) in [("per-token-asym", Scheme::per_token_asym()), ("kivi", Scheme::kivi())] {
        let scheme = Scheme { metadata: Metadata::F32, ..scheme };
        let is_wanted = |row: &&Value| {
            let pair = numbers(&row["pair"]).iter().map(|&bits| bits as u8).collect::<Vec<_>>();
            row["scheme"] == scheme_name
                && wanted.iter().any(|(name, bits)| *name == scheme_name && pair == bits)
        };
        let rows: Vec<&Value> = golden["quantized"].as_array().unwrap().iter().filter(is_wanted).collect();
        if rows.is_empty() {
            continue;
        }
        let maps: Vec<PrecisionMap> = rows.iter().map(|row| uniform(row, &decoder)).collect();
        let simulation = simulation(&decoder, &scheme, window).unwrap();
        let scores =
            score_windows(&decoder, &simulation, CacheKind::Simulated, &maps, &windows, 2, &Silent).unwrap();
        for (row, scores) in rows.iter().zip(&scores) {
            let pooled = Tally::pooled(&scores.tallies);
            let what = format!("{name} {scheme_name} {}", row["pair"]);
            close((pooled.nll / pooled.positions as f64).exp(), &row["windows_4"], QUANTIZED, &what);
            close(
                (pooled.nll_full / pooled.positions as f64).exp(),
                &golden["full"]["windows_4"],
                FULL,
                name,
            );
        }
    }
}

fn uniform(row: &Value, decoder: &kvtune::model::Decoder<burn_flex::Flex>) -> PrecisionMap {
    let bits = |index: usize| Bits::try_from(numbers(&row["pair"])[index] as u8).unwrap();
    PrecisionMap::uniform(decoder.config().num_hidden_layers, PrecisionPair::new(bits(0), bits(1)))
}

fn close(found: f64, expected: &Value, tolerance: f64, what: &str) {
    let expected = expected.as_f64().unwrap();
    eprintln!("{what}: {found:.4}, reference {expected:.4}");
    assert!((found / expected - 1.0).abs() < tolerance, "{what}: {found}, expected {expected}");
}

/// The reference's text as the model's tokenizer reads it, compared with the reference's own ids at both ends.
fn prose(file: &str, golden: &Value) -> Option<Vec<u32>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/wikitext-2");
    let text = std::fs::read_dir(path).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_text = name.contains("test") && !name.ends_with(".md");
        is_text.then(|| std::fs::read_to_string(entry.path()).ok()).flatten()
    })?;
    let tokenizer = Tokenizer::load(&Checkpoint::open(&model_path(file)?).unwrap()).unwrap();
    // Enough text for the tokens wanted, cut where it cannot change them.
    let mut tokens = tokenizer.encode(&text[..text.len().min(120_000)]).unwrap();
    tokens.truncate(golden["tokens"].as_u64().unwrap() as usize);
    let (first, last) = (ids(&golden["first_ids"]), ids(&golden["last_ids"]));
    assert_eq!(tokens[..first.len()], first);
    assert_eq!(tokens[tokens.len() - last.len()..], last);
    Some(tokens)
}
