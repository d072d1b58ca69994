use kvtune_kernels::attention::Source;
use kvtune_kernels::packed::Stored;

use super::attend::{Side, attend};
use super::fused::{ByHead, attend_fused};
use super::{CacheError, CodedTensor, HeadShape, LayerCache, Memory, Rows};

/// Keys and values as they are: the reference that every precision map is measured against.
#[derive(Clone)]
pub struct FullCache {
    shape: HeadShape,
    window: Option<usize>,
    keys: CodedTensor,
    values: CodedTensor,
}

impl FullCache {
    /// An empty cache; `window` is the layer's sliding window, if it has one.
    pub fn new(shape: HeadShape, window: Option<usize>) -> Self {
        let empty = || CodedTensor::exact_only(shape.stored());
        Self { shape, window, keys: empty(), values: empty() }
    }
}

impl ByHead for FullCache {
    fn keys(&self, head: usize) -> Stored<'_> {
        Stored { sinks: &[], packed: None, tail: self.keys.exact(head) }
    }

    fn values(&self, head: usize) -> Stored<'_> {
        Stored { sinks: &[], packed: None, tail: self.values.exact(head) }
    }
}

impl LayerCache for FullCache {
    fn len(&self) -> usize {
        self.keys.len()
    }

    fn append(&mut self, k: Rows<'_>, v: Rows<'_>) -> Result<(), CacheError> {
        self.keys.append(k)?;
        self.values.append(v)
    }

    fn attend(&mut self, q: Rows<'_>, out: &mut [f32]) -> Result<(), CacheError> {
        let start = self.len() - q.rows;
        if q.rows == 1 {
            attend_fused(self.shape, self.window, start, q, self, out);
            return Ok(());
        }
        let frozen = vec![0; q.rows];
        let keys = Side { source: &|head| exact(&self.keys, head), frozen: &frozen };
        let values = Side { source: &|head| exact(&self.values, head), frozen: &frozen };
        attend(self.shape, self.window, start, q, &keys, &values, out);
        Ok(())
    }

    fn memory(&self) -> Memory {
        self.keys.memory() + self.values.memory()
    }
}

fn exact(tensor: &CodedTensor, head: usize) -> Source<'_> {
    Source { coded: &[], exact: tensor.exact(head) }
}
