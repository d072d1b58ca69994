//! Bytes of a tensor → weights of a type.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;

use super::WeightType;
use crate::model::TensorProblem;

/// Formats of one number each, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::model) enum Element {
    F32,
    F16,
    Bf16,
}

/// Weights that one task of the thread pool decodes.
const TASK: usize = 1 << 14;

/// Weights that are f32 on their way to another type.
const ON_THE_WAY: usize = 256;

impl Element {
    fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// Appends all whole elements of `bytes`.
    pub(super) fn decode<W: Weight>(self, bytes: &[u8], out: &mut Vec<W>) {
        append(bytes.len() / self.bytes(), out, |out| {
            let tasks = out.par_chunks_mut(TASK).zip(bytes.par_chunks(TASK * self.bytes()));
            tasks.for_each(|(out, bytes)| W::read(self, bytes, out));
        });
    }
}

/// Makes room for `count` weights behind those of `out`, for `fill` to write.
pub(super) fn append<W: Weight, T>(count: usize, out: &mut Vec<W>, fill: impl FnOnce(&mut [W]) -> T) -> T {
    let start = out.len();
    out.resize(start + count, W::default());
    fill(&mut out[start..])
}

/// A type that weights are read as.
pub(in crate::model) trait Weight:
    Copy + Default + Into<f32> + PartialOrd + Send + Sync
{
    /// Its name.
    const TYPE: WeightType;

    /// `out.len()` elements of a format.
    fn read(element: Element, bytes: &[u8], out: &mut [Self]);

    /// The nearest there are, infinite where f32 is out of range.
    fn round(wide: &[f32], out: &mut [Self]);
}

impl Weight for f32 {
    const TYPE: WeightType = WeightType::F32;

    fn read(element: Element, bytes: &[u8], out: &mut [f32]) {
        match element {
            Element::F32 => each(bytes, out, f32::from_le_bytes),
            Element::Bf16 => each(bytes, out, |bytes| bf16::from_le_bytes(bytes).to_f32()),
            Element::F16 => {
                let mut half = [f16::ZERO; ON_THE_WAY];
                for (out, bytes) in out.chunks_mut(ON_THE_WAY).zip(bytes.chunks(2 * ON_THE_WAY)) {
                    let half = &mut half[..out.len()];
                    each(bytes, half, f16::from_le_bytes);
                    half.convert_to_f32_slice(out);
                }
            }
        }
    }

    fn round(wide: &[f32], out: &mut [f32]) {
        out.copy_from_slice(wide);
    }
}

impl Weight for f16 {
    const TYPE: WeightType = WeightType::F16;

    fn read(element: Element, bytes: &[u8], out: &mut [f16]) {
        match element {
            Element::F16 => each(bytes, out, f16::from_le_bytes),
            other => through_f32(other, bytes, out),
        }
    }

    fn round(wide: &[f32], out: &mut [f16]) {
        out.convert_from_f32_slice(wide);
    }
}

impl Weight for bf16 {
    const TYPE: WeightType = WeightType::Bf16;

    fn read(element: Element, bytes: &[u8], out: &mut [bf16]) {
        match element {
            Element::Bf16 => each(bytes, out, bf16::from_le_bytes),
            other => through_f32(other, bytes, out),
        }
    }

    fn round(wide: &[f32], out: &mut [bf16]) {
        out.convert_from_f32_slice(wide);
    }
}

fn each<W, const N: usize>(bytes: &[u8], out: &mut [W], read: impl Fn([u8; N]) -> W) {
    out.iter_mut().zip(bytes.as_chunks().0).for_each(|(out, &bytes)| *out = read(bytes));
}

fn through_f32<W: Weight>(element: Element, bytes: &[u8], out: &mut [W]) {
    let mut wide = [0.0; ON_THE_WAY];
    for (out, bytes) in out.chunks_mut(ON_THE_WAY).zip(bytes.chunks(element.bytes() * ON_THE_WAY)) {
        let wide = &mut wide[..out.len()];
        f32::read(element, bytes, wide);
        W::round(wide, out);
    }
}

/// The first weight that is not finite.
pub(super) fn not_finite<W: Weight>(weights: &[W]) -> Option<usize> {
    let not_finite = |&weight: &W| !weight.into().is_finite();
    // Task by task: a search element by element would spend its time on telling the others.
    let task = weights.par_chunks(TASK).position_first(|task| task.iter().any(not_finite))?;
    weights[task * TASK..].iter().position(not_finite).map(|index| task * TASK + index)
}

/// What is wrong with a weight that came out infinite or NaN; `stored` is what the file says.
pub(super) fn refuse<W: Weight>(index: usize, stored: f32) -> TensorProblem {
    let found = stored.to_string();
    if stored.is_finite() {
        TensorProblem::Range { index, found, weights: W::TYPE }
    } else {
        TensorProblem::NotFinite { index, found }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::*;

    fn decode<W: Weight>(element: Element, bytes: &[u8]) -> Vec<W> {
        let mut out = Vec::new();
        element.decode(bytes, &mut out);
        out
    }

    #[test]
    fn each_format_widens_exactly() {
        assert_eq!(decode::<f32>(Element::F32, &1.5f32.to_le_bytes()), [1.5]);
        assert_eq!(decode::<f32>(Element::F16, &[0x00, 0x3c, 0x00, 0xc0]), [1.0, -2.0]);
        assert_eq!(decode::<f32>(Element::Bf16, &[0x80, 0x3f, 0x20, 0xc0]), [1.0, -2.5]);
    }

    #[test]
    fn every_format_reads_as_every_type() {
        // Values that all three types hold, more than one task of them.
        let values: Vec<f32> = (0..TASK + 300).map(|i| (i % 127) as f32 / 8.0 - 7.0).collect();
        let f32s: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let f16s: Vec<u8> = values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect();
        let bf16s: Vec<u8> = values.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect();
        for (element, bytes) in [(Element::F32, f32s), (Element::F16, f16s), (Element::Bf16, bf16s)] {
            let widened = |halves: Vec<f32>| assert_eq!(halves, values, "{element:?}");
            widened(decode::<f32>(element, &bytes));
            widened(decode::<f16>(element, &bytes).into_iter().map(f16::to_f32).collect());
            widened(decode::<bf16>(element, &bytes).into_iter().map(bf16::to_f32).collect());
        }
    }

    #[test]
    fn the_first_weight_that_is_not_finite_is_named() {
        assert_eq!(not_finite(&[0.0, -1.0]), None);
        assert_eq!(not_finite(&[0.0, f32::NAN, f32::INFINITY]), Some(1));
        let mut many = vec![0.0; 3 * TASK];
        (many[2 * TASK + 5], many[2 * TASK + 7]) = (f32::INFINITY, f32::NAN);
        assert_eq!(not_finite(&many), Some(2 * TASK + 5));
        let problem = refuse::<f16>(1, f32::NAN);
        assert_eq!(problem, TensorProblem::NotFinite { index: 1, found: "NaN".into() });
    }

    #[test]
    fn a_weight_beyond_the_type_is_named() {
        let weights = decode::<f16>(Element::F32, &70_000f32.to_le_bytes());
        assert_eq!(not_finite(&weights), Some(0));
        assert_eq!(
            refuse::<f16>(0, 70_000.0).to_string(),
            "holds 70000 at element 0, expected weights that f16 can hold"
        );
    }
}
