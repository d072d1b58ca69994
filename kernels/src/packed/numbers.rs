//! Scales and offsets in memory, in the type that the scheme keeps them in.

use std::ops::Range;

use half::f16;

use super::LANES;
use crate::codec::Meta;
use crate::isa::Isa;

/// Metadata in its own type.
#[derive(Clone, Debug)]
pub(super) enum Numbers {
    F16(Box<[f16]>),
    F32(Box<[f32]>),
}

impl Numbers {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::F16(numbers) => size_of_val(&**numbers),
            Self::F32(numbers) => size_of_val(&**numbers),
        }
    }

    /// Writes a group's numbers, `apart` places apart; f16 holds them exactly, the codec has rounded them.
    pub(super) fn set(&mut self, at: usize, apart: usize, meta: Meta) {
        match self {
            Self::F16(numbers) => {
                numbers[at] = f16::from_f32(meta.first);
                numbers[at + apart] = f16::from_f32(meta.second);
            }
            Self::F32(numbers) => {
                numbers[at] = meta.first;
                numbers[at + apart] = meta.second;
            }
        }
    }

    /// Asks for the cache lines of some numbers.
    #[inline(always)]
    pub(super) fn prefetch<I: Isa>(&self, isa: I, range: Range<usize>) {
        match self {
            Self::F16(numbers) => prefetch(isa, &numbers[range]),
            Self::F32(numbers) => prefetch(isa, &numbers[range]),
        }
    }

    #[inline(always)]
    pub(super) fn read<I: Isa>(&self, isa: I, at: usize, out: &mut [f32]) {
        let numbers = match self {
            Self::F16(numbers) => &numbers[at..at + out.len()],
            Self::F32(numbers) => return out.copy_from_slice(&numbers[at..at + out.len()]),
        };
        let (from, to) = (numbers.as_chunks::<LANES>(), out.as_chunks_mut::<LANES>());
        for (from, to) in from.0.iter().zip(to.0) {
            isa.store(isa.load_half(from), to);
        }
        for (from, to) in from.1.iter().zip(to.1) {
            *to = from.to_f32();
        }
    }
}

/// Bytes that come from memory together.
const LINE: usize = 64;

#[inline(always)]
fn prefetch<I: Isa, T>(isa: I, numbers: &[T]) {
    for line in numbers.chunks(LINE / size_of::<T>()) {
        isa.prefetch(line.as_ptr().cast());
    }
}
