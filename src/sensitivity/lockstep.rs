//! A full-precision run and several quantized ones, layer by layer side by side.

use super::SensitivityError;
use super::compare::Geometry;
use crate::cache::{CodedTensor, KeyBiasTable, Rows, Side as AttentionSide, Simulation, Units, attend};
use crate::model::{Decoder, DecoderBackend, ModelError, Projected, Tensor2};
use crate::parallel::in_order;
use crate::precision::{Bits, LayerId, PrecisionPair};
use crate::progress::Observer;
use crate::quant::Tensor;

/// A run of the whole model with one pair in every layer, over its own tokens.
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

/// Runs `tokens` at full precision and `runs` beside it; `visit` sees every layer of every run and gives the
/// attention outputs that the run goes on with. All token sequences have one length.
///
/// # Errors
/// The first complaint of the model, a cache or `visit`.
pub(super) fn lockstep<B: DecoderBackend, T: Send>(
    model: (&Decoder<B>, &Simulation),
    tokens: &[u32],
    runs: &[Run<'_>],
    units: &Units,
    threads: usize,
    observer: &dyn Observer,
    visit: impl Fn(&Step<'_>) -> Result<(T, Vec<f32>), SensitivityError> + Sync,
) -> Result<(Vec<Vec<T>>, Finals<B>), SensitivityError> {
    let (decoder, simulation) = model;
    let scheme = simulation.scheme();
    let counts = |frozen: &dyn Fn(usize) -> usize| -> Vec<usize> {
        (0..tokens.len()).map(|position| units.frozen_for(position, frozen)).collect()
    };
    let (key_frozen, value_frozen) = (counts(&|n| scheme.key_frozen(n)), counts(&|n| scheme.value_frozen(n)));
    let angles = decoder.angles(0, tokens.len());
    let project = |layer: usize, hidden: &Tensor2<B>, pair: PrecisionPair| {
        let projected = decoder.project(layer, hidden, &angles);
        code(simulation, layer, projected, pair)
    };
    let mut full_hidden = decoder.embed(tokens);
    let mut hidden: Vec<_> = runs.iter().map(|run| decoder.embed(run.tokens)).collect();
    let mut visited = Vec::new();
    for layer in 0..decoder.config().num_hidden_layers {
        if observer.interrupted() {
            return Err(SensitivityError::Interrupted);
        }
        let full = project(layer, &full_hidden, PrecisionPair::FULL)?;
        let full_outputs = exact_outputs(simulation, layer, &full);
        let stepped = in_order(threads, runs.len(), |run| {
            let coded = project(layer, &hidden[run], runs[run].pair)?;
            let step = Step {
                layer: LayerId(layer),
                geometry: Geometry {
                    shape: simulation.shape(),
                    window: simulation.window(layer),
                    key_frozen: &key_frozen,
                    value_frozen: &value_frozen,
                },
                full: &full,
                full_outputs: &full_outputs,
                coded: &coded,
            };
            let (seen, outputs) = visit(&step)?;
            observer.advance(1);
            Ok::<_, SensitivityError>((seen, decoder.finish(layer, hidden[run].clone(), outputs)))
        })?;
        let (seen, next): (Vec<T>, Vec<_>) = stepped.into_iter().unzip();
        visited.push(seen);
        hidden = next;
        full_hidden = decoder.finish(layer, full_hidden, full_outputs);
    }
    let runs = hidden.into_iter().map(|hidden| decoder.final_norm(hidden)).collect();
    Ok((visited, Finals { full: decoder.final_norm(full_hidden), runs }))
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
pub(super) fn coded_keys(
    simulation: &Simulation,
    layer: usize,
    projected: &Projected,
    bits: Bits,
) -> Result<CodedTensor, SensitivityError> {
    coded(simulation, layer, (Tensor::Keys, bits), projected.k(), simulation.key_bias(layer))
}

/// A layer's values in one width.
pub(super) fn coded_values(
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
