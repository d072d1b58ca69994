//! The same numbers however weights are held: as f32, as they are stored, or a layer at a time.

use std::ops::ControlFlow;
use std::sync::Arc;

use burn::backend::Autodiff;
use burn_flex::Flex;
use kvtune::cache::{CacheKind, LayerCache, Units};
use kvtune::model::{Decoder, WeightType, generate, to_host};
use kvtune::precision::{Bits, PrecisionMap, PrecisionPair};
use kvtune::progress::Silent;
use kvtune::quant::{Prefill, Scheme};
use kvtune::score::{Scorer, Tally, Window, score_windows};
use kvtune::sensitivity::position::{Mode, follow_all};
use kvtune::sensitivity::{accumulated, isolated};
use kvtune::trace::{Document, Split};

use crate::fixture::{Fixture, all};

const LENGTHS: [usize; 4] = [1, 5, 33, 150];

fn logits(decoder: &Decoder<Flex>, tokens: &[u32]) -> Vec<f32> {
    to_host(decoder.logits(decoder.forward(tokens, &mut decoder.full_caches()).unwrap()))
}

fn continuations(decoder: &Decoder<Flex>, ids: &[u32]) -> Vec<Vec<u32>> {
    let prompts = [&ids[..20], &ids[40..77], &ids[9..10]];
    let go_on = |_, _| ControlFlow::Continue(());
    generate::greedy_many(decoder, || decoder.full_caches(), &prompts, 8, 2, &go_on).unwrap()
}

#[test]
fn weights_held_as_they_are_stored_change_no_bit() {
    let mut seen = 0;
    for model in all().iter().filter(|model| model.name.contains("bf16")) {
        let held = Decoder::load_as(&model.checkpoint, &Default::default(), WeightType::Bf16).unwrap();
        for len in LENGTHS {
            let tokens = &model.ids[..len];
            assert_eq!(logits(&held, tokens), logits(&model.decoder, tokens), "{} of {len}", model.name);
        }
        assert_eq!(continuations(&held, &model.ids), continuations(&model.decoder, &model.ids));
        seen += 1;
    }
    assert!(seen > 0 || all().is_empty(), "one model is stored as bf16");
}

#[test]
fn weights_rounded_to_f16_are_near() {
    for model in all() {
        let held = Decoder::load_as(&model.checkpoint, &Default::default(), WeightType::F16).unwrap();
        for len in LENGTHS {
            let tokens = &model.ids[..len];
            let full = logits(&model.decoder, tokens);
            let largest = full.iter().map(|x| x.abs()).fold(0.0, f32::max);
            let pairs = logits(&held, tokens).into_iter().zip(&full);
            let far = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(far < 1e-2 * largest, "{} of {len}: off by {far} of {largest}", model.name);
            assert!(far > 0.0 || model.name.contains("bf16"), "{}: f16 rounds something", model.name);
        }
    }
}

#[test]
fn only_flex_holds_halves() {
    for model in all().iter().take(1) {
        let held =
            Decoder::<Autodiff<Flex>>::load_as(&model.checkpoint, &Default::default(), WeightType::F16);
        let Err(error) = held else { panic!("plain operations know f32 only") };
        assert_eq!(
            error.to_string(),
            "weights of type f16 cannot be held on this device, which has f32 only"
        );
    }
}

/// Also with as many lanes as would be enough for the engine.
#[test]
fn a_lane_is_the_same_bits_among_any_number() {
    for model in all() {
        let decoder = &model.decoder;
        let prefilled = || {
            let mut caches = decoder.full_caches();
            decoder.forward(&model.ids[..9], &mut caches).unwrap();
            caches
        };
        let tokens: Vec<u32> = (0..45).map(|lane| model.ids[lane]).collect();
        let mut lanes: Vec<_> = tokens.iter().map(|_| prefilled()).collect();
        let together = to_host(decoder.logits(decoder.step(&tokens, &mut lanes).unwrap()));
        let vocab = decoder.config().vocab_size;
        for (token, row) in tokens.iter().zip(together.chunks(vocab)) {
            let mut caches = prefilled();
            let alone = decoder.step(&[*token], std::slice::from_mut(&mut caches)).unwrap();
            assert_eq!(to_host(decoder.logits(alone)), row, "{}", model.name);
            assert_eq!(caches[0].len(), 10);
        }
    }
}

fn pair(key: u8, value: u8) -> PrecisionPair {
    let bits = |bits: u8| Bits::try_from(bits).unwrap();
    PrecisionPair::new(bits(key), bits(value))
}

fn streamed(model: &Fixture) -> Decoder<Flex> {
    let decoder = Decoder::stream(Arc::clone(&model.checkpoint), &Default::default()).unwrap();
    assert!(decoder.is_streamed() && !model.decoder.is_streamed());
    decoder
}

#[test]
fn a_streamed_model_computes_what_a_resident_one_does() {
    for model in all() {
        let streamed = streamed(&model);
        for len in LENGTHS {
            let tokens = &model.ids[..len];
            assert_eq!(logits(&streamed, tokens), logits(&model.decoder, tokens), "{} of {len}", model.name);
        }
        assert_eq!(continuations(&streamed, &model.ids), continuations(&model.decoder, &model.ids));
        let bias = |decoder: &Decoder<Flex>| decoder.rotated_key_bias(1, 20);
        assert_eq!(bias(&streamed), bias(&model.decoder), "{}", model.name);
    }
}

#[test]
fn a_streamed_model_has_the_same_errors() {
    let pairs = [pair(4, 4), pair(2, 8), pair(4, 2)];
    for model in all() {
        let streamed = streamed(&model);
        let simulation = model.simulation(&Scheme::kivi());
        let sequences = [(&model.ids[..], 100), (&model.ids[..90], 64), (&model.ids[50..], 70)];
        let with_units = sequences.map(|(ids, prompt)| (ids, Units::prompt(prompt, Prefill::Dequantized)));
        let isolated =
            |decoder| isolated::measure_all((decoder, &simulation), &pairs, &with_units, 2, &Silent).unwrap();
        assert_eq!(isolated(&streamed), isolated(&model.decoder), "{}", model.name);
        let accumulated = |decoder| {
            accumulated::measure_all((decoder, &simulation), &pairs, &with_units, 2, &Silent).unwrap()
        };
        assert_eq!(accumulated(&streamed), accumulated(&model.decoder), "{}", model.name);
        for mode in [Mode::TeacherForced, Mode::FreeRunning] {
            let follow = |decoder| {
                follow_all((decoder, &simulation), &pairs[..2], &sequences, mode, 2, &Silent).unwrap()
            };
            assert_eq!(follow(&streamed), follow(&model.decoder), "{} {mode:?}", model.name);
        }
    }
}

fn document(model: &Fixture, prompt_len: usize, len: usize) -> Document {
    let tokens = model.ids[..len].to_vec();
    let hidden = model.decoder.forward(&tokens[..len - 1], &mut model.decoder.full_caches()).unwrap();
    Document {
        id: len.to_string(),
        domain: "prose".into(),
        split: Split::Search,
        prompt_len,
        tokens,
        top_ids: Vec::new(),
        top_logits: Vec::new(),
        log_sum_exp: Vec::new(),
        hidden: to_host(hidden.narrow(0, prompt_len - 1, len - prompt_len)),
    }
}

#[test]
fn a_streamed_model_has_the_same_scores() {
    for model in all() {
        let streamed = streamed(&model);
        let simulation = model.simulation(&Scheme::kivi());
        let documents = [document(&model, 100, 150), document(&model, 70, 99), document(&model, 40, 120)];
        let layers = model.decoder.config().num_hidden_layers;
        let mut last_only = vec![PrecisionPair::FULL; layers];
        last_only[layers - 1] = pair(2, 2);
        let maps = [
            PrecisionMap::uniform(layers, pair(4, 2)),
            PrecisionMap::new(last_only),
            PrecisionMap::uniform(layers, PrecisionPair::FULL),
        ];
        let score = |decoder, threads| {
            let documents = documents.iter().collect();
            Scorer::new(decoder, &simulation, documents, threads).evaluate(&maps, &Silent).unwrap()
        };
        let resident = score(&model.decoder, 1);
        assert_eq!(score(&streamed, 2), resident, "{}", model.name);
        assert_eq!(score(&model.decoder, 2), resident, "{}", model.name);
        for (document, full) in documents.iter().zip(&resident[2]) {
            assert!(full.flips == 0 && full.kl.abs() < 1e-9, "{} {}: {full:?}", model.name, document.id);
        }
        let windows = [&model.ids[..70], &model.ids[70..140]].map(Window::plain);
        let windows = |decoder| {
            let kind = CacheKind::Packed;
            score_windows(decoder, &simulation, kind, &maps, &windows, 2, &Silent).unwrap()
        };
        assert_eq!(windows(&streamed), windows(&model.decoder), "{}", model.name);
    }
}

/// Each map by itself: what stands beside it, and the layers that it shares with full precision, change nothing.
#[test]
fn a_map_scores_the_same_alone() {
    for model in all() {
        let simulation = model.simulation(&Scheme::kivi());
        let document = document(&model, 100, 150);
        let layers = model.decoder.config().num_hidden_layers;
        let mut last_only = vec![PrecisionPair::FULL; layers];
        last_only[layers - 1] = pair(2, 2);
        let maps = [PrecisionMap::uniform(layers, pair(4, 2)), PrecisionMap::new(last_only)];
        let score = |maps: &[PrecisionMap]| -> Vec<Vec<Tally>> {
            Scorer::new(&model.decoder, &simulation, vec![&document], 2).evaluate(maps, &Silent).unwrap()
        };
        let together = score(&maps);
        for (map, together) in maps.iter().zip(&together) {
            assert_eq!(&score(std::slice::from_ref(map))[0], together, "{}", model.name);
        }
    }
}
