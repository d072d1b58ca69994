use super::ledger::Ledger;
use super::session::Session;
use crate::precision::{PrecisionMap, PrecisionPair, equivalent_bits, storage_bits};
use crate::quant::{LayerShape, Scheme};

/// What maps of a job cost: in the paper's bits, in stored bits, in bytes.
#[derive(Clone)]
pub(super) struct Costs {
    scheme: Scheme,
    shapes: Vec<LayerShape>,
    widths: Vec<usize>,
    context: usize,
    batch: usize,
}

/// All three measures of one map.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    pub(super) equivalent_bits: f64,
    pub(super) storage_bits: f64,
    pub(super) cache_bytes: u64,
}

impl Costs {
    pub(super) fn new(session: &Session<'_>, ledger: &Ledger) -> Self {
        let shape = session.checkpoint.config().head_shape().stored();
        Self {
            scheme: session.job.search_space.scheme.clone(),
            shapes: vec![shape; session.n_layers()],
            widths: session.widths(),
            context: ledger.context(),
            batch: ledger.batch(),
        }
    }

    pub(super) fn of(&self, map: &PrecisionMap) -> Cost {
        let bytes = self.scheme.map_bytes(map, &self.shapes, self.context);
        Cost {
            equivalent_bits: equivalent_bits(map, &self.widths).get(),
            storage_bits: storage_bits(bytes, &self.widths, self.context).bits,
            cache_bytes: bytes.saturating_mul(self.batch as u64),
        }
    }

    /// Bytes of one layer's cache at `context` tokens.
    pub(super) fn layer_bytes(&self, layer: usize, pair: PrecisionPair, context: usize) -> u64 {
        self.scheme.layer_bytes(self.shapes[layer], pair, context)
    }

    pub(super) fn widths(&self) -> &[usize] {
        &self.widths
    }

    pub(super) fn context(&self) -> usize {
        self.context
    }
}
