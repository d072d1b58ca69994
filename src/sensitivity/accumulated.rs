//! Errors of a whole quantized run against the full-precision run (`accumulate: true`).

use super::compare::{Reading, Side, compare, output_errors, tensor_errors};
use super::lockstep::{Beside, Run, Setting, Step, lockstep};
use super::{LayerErrors, SensitivityError, Table};
use crate::cache::{Simulation, Units};
use crate::model::{Decoder, DecoderBackend};
use crate::precision::PrecisionPair;
use crate::progress::Observer;

/// Errors of every layer when every layer has the same pair, on one sequence whose first unit is its prompt.
///
/// All pairs run side by side with one full-precision run. The observer hears one step a layer and pair.
///
/// # Errors
/// [`SensitivityError`] naming the layer.
///
/// Source: KVTuner's error accumulation over layers; keys, values, weights and outputs are all compared with
/// those of the full-precision run.
pub fn measure<B: DecoderBackend>(
    model: (&Decoder<B>, &Simulation),
    pairs: &[PrecisionPair],
    tokens: &[u32],
    units: &Units,
    threads: usize,
    observer: &dyn Observer,
) -> Result<Table, SensitivityError> {
    let tables = measure_all(model, pairs, &[(tokens, units.clone())], threads, observer)?;
    Ok(Table::pooled(&tables))
}

/// [`measure`] on several sequences: one table each.
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
    let sequences: Vec<Beside<'_>> =
        sequences.iter().map(|(tokens, units)| beside(pairs, tokens, units)).collect();
    let setting = Setting { decoder, simulation, threads, observer };
    lockstep(&setting, &sequences, errors, |_, (layers, _)| Table { pairs: pairs.to_vec(), layers })
}

fn beside<'a>(pairs: &[PrecisionPair], tokens: &'a [u32], units: &Units) -> Beside<'a> {
    let runs = pairs.iter().map(|&pair| Run { pair, tokens }).collect();
    Beside { tokens, units: units.clone(), runs }
}

fn errors(step: &Step<'_>) -> Result<(LayerErrors, Vec<f32>), SensitivityError> {
    let (layer, shape) = (step.layer, step.geometry.shape);
    let full = Side { q: step.full.projected.q(), keys: &step.full.keys };
    let coded = Side { q: step.coded.projected.q(), keys: &step.coded.keys };
    let reading = Reading { side: coded, values: vec![&step.coded.values] };
    let mut compared = compare(&step.geometry, full, &reading);
    let outputs = compared.outputs.pop().unwrap_or_default();
    let errors = LayerErrors {
        keys: tensor_errors(layer, "keys", &step.full.keys, &step.coded.keys, shape)?,
        values: tensor_errors(layer, "values", &step.full.values, &step.coded.values, shape)?,
        attention: compared.attention,
        outputs: output_errors(layer, shape, step.full_outputs, &outputs)?,
    };
    Ok((errors, outputs))
}
