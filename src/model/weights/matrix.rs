use std::sync::Arc;

use half::{bf16, f16};
use kvtune_kernels::matrix::Weights;

/// A weight matrix in host memory at two bytes an element, `[rows, width]`; a clone is the same memory.
#[derive(Clone, Debug)]
pub struct HalfMatrix {
    elements: Elements,
    width: usize,
}

#[derive(Clone, Debug)]
enum Elements {
    F16(Arc<Vec<f16>>),
    Bf16(Arc<Vec<bf16>>),
}

impl HalfMatrix {
    /// Rows of `width` elements.
    pub(in crate::model) fn f16(elements: Vec<f16>, width: usize) -> Self {
        Self { elements: Elements::F16(Arc::new(elements)), width }
    }

    /// Rows of `width` elements.
    pub(in crate::model) fn bf16(elements: Vec<bf16>, width: usize) -> Self {
        Self { elements: Elements::Bf16(Arc::new(elements)), width }
    }

    /// All elements, row by row.
    pub fn weights(&self) -> Weights<'_> {
        match &self.elements {
            Elements::F16(elements) => Weights::F16(elements),
            Elements::Bf16(elements) => Weights::Bf16(elements),
        }
    }

    /// Elements of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.weights().len() / self.width.max(1)
    }

    /// Some rows as f32, one after the other.
    ///
    /// # Panics
    /// If one of them is not there.
    pub fn gather(&self, rows: impl ExactSizeIterator<Item = usize>) -> Vec<f32> {
        let mut wide = vec![0.0; rows.len() * self.width];
        let into = wide.chunks_exact_mut(self.width.max(1));
        rows.zip(into).for_each(|(row, out)| self.weights().widen(row * self.width, out));
        wide
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::*;

    #[test]
    fn rows_are_gathered_in_the_order_asked() {
        let elements = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let f16 = HalfMatrix::f16(elements.map(f16::from_f32).to_vec(), 2);
        let bf16 = HalfMatrix::bf16(elements.map(bf16::from_f32).to_vec(), 2);
        for matrix in [f16, bf16] {
            assert_eq!((matrix.rows(), matrix.width()), (3, 2));
            assert_eq!(matrix.gather([2, 0, 2].into_iter()), [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
        }
    }
}
