use std::ops::ControlFlow;

use burn_flex::Flex;
use kvtune::model::{Decoder, generate, to_host};
use kvtune::score::full_caches;
use kvtune_kernels::statistics::log_sum_exp;
use serde_json::Value;

use crate::models::{QWEN, SMOLLM2, decoder, golden, ids, numbers};

const LOGITS: f64 = 2e-2;
/// Ids must come in the reference's order where its logits differ by more.
const ORDERED: f64 = 1e-3;
/// Relative.
const PERPLEXITY: f64 = 1e-3;

#[test]
fn smollm2_says_what_the_reference_says() {
    check(SMOLLM2);
}

#[test]
fn qwen_says_what_the_reference_says() {
    check(QWEN);
}

fn check((name, file): (&str, &str)) {
    let Some(golden) = golden(&format!("logits-{name}.json")) else { return };
    let Some(decoder) = decoder(file) else { return };
    for (prompt, expected) in golden["prompts"].as_object().unwrap() {
        check_prompt(&decoder, expected, &format!("{name} {prompt}"));
    }
    for (prompt, expected) in [
        (&golden["chat"]["ids"], &golden["chat"]["greedy_ids"]),
        (&golden["prompts"]["medium128"]["ids"], &golden["greedy_after_medium128"]["greedy_ids"]),
    ] {
        let expected = ids(expected);
        let mut caches = full_caches(&decoder);
        let go_on = |_| ControlFlow::Continue(());
        let found = generate::greedy(&decoder, &mut caches, &ids(prompt), expected.len(), go_on).unwrap();
        assert_eq!(found, expected, "{name} greedy");
    }
}

fn check_prompt(decoder: &Decoder<Flex>, expected: &Value, what: &str) {
    let tokens = ids(&expected["ids"]);
    let hidden = decoder.forward(&tokens, &mut full_caches(decoder)).unwrap();
    let logits = to_host(decoder.logits(hidden));
    let vocab = decoder.config().vocab_size;
    let last = &logits[logits.len() - vocab..];
    let mut order: Vec<usize> = (0..vocab).collect();
    order.sort_by(|&a, &b| last[b].total_cmp(&last[a]));
    let (top_ids, top) = (ids(&expected["top20_ids"]), numbers(&expected["top20_logits"]));
    for (rank, (&id, &logit)) in top_ids.iter().zip(&top).enumerate() {
        assert!((f64::from(last[id as usize]) - logit).abs() < LOGITS, "{what}: {id}");
        let clear = |other: Option<&f64>| other.is_none_or(|other| (other - logit).abs() > ORDERED);
        let before = rank.checked_sub(1).and_then(|rank| top.get(rank));
        if clear(before) && clear(top.get(rank + 1)) && rank + 1 < top.len() {
            assert_eq!(order[rank], id as usize, "{what}: rank {rank}");
        }
    }
    let mut sum = 0.0;
    for (row, &next) in logits.chunks(vocab).zip(&tokens[1..]) {
        sum += f64::from(row[next as usize]) - log_sum_exp(row);
    }
    let perplexity = (-sum / (tokens.len() - 1) as f64).exp();
    let expected = expected["perplexity"].as_f64().unwrap();
    assert!((perplexity / expected - 1.0).abs() < PERPLEXITY, "{what}: {perplexity}, expected {expected}");
}
