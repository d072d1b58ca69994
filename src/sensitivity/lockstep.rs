//! A full-precision run and several quantized ones, layer by layer side by side.

use super::SensitivityError;
use super::compare::Geometry;
use crate::cache::{CodedTensor, KeyBiasTable, Rows, Side as AttentionSide, Simulation, Units, attend};
use crate::model::{Angles, Decoder, DecoderBackend, ModelError, OpenLayer, Projected, Tensor2, batches};
use crate::parallel::in_order;
use crate::precision::{Bits, LayerId, PrecisionPair};
use crate::progress::Observer;
use crate::quant::{Scheme, Tensor};

/// One token sequence at full precision, and runs beside it.
pub(super) struct Beside<'a> {
    pub tokens: &'a [u32],
    pub units: Units,
    pub runs: Vec<Run<'a>>,
}

/// A run of the whole model with one pair in every layer, over its own tokens, as many as full precision has.
pub(super) struct Run<'a> {
    pub pair: PrecisionPair,
    pub tokens: &'a [u32],
}

/// One layer of one run: what its attention gets.
pub(super) struct Projection {
    pub projected: Projected,
    pub keys: CodedTensor,
    pub values: CodedTensor,
}

/// One layer of one quantized run, beside the full-precision run.
pub(super) struct Step<'a> {
    /// Which of the sequences.
    pub sequence: usize,
    pub layer: LayerId,
    pub geometry: Geometry<'a>,
    pub full: &'a Projection,
    /// Attention outputs at full precision.
    pub full_outputs: &'a [f32],
    pub coded: &'a Projection,
}

/// Final hidden states, behind the last norm.
pub(super) struct Finals<B: DecoderBackend> {
    pub full: Tensor2<B>,
    pub runs: Vec<Tensor2<B>>,
}

/// What came of one [`Beside`]: by layer and run what was seen, and where the runs ended.
pub(super) type Followed<B, T> = (Vec<Vec<T>>, Finals<B>);

/// How [`lockstep`] is run.
pub(super) struct Setting<'a, B: DecoderBackend> {
    pub decoder: &'a Decoder<B>,
    pub simulation: &'a Simulation,
    pub threads: usize,
    pub observer: &'a dyn Observer,
}

/// Runs each sequence at full precision and its runs beside it; `visit` sees every layer of every run and gives
/// the attention outputs that the run goes on with, `end` makes of each sequence what is kept of it.
///
/// Sequences come one after the other where the weights are in memory; where they are streamed, side by side.
///
/// # Errors
/// The first complaint of the model, a cache or `visit`.
pub(super) fn lockstep<B: DecoderBackend, T: Send, R>(
    setting: &Setting<'_, B>,
    sequences: &[Beside<'_>],
    visit: impl Fn(&Step<'_>) -> Result<(T, Vec<f32>), SensitivityError> + Sync,
    end: impl Fn(usize, Followed<B, T>) -> R,
) -> Result<Vec<R>, SensitivityError> {
    let decoder = setting.decoder;
    let size =
        |beside: &Beside<'_>| (1 + beside.runs.len()) * beside.tokens.len() * decoder.config().hidden_size;
    let groups = match decoder.is_streamed() {
        true => batches(sequences.len(), |index| size(&sequences[index])),
        false => (0..sequences.len()).map(|index| index..index + 1).collect(),
    };
    let mut ended = Vec::new();
    for group in groups {
        let begin = |sequence: usize| Walk::begin(setting, sequence, &sequences[sequence]);
        let mut walks: Vec<Walk<'_, B, T>> = group.map(begin).collect();
        decoder.each_layer(|open| walks.iter_mut().try_for_each(|walk| walk.layer(setting, open, &visit)))?;
        ended.extend(walks.into_iter().map(|walk| end(walk.sequence, walk.end(decoder))));
    }
    Ok(ended)
}

/// One sequence between two layers.
struct Walk<'a, B: DecoderBackend, T> {
    sequence: usize,
    beside: &'a Beside<'a>,
    key_frozen: Vec<usize>,
    value_frozen: Vec<usize>,
    angles: Angles,
    full: Tensor2<B>,
    runs: Vec<Tensor2<B>>,
    visited: Vec<Vec<T>>,
}

impl<'a, B: DecoderBackend, T: Send> Walk<'a, B, T> {
    fn begin(setting: &Setting<'_, B>, sequence: usize, beside: &'a Beside<'a>) -> Self {
        let (decoder, len) = (setting.decoder, beside.tokens.len());
        let (key_frozen, value_frozen) = frozen_counts(setting.simulation.scheme(), &beside.units, len);
        Self {
            sequence,
            beside,
            key_frozen,
            value_frozen,
            angles: decoder.angles(0, len),
            full: decoder.embed(beside.tokens),
            runs: beside.runs.iter().map(|run| decoder.embed(run.tokens)).collect(),
            visited: Vec::new(),
        }
    }

    fn layer(
        &mut self,
        setting: &Setting<'_, B>,
        open: &OpenLayer<'_, B>,
        visit: &(impl Fn(&Step<'_>) -> Result<(T, Vec<f32>), SensitivityError> + Sync),
    ) -> Result<(), SensitivityError> {
        if setting.observer.interrupted() {
            return Err(SensitivityError::Interrupted);
        }
        let (simulation, index) = (setting.simulation, open.index());
        let project = |hidden: &Tensor2<B>, pair: PrecisionPair| {
            code(simulation, index, open.project(hidden, &self.angles), pair)
        };
        let full = project(&self.full, PrecisionPair::FULL)?;
        let full_outputs = exact_outputs(simulation, index, &full);
        let stepped = in_order(setting.threads, self.runs.len(), |run| {
            let coded = project(&self.runs[run], self.beside.runs[run].pair)?;
            let step = Step {
                sequence: self.sequence,
                layer: LayerId(index),
                geometry: Geometry {
                    shape: simulation.shape(),
                    window: simulation.window(index),
                    key_frozen: &self.key_frozen,
                    value_frozen: &self.value_frozen,
                },
                full: &full,
                full_outputs: &full_outputs,
                coded: &coded,
            };
            let (seen, outputs) = visit(&step)?;
            setting.observer.advance(1);
            Ok::<_, SensitivityError>((seen, open.finish(self.runs[run].clone(), outputs)))
        })?;
        let (seen, runs): (Vec<T>, Vec<_>) = stepped.into_iter().unzip();
        self.visited.push(seen);
        self.runs = runs;
        self.full = open.finish(self.full.clone(), full_outputs);
        Ok(())
    }

    fn end(self, decoder: &Decoder<B>) -> Followed<B, T> {
        let runs = self.runs.into_iter().map(|hidden| decoder.final_norm(hidden)).collect();
        (self.visited, Finals { full: decoder.final_norm(self.full), runs })
    }
}

/// Leading tokens that the query at each position reads as codes: of keys, of values.
pub(super) fn frozen_counts(scheme: &Scheme, units: &Units, len: usize) -> (Vec<usize>, Vec<usize>) {
    let counts = |frozen: &dyn Fn(usize) -> usize| -> Vec<usize> {
        (0..len).map(|position| units.frozen_for(position, frozen)).collect()
    };
    (counts(&|n| scheme.key_frozen(n)), counts(&|n| scheme.value_frozen(n)))
}

/// Attention outputs of a projection, as its tensors are read under a geometry.
pub(super) fn outputs(geometry: &Geometry<'_>, projection: &Projection) -> Vec<f32> {
    let q = projection.projected.q();
    let mut out = vec![0.0; q.rows * geometry.shape.q_width()];
    let keys = AttentionSide { source: &|head| projection.keys.source(head), frozen: geometry.key_frozen };
    let values =
        AttentionSide { source: &|head| projection.values.source(head), frozen: geometry.value_frozen };
    attend(geometry.shape, geometry.window, 0, q, &keys, &values, &mut out);
    out
}

/// Attention outputs over exact keys and values.
pub(super) fn exact_outputs(simulation: &Simulation, layer: usize, projection: &Projection) -> Vec<f32> {
    let exact = vec![0; projection.projected.q().rows];
    let geometry = Geometry {
        shape: simulation.shape(),
        window: simulation.window(layer),
        key_frozen: &exact,
        value_frozen: &exact,
    };
    outputs(&geometry, projection)
}

fn code(
    simulation: &Simulation,
    layer: usize,
    projected: Projected,
    pair: PrecisionPair,
) -> Result<Projection, SensitivityError> {
    let keys = coded_keys(simulation, layer, &projected, pair.key)?;
    let values = coded_values(simulation, layer, &projected, pair.value)?;
    Ok(Projection { projected, keys, values })
}

/// A layer's keys in one width.
pub(crate) fn coded_keys(
    simulation: &Simulation,
    layer: usize,
    projected: &Projected,
    bits: Bits,
) -> Result<CodedTensor, SensitivityError> {
    coded(simulation, layer, (Tensor::Keys, bits), projected.k(), simulation.key_bias(layer))
}

/// A layer's values in one width.
pub(crate) fn coded_values(
    simulation: &Simulation,
    layer: usize,
    projected: &Projected,
    bits: Bits,
) -> Result<CodedTensor, SensitivityError> {
    coded(simulation, layer, (Tensor::Values, bits), projected.v(), None)
}

fn coded(
    simulation: &Simulation,
    layer: usize,
    (tensor, bits): (Tensor, Bits),
    rows: Rows<'_>,
    key_bias: Option<KeyBiasTable>,
) -> Result<CodedTensor, SensitivityError> {
    let in_layer = |source| ModelError::Cache { layer: LayerId(layer), source };
    let shape = simulation.shape().stored();
    let coded = CodedTensor::new(simulation.scheme(), tensor, bits, shape, key_bias);
    let mut coded = coded.map_err(ModelError::from)?;
    coded.append(rows).map_err(in_layer)?;
    Ok(coded)
}
