//! Errors of one layer at a time: queries, keys and values of the full-precision run (`accumulate: false`).

use super::compare::{Geometry, Side, compare, output_errors, tensor_errors};
use super::lockstep::{coded_keys, coded_values};
use super::{LayerErrors, SensitivityError, Table};
use crate::cache::{CodedTensor, Side as AttentionSide, Simulation, Units, attend};
use crate::model::{Decoder, DecoderBackend, Projected};
use crate::precision::{Bits, LayerId, PrecisionPair};
use crate::progress::Observer;

/// Errors of every layer at every pair, on one sequence whose first unit is its prompt.
///
/// One full-precision pass; keys are coded once a key width, attention weights computed once a key width,
/// values coded once a value width. The observer hears one step a layer.
///
/// # Errors
/// [`SensitivityError`] naming the layer.
///
/// Source: KVTuner, e_k, e_v, e_a, e_o; its table 9 ("offline simulation without accumulation").
pub fn measure<B: DecoderBackend>(
    decoder: &Decoder<B>,
    simulation: &Simulation,
    pairs: &[PrecisionPair],
    tokens: &[u32],
    units: &Units,
    observer: &dyn Observer,
) -> Result<Table, SensitivityError> {
    let scheme = simulation.scheme();
    let counts = |frozen: &dyn Fn(usize) -> usize| -> Vec<usize> {
        (0..tokens.len()).map(|position| units.frozen_for(position, frozen)).collect()
    };
    let key_frozen = counts(&|n| scheme.key_frozen(n));
    let value_frozen = counts(&|n| scheme.value_frozen(n));
    let angles = decoder.angles(0, tokens.len());
    let mut hidden = decoder.embed(tokens);
    let mut layers = Vec::new();
    for index in 0..decoder.config().num_hidden_layers {
        if observer.interrupted() {
            return Err(SensitivityError::Interrupted);
        }
        let projected = decoder.project(index, &hidden, &angles);
        let layer = Layer { simulation, index, projected: &projected };
        let geometry = Geometry {
            shape: simulation.shape(),
            window: simulation.window(index),
            key_frozen: &key_frozen,
            value_frozen: &value_frozen,
        };
        let (errors, out) = layer.measure(&geometry, pairs)?;
        layers.push(errors);
        hidden = decoder.finish(index, hidden, out);
        observer.advance(1);
    }
    Ok(Table { pairs: pairs.to_vec(), layers })
}

struct Layer<'a> {
    simulation: &'a Simulation,
    index: usize,
    projected: &'a Projected,
}

impl Layer<'_> {
    /// Errors at each pair, and the full-precision attention outputs.
    fn measure(
        &self,
        geometry: &Geometry<'_>,
        pairs: &[PrecisionPair],
    ) -> Result<(Vec<LayerErrors>, Vec<f32>), SensitivityError> {
        let (id, shape) = (LayerId(self.index), geometry.shape);
        let coded = |bits: Bits, code: Coder| {
            code(self.simulation, self.index, self.projected, bits).map(|tensor| (bits, tensor))
        };
        let keys = widths(pairs, |pair| pair.key).into_iter().map(|bits| coded(bits, coded_keys));
        let keys: Vec<(Bits, CodedTensor)> = keys.collect::<Result<_, _>>()?;
        let values = widths(pairs, |pair| pair.value).into_iter().map(|bits| coded(bits, coded_values));
        let values: Vec<(Bits, CodedTensor)> = values.collect::<Result<_, _>>()?;
        let full = self.full_outputs(geometry, &keys[0].1, &values[0].1);
        let mut errors: Vec<Option<LayerErrors>> = vec![None; pairs.len()];
        for (key_bits, coded_keys) in &keys {
            let e_k = tensor_errors(id, "keys", coded_keys, coded_keys, shape)?;
            let side = Side { q: self.projected.q(), keys: coded_keys };
            let wanted: Vec<usize> = (0..pairs.len()).filter(|&i| pairs[i].key == *key_bits).collect();
            let of_pair = |pair: usize| {
                let found = values.iter().find(|(bits, _)| *bits == pairs[pair].value);
                &found.expect("every value width of the pairs was coded").1
            };
            let coded_values: Vec<&CodedTensor> = wanted.iter().map(|&pair| of_pair(pair)).collect();
            let compared = compare(geometry, side, side, &coded_values);
            for ((&pair, output), coded_values) in wanted.iter().zip(&compared.outputs).zip(coded_values) {
                errors[pair] = Some(LayerErrors {
                    keys: e_k.clone(),
                    values: tensor_errors(id, "values", coded_values, coded_values, shape)?,
                    attention: compared.attention.clone(),
                    outputs: output_errors(id, shape, &full, output)?,
                });
            }
        }
        Ok((errors.into_iter().flatten().collect(), full))
    }

    fn full_outputs(&self, geometry: &Geometry<'_>, keys: &CodedTensor, values: &CodedTensor) -> Vec<f32> {
        let q = self.projected.q();
        let mut out = vec![0.0; q.rows * geometry.shape.q_width()];
        let exact = vec![0; q.rows];
        let keys = AttentionSide { source: &|head| keys.source(head), frozen: &exact };
        let values = AttentionSide { source: &|head| values.source(head), frozen: &exact };
        attend(geometry.shape, geometry.window, 0, q, &keys, &values, &mut out);
        out
    }
}

type Coder = fn(&Simulation, usize, &Projected, Bits) -> Result<CodedTensor, SensitivityError>;

/// The distinct widths of one side of the pairs, in their order.
fn widths(pairs: &[PrecisionPair], side: impl Fn(&PrecisionPair) -> Bits) -> Vec<Bits> {
    let mut widths = Vec::new();
    for bits in pairs.iter().map(side) {
        if !widths.contains(&bits) {
            widths.push(bits);
        }
    }
    widths
}
