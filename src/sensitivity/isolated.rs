//! Errors of one layer at a time: queries, keys and values of the full-precision run (`accumulate: false`).

use kvtune_kernels::statistics::Deviation;
use rayon::prelude::*;

use super::compare::{
    Geometry, Reading, Side, add_attention, compare_blocks, finite_outputs, floor_of, head_deviations,
    tensor_errors,
};
use super::errors::add_each;
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
        let keys = self.codings(geometry, "keys", &widths(pairs, |pair| pair.key), coded_keys)?;
        let values = self.codings(geometry, "values", &widths(pairs, |pair| pair.value), coded_values)?;
        let full = self.full_outputs(geometry, &keys[0].coded, &values[0].coded);
        let mut outputs = self.outputs(geometry, pairs, (&keys, &values), &full);
        let errors = pairs.iter().map(|pair| {
            let key = position(&keys, pair.key);
            let heads = outputs[key].heads.remove(0);
            Ok::<_, SensitivityError>(LayerErrors {
                keys: keys[key].errors.clone(),
                values: values[position(&values, pair.value)].errors.clone(),
                attention: outputs[key].attention.clone(),
                outputs: finite_outputs(LayerId(self.index), heads)?,
            })
        });
        Ok((errors.collect::<Result<_, _>>()?, full))
    }

    /// One side in each width, and its errors.
    fn codings(
        &self,
        geometry: &Geometry<'_>,
        tensor: &'static str,
        widths: &[Bits],
        code: Coder,
    ) -> Result<Vec<Coding>, SensitivityError> {
        let coding = |&bits: &Bits| {
            let coded = code(self.simulation, self.index, self.projected, bits)?;
            let errors = tensor_errors(LayerId(self.index), tensor, &coded, &coded, geometry.shape)?;
            Ok(Coding { bits, coded, errors })
        };
        // Side by side, and of several complaints the first.
        let codings: Vec<Result<Coding, SensitivityError>> = widths.par_iter().map(coding).collect();
        codings.into_iter().collect()
    }

    /// For each key coding how the attention weights moved, and the errors of the outputs at each pair with it, in
    /// the order of the pairs.
    fn outputs(
        &self,
        geometry: &Geometry<'_>,
        pairs: &[PrecisionPair],
        (keys, values): (&[Coding], &[Coding]),
        full: &[f32],
    ) -> Vec<OutputErrors> {
        let q = self.projected.q();
        let readings = keys.iter().map(|key| {
            let read = pairs.iter().filter(|pair| pair.key == key.bits);
            let values = read.map(|pair| &values[position(values, pair.value)].coded).collect();
            Reading { side: Side { q, keys: &key.coded }, values }
        });
        let (readings, full_side): (Vec<_>, _) = (readings.collect(), Side { q, keys: &keys[0].coded });
        let (width, floor) = (geometry.shape.q_width(), floor_of(full));
        let blocks = compare_blocks(geometry, full_side, &readings, |queries, compared| {
            let full = &full[queries.start * width..queries.end * width];
            let heads = |coded: &Vec<f32>| head_deviations(geometry.shape, floor, full, coded);
            OutputErrors {
                attention: compared.attention,
                heads: compared.outputs.iter().map(heads).collect(),
            }
        });
        let mut sums = vec![OutputErrors::default(); keys.len()];
        for (sum, block) in blocks.iter().flat_map(|block| block.iter().enumerate()) {
            sums[sum].add(block);
        }
        sums
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

/// Keys or values in one width.
struct Coding {
    bits: Bits,
    coded: CodedTensor,
    /// By KV head.
    errors: Vec<Deviation>,
}

/// The coding in that width: each width of a pair has one.
fn position(codings: &[Coding], bits: Bits) -> usize {
    codings.iter().position(|coding| coding.bits == bits).expect("every width of the pairs was coded")
}

/// What one coding of the keys does to the attention.
#[derive(Clone, Default)]
struct OutputErrors {
    attention: Vec<(f64, u64)>,
    /// By coding of the values, by query head.
    heads: Vec<Vec<Deviation>>,
}

impl OutputErrors {
    fn add(&mut self, block: &Self) {
        add_attention(&mut self.attention, &block.attention);
        self.heads.resize(block.heads.len(), Vec::new());
        for (sums, block) in self.heads.iter_mut().zip(&block.heads) {
            add_each(sums, block);
        }
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
