//! One row of the table of tensors, checked against the file.

use rlx_gguf::GgmlType;

use super::header::TensorEntry;
use crate::model::TensorProblem;

/// One tensor as the table has it.
pub(super) struct RawEntry {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) dtype: u32,
    pub(super) offset: u64,
}

impl RawEntry {
    /// Where the tensor lies, if that is inside the file.
    pub(super) fn resolve(&self, file: usize, data: usize) -> Result<TensorEntry, TensorProblem> {
        let dtype = self.dtype()?;
        let header =
            |found: String, expected: &str| TensorProblem::Header { found, expected: expected.into() };
        let elements = self.shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
        // No format packs more than eight elements into a byte.
        let elements = elements.filter(|&count| count / 8 <= file).ok_or_else(|| {
            header(format!("shape {:?}", self.shape), "no more elements than the file can hold")
        })?;
        let row = self.shape.last().copied().unwrap_or(1);
        // A row is the unit of storage: a block never spans two.
        let length = rlx_gguf::bytes_for_public(dtype, row)
            .and_then(|_| rlx_gguf::bytes_for_public(dtype, elements))
            .ok_or_else(|| header(format!("rows of {row} elements as {dtype}"), "whole blocks in a row"))?;
        let start = usize::try_from(self.offset).ok().and_then(|offset| data.checked_add(offset));
        let end = start.and_then(|start| start.checked_add(length));
        match (start, end) {
            (Some(start), Some(end)) if end <= file => {
                Ok(TensorEntry { shape: self.shape.clone(), dtype, bytes: start..end })
            }
            _ => {
                let end = end.map_or("beyond all numbers".into(), |end| end.to_string());
                Err(TensorProblem::OutOfFile { end, file })
            }
        }
    }

    fn dtype(&self) -> Result<GgmlType, TensorProblem> {
        use GgmlType::{BF16, F16, F32, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Q8K};
        let unknown = |found: String| TensorProblem::Dtype { found };
        match GgmlType::from_u32(self.dtype) {
            Ok(
                known @ (F32 | F16 | BF16 | Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 | Q2K | Q3K | Q4K | Q5K | Q6K
                | Q8K),
            ) => Ok(known),
            Ok(other) => Err(unknown(other.name().into())),
            Err(_) => Err(unknown(format!("format {}", self.dtype))),
        }
    }
}
