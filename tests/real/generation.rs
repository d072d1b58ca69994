use std::ops::ControlFlow;

use burn_flex::Flex;
use kvtune::cache::{CacheKind, Simulation, Units};
use kvtune::model::generate::{Batch, continue_many};
use kvtune::model::{BosPolicy, Checkpoint, Decoder, Sampling, Tokenizer, to_host};
use kvtune::precision::PrecisionMap;
use kvtune::quant::Scheme;
use kvtune::score::simulation;

use crate::models::{QWEN, SMOLLM2, decoder, model_path};

const NEW_TOKENS: usize = 128;
/// Logits that are nearer than this are a tie: the kernels add in another order, which can also move a code.
const TIE: f32 = 0.05;

/// Some shorter and some longer than the 32 tokens that keys stay exact for.
const PROMPTS: [&str; 10] = [
    "The history of the steam engine begins with",
    "def binary_search(items, target):\n    \"\"\"Return the index of target in the sorted list items, or -1.\"\"\"\n",
    "Once upon a time there was a fisherman who lived with his wife in a small hut close by the sea, and every day \
     he went out to fish. One morning he drew up his line and found",
    "Question: A train leaves the station at 9:15 and travels 84 kilometers at 42 kilometers an hour. When does it \
     arrive?\nAnswer:",
    "The main differences between a virus and a bacterium are as follows.\n1.",
    "Dear Ms. Alvarez,\n\nThank you for your letter of the third of May. I am pleased to tell you that",
    "Water boils at a lower temperature on a mountain because",
    "Ingredients: two eggs, 200 g flour, half a liter of milk, a pinch of salt, butter for the pan.\n\nMethod:\n",
    "In computer science, a hash table is a data structure that maps keys to values. It uses a hash function to \
     compute an index into an array of buckets, from which the desired value can be found. In the best case,",
    "SELECT name, COUNT(*) FROM orders JOIN customers ON",
];

#[test]
fn smollm2_writes_the_same_through_packed_and_simulated_codes() {
    check(SMOLLM2);
}

#[test]
fn qwen_writes_the_same_through_packed_and_simulated_codes() {
    check(QWEN);
}

fn check((name, file): (&str, &str)) {
    let Some(decoder) = decoder(file) else { return };
    let tokenizer = Tokenizer::load(&Checkpoint::open(&model_path(file).unwrap()).unwrap()).unwrap();
    let prompts = PROMPTS.map(|prompt| tokenizer.encode_from_start(prompt, BosPolicy::Auto).unwrap());
    let longest = prompts.iter().map(Vec::len).max().unwrap() + NEW_TOKENS;
    let simulation = simulation(&decoder, &Scheme::kivi(), longest).unwrap();
    let map = PrecisionMap::uniform(decoder.config().num_hidden_layers, "KV4".parse().unwrap());
    let texts = both(&decoder, &simulation, &map, &prompts);
    for (index, (prompt, texts)) in prompts.iter().zip(texts.chunks(2)).enumerate() {
        let [simulated, packed] = texts else { unreachable!("chunks of two") };
        let same = simulated.iter().zip(packed).take_while(|(a, b)| a == b).count();
        if same == simulated.len() && same == packed.len() {
            assert!(same == NEW_TOKENS || decoder.config().eos_token_ids.contains(&simulated[same - 1]));
            continue;
        }
        let [first, second] = [simulated[same], packed[same]];
        let margin = margin(&decoder, &simulation, &map, prompt, &simulated[..same], [first, second]);
        eprintln!("{name} prompt {index}: a tie after {same} tokens, {first} over {second} by {margin:.1e}");
        assert!((0.0..TIE).contains(&margin), "{name} prompt {index}, token {same}: {margin}");
    }
}

/// The continuations through the simulated and the packed cache of each prompt in turn, all side by side.
fn both(
    decoder: &Decoder<Flex>,
    simulation: &Simulation,
    map: &PrecisionMap,
    prompts: &[Vec<u32>],
) -> Vec<Vec<u32>> {
    let twice: Vec<&[u32]> = prompts.iter().flat_map(|prompt| [&prompt[..]; 2]).collect();
    let caches = |lane: usize| {
        let kind = if lane.is_multiple_of(2) { CacheKind::Simulated } else { CacheKind::Packed };
        let units = Units::prompt(twice[lane].len(), simulation.scheme().prefill);
        Ok(simulation.any(kind, map, &units)?)
    };
    let batch = Batch { max_new: NEW_TOKENS, lanes: twice.len(), threads: 2, sampling: Sampling::GREEDY };
    continue_many(decoder, caches, &twice, &batch, |_| ControlFlow::Continue(())).unwrap()
}

/// By how much the simulated cache's logit of the first token exceeds that of the second.
fn margin(
    decoder: &Decoder<Flex>,
    simulation: &Simulation,
    map: &PrecisionMap,
    prompt: &[u32],
    continuation: &[u32],
    tokens: [u32; 2],
) -> f32 {
    let units = Units::prompt(prompt.len(), simulation.scheme().prefill);
    let mut caches = simulation.any(CacheKind::Simulated, map, &units).unwrap();
    let hidden = decoder.forward(&[prompt, continuation].concat(), &mut caches).unwrap();
    let last = hidden.dims()[0] - 1;
    let logits = to_host(decoder.logits(hidden.narrow(0, last, 1)));
    logits[tokens[0] as usize] - logits[tokens[1] as usize]
}
