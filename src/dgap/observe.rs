use burn::prelude::*;

use super::sheet::Sheet;
use super::traced::TracedDocument;
use crate::cache::{Simulation, Units};
use crate::model::{Decoder, DecoderBackend, ModelError, from_host, to_host};
use crate::precision::PrecisionMap;
use crate::trace::Document;

/// Positions whose logits are in memory at once.
const CHUNK: usize = 32;

/// Runs a document with a quantized cache in one pass, and sets what it says at each position of the continuation
/// beside full precision.
///
/// Hidden states of the quantized run: the last one, then those that leave `layers`, each divided by its root mean
/// square.
///
/// # Errors
/// What a cache says.
pub fn observe<B: DecoderBackend>(
    decoder: &Decoder<B>,
    simulation: &Simulation,
    map: &PrecisionMap,
    document: &Document,
    held: usize,
    layers: &[usize],
) -> Result<TracedDocument, ModelError> {
    let tokens = &document.tokens[..document.tokens.len() - 1];
    let (first, positions) = (document.prompt_len - 1, document.positions());
    let units = Units::prompt(document.prompt_len, simulation.scheme().prefill);
    let mut caches = simulation.caches(map, 0, &units)?;
    let (last, tapped) = decoder.forward_tapped(tokens, &mut caches, layers)?;
    let here = |states: Tensor<B, 2>| states.narrow(0, first, positions);
    let last = here(last);
    let full = from_host(document.hidden.clone(), positions, decoder.device());
    let mut sheet = Sheet::new(held);
    let vocab = decoder.config().vocab_size;
    for start in (0..positions).step_by(CHUNK) {
        let rows = CHUNK.min(positions - start);
        let logits = |states: &Tensor<B, 2>| to_host(decoder.logits(states.clone().narrow(0, start, rows)));
        let (quantized, full) = (logits(&last), logits(&full));
        for (row, at) in quantized.chunks_exact(vocab).zip(full.chunks_exact(vocab)).zip(start..) {
            let length = document.prompt_len + at;
            sheet.push(row.0, row.1, length, document.tokens[length]);
        }
    }
    let earlier: Vec<Vec<f32>> = tapped.into_iter().map(|states| to_host(here(states))).collect();
    let hidden = side_by_side(&to_host(last), &earlier, decoder.config().hidden_size);
    Ok(TracedDocument { sheet, hidden })
}

/// The last hidden state of each row, then the earlier ones, normed.
pub(super) fn side_by_side(last: &[f32], earlier: &[Vec<f32>], width: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(last.len() * (1 + earlier.len()));
    for (row, last) in last.chunks_exact(width).enumerate() {
        out.extend(last);
        earlier.iter().for_each(|states| out.extend(normed(&states[row * width..][..width])));
    }
    out
}

fn normed(row: &[f32]) -> impl Iterator<Item = f32> + '_ {
    let square: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let scale = (row.len() as f64 / square.max(f64::MIN_POSITIVE)).sqrt() as f32;
    row.iter().map(move |x| x * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_states_stand_behind_the_last_with_unit_mean_square() {
        let found = side_by_side(&[1.0, 2.0, 5.0, 6.0], &[vec![3.0, 4.0, 0.0, 2.0]], 2);
        let rms = 12.5_f32.sqrt();
        let expected = [1.0, 2.0, 3.0 / rms, 4.0 / rms, 5.0, 6.0, 0.0, 2_f32.sqrt()];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
    }
}
