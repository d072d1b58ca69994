//! Windows and questions on a made Llama of one layer and six tokens.

use std::sync::Mutex;

use burn_flex::Flex;
use kvtune_kernels::statistics::log_sum_exp;

use super::*;
use crate::cache::CacheKind;
use crate::model::restore::{AsIs, Restore, Step};
use crate::model::test_data::tiny_directory;
use crate::model::{Checkpoint, Tokenizer, to_host};
use crate::precision::PrecisionMap;
use crate::progress::Silent;
use crate::tasks::answers::Response;

/// Words `a` to `f`, one token each.
const TOKENIZER: &str = r#"{"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"},
    "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5}}}"#;

struct Model {
    decoder: Decoder<Flex>,
    tokenizer: Tokenizer,
    simulation: Simulation,
}

fn model() -> Model {
    let folder = tiny_directory(|tensors| {
        // A counter makes all tokens alike; sines do not.
        for (_, _, values) in tensors.iter_mut().filter(|(name, ..)| !name.contains("norm")) {
            values.iter_mut().enumerate().for_each(|(i, value)| *value = (i as f32 * 1.7).sin());
        }
    });
    std::fs::write(folder.path().join("tokenizer.json"), TOKENIZER).expect("written");
    let checkpoint = Checkpoint::open(folder.path()).expect("a model");
    let decoder = Decoder::load(&checkpoint, &Default::default()).expect("weights");
    let simulation = simulation(&decoder, &Scheme::per_token_asym(), 32).expect("a scheme for any model");
    Model { decoder, tokenizer: Tokenizer::load(&checkpoint).expect("a tokenizer"), simulation }
}

fn uniform(pair: &str) -> PrecisionMap {
    PrecisionMap::uniform(1, pair.parse().expect("a pair"))
}

fn text(count: u32) -> Vec<u32> {
    (0..count).map(|i| (i * i + i / 3) % 6).collect()
}

/// Adds to the logits what layer 0 left and how many steps there were before; hears of every step's length.
#[derive(Default)]
struct Nudge {
    lengths: Mutex<Vec<usize>>,
}

impl Restore for Nudge {
    type State = usize;

    fn layers(&self) -> &[usize] {
        &[0]
    }

    fn begin(&self, _prompt: usize) -> usize {
        0
    }

    fn restore(&self, steps: &mut usize, step: Step<'_>) {
        self.lengths.lock().expect("no panic").push(step.length);
        for (index, logit) in step.logits.iter_mut().enumerate() {
            *logit +=
                (step.earlier[0][index] * 9.0 + *steps as f32 * index as f32).sin() * 3.0 + step.last[0];
        }
        *steps += 1;
    }
}

/// What the model says after the last of some tokens.
fn log_probability(decoder: &Decoder<Flex>, before: &[u32], next: u32) -> f64 {
    let hidden = decoder.forward(before, &mut decoder.full_caches()).expect("a pass");
    let logits = to_host(decoder.logits(hidden.narrow(0, before.len() - 1, 1)));
    f64::from(logits[next as usize]) - log_sum_exp(&logits)
}

fn full_nll(model: &Model, windows: &[Window<'_>]) -> Tally {
    let maps = [uniform("KV2")];
    let scores =
        score_windows(&model.decoder, &model.simulation, CacheKind::Simulated, &maps, windows, 1, &Silent);
    Tally::pooled(&scores.expect("scored")[0].tallies)
}

#[test]
fn sliding_windows_score_each_token_once_behind_the_tokens_that_they_hold() {
    let (model, text) = (model(), text(13));
    for (bos, len, stride) in [(None, 6, 2), (None, 5, 4), (Some(1), 6, 3), (Some(1), 4, 4), (None, 4, 4)] {
        let found = full_nll(&model, &Window::slide(bos, &text, len, stride));
        let (mut nll, mut positions) = (0.0, 0);
        let whole = (text.len() - len) / stride * stride + len;
        for at in 0..whole {
            // The first window that has the token scores it: every later one has it among its context.
            let start = if at < len { 0 } else { (at - len) / stride * stride + stride };
            let before: Vec<u32> = bos.into_iter().chain(text[start..at].iter().copied()).collect();
            if !before.is_empty() {
                nll -= log_probability(&model.decoder, &before, text[at]);
                positions += 1;
            }
        }
        assert_eq!(found.positions, positions, "{bos:?} {len} {stride}");
        assert!((found.nll_full - nll).abs() < 1e-4, "{bos:?} {len} {stride}: {} for {nll}", found.nll_full);
    }
}

#[test]
fn a_second_score_leaves_the_first_as_it_is_and_begins_where_scoring_does() {
    let (model, text) = (model(), text(13));
    let (map, nudge) = (uniform("KV2"), Nudge::default());
    let windows = Window::slide(None, &text, 6, 3);
    let kind = CacheKind::Simulated;
    let plain = score_windows(
        &model.decoder,
        &model.simulation,
        kind,
        std::slice::from_ref(&map),
        &windows,
        1,
        &Silent,
    );
    let entries = [Entry { map: &map, restore: Some(&nudge) }];
    let both = score_entries(&model.decoder, &model.simulation, kind, &entries, &windows, 1, &Silent);
    let (plain, both) = (plain.expect("scored"), both.expect("scored"));
    assert_eq!(plain[0].tallies, both[0].tallies);
    assert_ne!(both[0].tallies, both[0].restored);
    assert_eq!(*nudge.lengths.lock().expect("no panic"), [1, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5]);
}

/// A text to write and choices of one and of several tokens, with and without a prefix.
fn questions() -> Vec<Question> {
    let write = || TokenAsk::Write { stop: vec!["f f f".into()], max_new_tokens: 9 };
    let choose = |continuations: &[&[u32]]| TokenAsk::Choose {
        continuations: continuations.iter().map(|tokens| tokens.to_vec()).collect(),
    };
    let mut questions = Vec::new();
    for prefix in [vec![], vec![0, 4, 5]] {
        for ask in [write(), choose(&[&[0], &[4]]), choose(&[&[0, 4, 5], &[4]])] {
            questions.push(Question { prefix: prefix.clone(), rest: vec![5, 0, 4, 1], ask });
        }
    }
    questions
}

fn answers<R: Restore>(model: &Model, of: &[(&PrecisionMap, Option<&R>)], lanes: usize) -> Vec<Vec<Reply>> {
    let configured = |&(map, restore): &(_, _)| Configured {
        simulation: &model.simulation,
        kind: CacheKind::Packed,
        map,
        restore,
    };
    let configured: Vec<Configured<'_, R>> = of.iter().map(configured).collect();
    answer(&model.decoder, &model.tokenizer, &configured, &questions(), (lanes, 2), &Silent).expect("answers")
}

#[test]
fn repaired_lanes_answer_as_they_do_alone_and_leave_the_others_as_they_are() {
    let (model, nudge) = (model(), Nudge::default());
    let (low, high) = (uniform("KV2"), uniform("KV8"));
    let plain = answers::<AsIs>(&model, &[(&low, None), (&high, None)], 3);
    let alone = answers(&model, &[(&low, Some(&nudge))], 1);
    for lanes in [1, 5, 32] {
        let mixed = answers(&model, &[(&low, None), (&low, Some(&nudge)), (&high, None)], lanes);
        assert_eq!([&mixed[0], &mixed[2]], [&plain[0], &plain[1]], "{lanes} lanes");
        assert_eq!(mixed[1], alone[0], "{lanes} lanes");
    }
    for (question, (plain, repaired)) in plain[0].iter().zip(&alone[0]).enumerate() {
        assert_ne!(plain.response, repaired.response, "question {question}");
    }
}

#[test]
fn an_answer_that_is_cut_is_the_one_that_a_lower_limit_lets_be_written() {
    let (model, map) = (model(), uniform("KV4"));
    let tools = (&model.decoder.config().eos_token_ids[..], &model.tokenizer);
    let whole = answers::<AsIs>(&model, &[(&map, None)], 4).remove(0);
    let configured = Configured::<AsIs> {
        simulation: &model.simulation,
        kind: CacheKind::Packed,
        map: &map,
        restore: None,
    };
    for most in [1, 4, 9] {
        let mut limited = questions();
        for question in &mut limited {
            if let TokenAsk::Write { max_new_tokens, .. } = &mut question.ask {
                *max_new_tokens = most;
            }
        }
        let cut: Vec<Reply> = whole
            .iter()
            .zip(&questions())
            .map(|(reply, question)| cut(reply, question, most, tools).expect("tokens of the model"))
            .collect();
        let configured = std::slice::from_ref(&configured);
        let written = answer(&model.decoder, &model.tokenizer, configured, &limited, (4, 2), &Silent);
        assert_eq!(cut, written.expect("answers")[0], "{most} tokens");
    }
    assert!(whole[0].tokens.len() > 4, "a text that is cut: {:?}", whole[0]);
}

#[test]
fn steps_of_an_answer_are_told_from_the_prompts_last_token_on() {
    let (model, map) = (model(), uniform("KV4"));
    let nudge = Nudge::default();
    answers(&model, &[(&map, Some(&nudge))], 1);
    let lengths = nudge.lengths.into_inner().expect("no panic");
    let written: usize =
        answers(&model, &[(&map, Some(&Nudge::default()))], 1)[0].iter().map(|r| r.tokens.len()).sum();
    // Texts come first: the lengths of both, then those of choices, in the order of the questions.
    let (texts, choices) = lengths.split_at(written);
    assert!(texts.starts_with(&[4]) && texts.contains(&7), "{texts:?}");
    // One pass for choices of one token, and one for each of the others; a prefix of three stands before the last.
    let mut choices = choices.to_vec();
    choices.sort_unstable();
    assert_eq!(choices, [4, 4, 4, 5, 6, 7, 7, 7, 8, 9]);
}

#[test]
fn a_repaired_choice_is_as_likely_as_the_changed_logits_say() {
    let (model, map, nudge) = (model(), uniform("KV16"), Nudge::default());
    let replies = answers(&model, &[(&map, Some(&nudge))], 4).remove(0);
    let fed = [5, 0, 4, 1, 0, 4];
    let passed = model.decoder.forward_tapped(&fed, &mut model.decoder.full_caches(), &[0]).expect("a pass");
    let rows = |states: crate::model::Tensor2<Flex>, width: usize| -> Vec<Vec<f32>> {
        to_host(states).chunks(width).map(<[f32]>::to_vec).collect()
    };
    let (logits, last) = (rows(model.decoder.logits(passed.0.clone()), 6), rows(passed.0, 8));
    let earlier = rows(passed.1[0].clone(), 8);
    let (mut steps, mut expected) = (0, 0.0);
    for (position, token) in [(3, 0), (4, 4), (5, 5)] {
        let mut row = logits[position].clone();
        let step = Step {
            length: position + 1,
            last: &last[position],
            earlier: &[&earlier[position]],
            logits: &mut row,
        };
        nudge.restore(&mut steps, step);
        expected += f64::from(row[token]) - log_sum_exp(&row);
    }
    let Response::LogLikelihoods(found) = &replies[2].response else { panic!("a choice") };
    assert!((found[0] - expected).abs() < 1e-5, "{found:?} for {expected}");
}
