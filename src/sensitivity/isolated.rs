//! Errors of one layer at a time: queries, keys and values of the full-precision run (`accumulate: false`).

use super::compare::{Geometry, Side, compare, output_errors, tensor_errors};
use super::lockstep::{coded_keys, coded_values, frozen_counts};
use super::{LayerErrors, SensitivityError, Table};
use crate::cache::{CodedTensor, Side as AttentionSide, Simulation, Units, attend};
use crate::model::{Angles, Decoder, DecoderBackend, LayerWork, OpenLayer, Projected, Tensor2};
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
    let tables = measure_all((decoder, simulation), pairs, &[(tokens, units.clone())], 1, observer)?;
    Ok(Table::pooled(&tables))
}

/// [`measure`] on several sequences side by side: one table each.
///
/// # Errors
/// [`SensitivityError`] naming the layer.
pub fn measure_all<B: DecoderBackend>(
    (decoder, simulation): (&Decoder<B>, &Simulation),
    pairs: &[PrecisionPair],
    sequences: &[(&[u32], Units)],
    threads: usize,
    observer: &dyn Observer,
) -> Result<Vec<Table>, SensitivityError> {
    let work = Isolated { decoder, simulation, pairs, sequences, observer };
    decoder.walk(&work, sequences.len(), threads)
}

struct Isolated<'a, B: DecoderBackend> {
    decoder: &'a Decoder<B>,
    simulation: &'a Simulation,
    pairs: &'a [PrecisionPair],
    sequences: &'a [(&'a [u32], Units)],
    observer: &'a dyn Observer,
}

/// One sequence between two layers.
struct Sequence<B: DecoderBackend> {
    hidden: Tensor2<B>,
    angles: Angles,
    key_frozen: Vec<usize>,
    value_frozen: Vec<usize>,
    layers: Vec<Vec<LayerErrors>>,
}

impl<B: DecoderBackend> LayerWork<B> for Isolated<'_, B> {
    type State = Sequence<B>;
    type Output = Table;
    type Error = SensitivityError;

    fn size(&self, unit: usize) -> usize {
        self.sequences[unit].0.len() * self.decoder.config().hidden_size
    }

    fn begin(&self, unit: usize) -> Result<Sequence<B>, SensitivityError> {
        let (tokens, units) = &self.sequences[unit];
        let (key_frozen, value_frozen) = frozen_counts(self.simulation.scheme(), units, tokens.len());
        Ok(Sequence {
            hidden: self.decoder.embed(tokens),
            angles: self.decoder.angles(0, tokens.len()),
            key_frozen,
            value_frozen,
            layers: Vec::new(),
        })
    }

    fn layer(&self, open: &OpenLayer<'_, B>, state: &mut Sequence<B>) -> Result<(), SensitivityError> {
        if self.observer.interrupted() {
            return Err(SensitivityError::Interrupted);
        }
        let projected = open.project(&state.hidden, &state.angles);
        let layer = Layer { simulation: self.simulation, index: open.index(), projected: &projected };
        let geometry = Geometry {
            shape: self.simulation.shape(),
            window: self.simulation.window(open.index()),
            key_frozen: &state.key_frozen,
            value_frozen: &state.value_frozen,
        };
        let (errors, out) = layer.measure(&geometry, self.pairs)?;
        state.layers.push(errors);
        state.hidden = open.finish(state.hidden.clone(), out);
        self.observer.advance(1);
        Ok(())
    }

    fn end(&self, _unit: usize, state: Sequence<B>) -> Result<Table, SensitivityError> {
        Ok(Table { pairs: self.pairs.to_vec(), layers: state.layers })
    }
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
