//! Weights in the types that they are held in, widened to f32 sixteen at a time.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::lanes::{LANES, Lanes};

/// The elements of a weight matrix, row by row, in the type that they are held in.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// Four bytes each.
    F32(&'a [f32]),
    /// Two bytes each: 11 significant bits, up to 65,504. Finite.
    F16(&'a [f16]),
    /// Two bytes each: 8 significant bits, the range of f32. Finite.
    Bf16(&'a [bf16]),
}

impl Weights<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(weights) => weights.len(),
            Self::F16(weights) => weights.len(),
            Self::Bf16(weights) => weights.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements from `from` on, `out.len()` of them, as f32: exactly what they stand for.
    ///
    /// # Panics
    /// If there are not that many.
    pub fn widen(&self, from: usize, out: &mut [f32]) {
        let range = from..from + out.len();
        match self {
            Self::F32(weights) => out.copy_from_slice(&weights[range]),
            Self::F16(weights) => weights[range].convert_to_f32_slice(out),
            Self::Bf16(weights) => weights[range].convert_to_f32_slice(out),
        }
    }
}

/// One type of weights, by the bits of an element.
pub(super) trait Element: Send + Sync {
    /// The bits of one element.
    type Raw: Copy + Default + Send + Sync;

    /// Sixteen elements as f32.
    fn widen<L: Lanes>(lanes: L, raw: &[Self::Raw; LANES]) -> L::Vector;
}

/// f32
pub(super) struct Single;
/// f16
pub(super) struct Half;
/// bf16
pub(super) struct Brain;

impl Element for Single {
    type Raw = f32;

    #[inline(always)]
    fn widen<L: Lanes>(lanes: L, raw: &[f32; LANES]) -> L::Vector {
        lanes.load(raw)
    }
}

impl Element for Half {
    type Raw = u16;

    #[inline(always)]
    fn widen<L: Lanes>(lanes: L, raw: &[u16; LANES]) -> L::Vector {
        lanes.widen_f16(raw)
    }
}

impl Element for Brain {
    type Raw = u16;

    #[inline(always)]
    fn widen<L: Lanes>(lanes: L, raw: &[u16; LANES]) -> L::Vector {
        lanes.widen_bf16(raw)
    }
}
