use burn_flex::Flex;

use super::*;
use crate::cache::LayerCache;
use crate::model::Checkpoint;
use crate::model::test_data::tiny_directory;
use crate::progress::Silent;
use crate::quant::Scheme;
use crate::score::simulation;

/// Layers, query heads and channels of the tiny Llama.
const HEADS: u64 = 2;
const CHANNELS: usize = 4;

fn decoder() -> Decoder<Flex> {
    let folder = tiny_directory(|tensors| {
        // A counter makes all tokens alike; sines do not.
        for (_, _, values) in tensors.iter_mut().filter(|(name, ..)| !name.contains("norm")) {
            values.iter_mut().enumerate().for_each(|(i, value)| *value = (i as f32 * 1.7).sin());
        }
    });
    Decoder::load(&Checkpoint::open(folder.path()).expect("a model"), &Default::default()).expect("weights")
}

fn tokens(count: u32) -> Vec<u32> {
    (0..count).map(|i| i * i % 5).collect()
}

fn observed(documents: &[&[u32]], threads: usize) -> Observation {
    let decoder = decoder();
    let simulation = simulation(&decoder, &Scheme::per_token_asym(), 100).expect("a scheme for any model");
    let noise_bits = [2, 8].map(|bits| Bits::try_from(bits).expect("a width"));
    let setting = Setting {
        decoder: &decoder,
        simulation: &simulation,
        noise_bits: &noise_bits,
        seed: 0,
        threads,
        observer: &Silent,
    };
    observe(&setting, documents).expect("finite activations")
}

#[test]
fn every_late_query_of_every_head_is_seen_once() {
    let (long, longer) = (tokens(90), tokens(100));
    let seen = observed(&[&long, &longer], 1);
    let layer = &seen.layers[0];
    assert_eq!(layer.heads.len() as u64, HEADS);
    for (head, map) in layer.heads.iter().zip(&layer.maps) {
        assert_eq!(head.queries(), (90 - 68) + (100 - 68));
        let pattern = head.pattern().expect("queries");
        assert!(pattern.streaming_mass() < 1.0 && pattern.top > 0.0 && pattern.entropy > 0.0, "{pattern:?}");
        assert_eq!(map.tokens(), 90, "maps are of the first document");
        assert!(map.cells().chunks(map.blocks()).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-4));
    }
    assert_eq!(layer.channels.concat().len(), CHANNELS);
}

#[test]
fn noise_on_real_heads_stays_within_the_bound_and_is_not_nothing() {
    let long = tokens(100);
    let observed = observed(&[&long], 1);
    let [coarse, fine] = [0, 1].map(|width| observed.lemma(width).within(0.0..1.0));
    for all in [coarse, fine] {
        assert_eq!((all.queries, all.beyond), (HEADS * 16, 0));
        assert!(all.attention > 0.0 && all.change > 0.0, "{all:?}");
    }
    assert!(fine.change < 0.1 * coarse.change, "8 bits make less noise than 2: {fine:?}, {coarse:?}");
}

#[test]
fn threads_and_company_change_nothing() {
    let (a, b) = (tokens(80), tokens(95));
    assert_eq!(observed(&[&a, &b], 1), observed(&[&a, &b], 2));
    assert_eq!(observed(&[&a, &b], 1).layers[0].maps, observed(&[&a], 1).layers[0].maps);
}

/// The second layer would see other hidden states if observing changed what attention gives.
#[test]
fn outputs_are_those_that_errors_are_measured_on() {
    let (decoder, tokens) = (decoder(), tokens(70));
    let simulation = simulation(&decoder, &Scheme::per_token_asym(), 70).expect("a scheme for any model");
    let projected =
        decoder.open(0).expect("a layer").project(&decoder.embed(&tokens), &decoder.angles(0, 70));
    let full = PrecisionPair::FULL;
    let layer = Layer {
        index: 0,
        document: 0,
        shape: simulation.shape(),
        window: None,
        keys: coded_keys(&simulation, 0, &projected, full.key).expect("exact"),
        values: coded_values(&simulation, 0, &projected, full.value).expect("exact"),
        bias: None,
        projected: &projected,
    };
    let (_, out) = layer.observe().expect("finite");
    let mut caches = decoder.full_caches();
    caches[0].append(projected.k(), projected.v()).expect("appended");
    let mut expected = vec![0.0; out.len()];
    caches[0].attend(projected.q(), &mut expected).expect("attended");
    assert_eq!(out, expected);
    let moved = layer.disturb(&layer.keys, 0).within(0.0..1.0);
    assert!(moved.queries > 0 && moved.change < 1e-12, "exact keys make no noise: {moved:?}");
}
