use std::sync::Arc;

use kvtune_kernels::hadamard::hadamard;
use kvtune_kernels::packed::{Bias, Groups, Layout, PackedHead, Stored};

use crate::cache::coded::add_bias;
use crate::cache::{CacheError, HeadShape, KeyBiasTable, Memory, Rows};
use crate::precision::Bits;
use crate::quant::{Axis, CodecOptionsError, Scheme, Tensor};

/// One layer's keys or values: sinks exact, frozen tokens as codes, the others exact.
///
/// Tokens are coded as [`CodedTensor`](crate::cache::CodedTensor) codes them, and the same group for group. A
/// token that has frozen is held exact as well until [`settle`](Self::settle), because queries that came with it
/// may read it so.
#[derive(Clone)]
pub(super) struct PackedTensor {
    scheme: Arc<Scheme>,
    tensor: Tensor,
    shape: HeadShape,
    /// `[positions][n_kv_heads * head_dim]`, taken off keys before they are coded.
    bias: Option<KeyBiasTable>,
    heads: Vec<Head>,
    len: usize,
    /// The token that every tail begins with.
    tail_start: usize,
}

#[derive(Clone)]
struct Head {
    sinks: Vec<f32>,
    /// `None` at 16 bits.
    packed: Option<PackedHead>,
    /// Tokens from `tail_start` on.
    tail: Vec<f32>,
}

impl PackedTensor {
    pub(super) fn new(
        scheme: &Arc<Scheme>,
        tensor: Tensor,
        bits: Bits,
        shape: HeadShape,
        bias: Option<KeyBiasTable>,
    ) -> Result<Self, CodecOptionsError> {
        let layout = layout(scheme, tensor, bits, shape.head_dim)?;
        let head = || Head { sinks: Vec::new(), packed: layout.map(PackedHead::new), tail: Vec::new() };
        let heads = (0..shape.n_kv_heads).map(|_| head()).collect();
        Ok(Self { scheme: Arc::clone(scheme), tensor, shape, bias, heads, len: 0, tail_start: 0 })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn is_coded(&self) -> bool {
        self.heads.first().is_some_and(|head| head.packed.is_some())
    }

    /// How many leading tokens a query reads as they were frozen when `n` tokens are held; none at 16 bits.
    pub(super) fn frozen(&self, n: usize) -> usize {
        if self.is_coded() { self.scheme.frozen(self.tensor, n) } else { 0 }
    }

    /// Takes the next tokens, and codes those that freeze.
    pub(super) fn append(&mut self, rows: Rows<'_>) -> Result<(), CacheError> {
        let head_dim = self.shape.head_dim;
        for i in 0..rows.rows {
            let sink = self.is_coded() && self.len < self.scheme.sinks;
            for (head, elements) in self.heads.iter_mut().zip(rows.row(i).chunks_exact(head_dim)) {
                let to = if sink { &mut head.sinks } else { &mut head.tail };
                to.extend_from_slice(elements);
            }
            self.len += 1;
            self.tail_start += usize::from(sink);
        }
        self.freeze()
    }

    /// Forgets the exact version of tokens that are held as codes, which no query to come will read.
    pub(super) fn settle(&mut self) {
        let frozen = self.frozen(self.len).max(self.tail_start);
        let elements = (frozen - self.tail_start) * self.shape.head_dim;
        if elements == 0 {
            return;
        }
        for Head { tail, .. } in &mut self.heads {
            tail.drain(..elements);
            // A prompt's worth of room is not kept; the next tokens make their own.
            tail.shrink_to_fit();
        }
        self.tail_start = frozen;
    }

    /// Codes the tokens that have frozen since the last call.
    fn freeze(&mut self) -> Result<(), CacheError> {
        let frozen = self.frozen(self.len);
        let head_dim = self.shape.head_dim;
        self.check_bias(frozen)?;
        for (index, head) in self.heads.iter_mut().enumerate() {
            let Some(packed) = &mut head.packed else { continue };
            let first = self.scheme.sinks + packed.len();
            if first >= frozen {
                continue;
            }
            let mut block = head.tail
                [(first - self.tail_start) * head_dim..(frozen - self.tail_start) * head_dim]
                .to_vec();
            if let Some(bias) = &self.bias {
                add_bias(bias, self.shape.stored(), index, first, &mut block, -1.0);
            }
            if self.scheme.hadamard {
                hadamard(&mut block, head_dim);
            }
            packed.append(&block).map_err(|error| CacheError::refused(self.tensor, index, error))?;
        }
        Ok(())
    }

    fn check_bias(&self, tokens: usize) -> Result<(), CacheError> {
        let Some(bias) = &self.bias else { return Ok(()) };
        let positions = bias.len() / self.shape.kv_width();
        if positions < tokens { Err(CacheError::KeyBias { positions, tokens }) } else { Ok(()) }
    }

    /// One head as a query reads it that sees everything.
    pub(super) fn stored(&self, head: usize) -> Stored<'_> {
        let Head { sinks, packed, tail } = &self.heads[head];
        let coded = packed.as_ref().map_or(0, PackedHead::len);
        // Where nothing is coded, there are no sinks, and the tail begins with token 0.
        let behind =
            if packed.is_some() { sinks.len() / self.shape.head_dim + coded - self.tail_start } else { 0 };
        Stored { sinks, packed: packed.as_ref(), tail: &tail[behind * self.shape.head_dim..] }
    }

    /// What has to be added to a head's coded keys.
    pub(super) fn bias(&self, head: usize) -> Option<Bias<'_>> {
        let bias = self.bias.as_ref().filter(|_| self.is_coded())?;
        Some(Bias { data: &bias[head * self.shape.head_dim..], stride: self.shape.kv_width() })
    }

    /// All tokens of a head, `[len, head_dim]`: codes as they read (the rest exact), and exact as far as that is
    /// held (zeros before).
    pub(super) fn read(&self, head: usize, coded: &mut Vec<f32>, exact: &mut Vec<f32>) {
        let head_dim = self.shape.head_dim;
        let stored = self.stored(head);
        coded.clear();
        coded.extend_from_slice(stored.sinks);
        if let Some(packed) = stored.packed {
            let first = self.scheme.sinks.min(self.len);
            coded.resize((first + packed.len()) * head_dim, 0.0);
            let block = &mut coded[first * head_dim..];
            packed.decode(0..packed.len(), block);
            if self.scheme.hadamard {
                hadamard(block, head_dim);
            }
            if let Some(bias) = &self.bias {
                add_bias(bias, self.shape.stored(), head, first, block, 1.0);
            }
        }
        coded.extend_from_slice(stored.tail);
        exact.clear();
        exact.extend_from_slice(stored.sinks);
        exact.resize(self.tail_start * head_dim, 0.0);
        exact.extend_from_slice(&self.heads[head].tail);
    }

    /// What is allocated.
    pub(super) fn memory(&self) -> Memory {
        let bytes = |elements: &Vec<f32>| elements.capacity() * size_of::<f32>();
        let of_head = |head: &Head| Memory {
            codes: head.packed.as_ref().map_or(0, PackedHead::code_bytes),
            metadata: head.packed.as_ref().map_or(0, PackedHead::metadata_bytes),
            exact: bytes(&head.tail),
            sinks: bytes(&head.sinks),
        };
        self.heads.iter().map(of_head).sum()
    }
}

/// How codes of a width are laid out; `None` at 16 bits.
fn layout(
    scheme: &Scheme,
    tensor: Tensor,
    bits: Bits,
    head_dim: usize,
) -> Result<Option<Layout>, CodecOptionsError> {
    let spec = scheme.spec(tensor);
    let size = spec.group_size(head_dim).max(1);
    let of_codec = |codec| match (tensor, spec.axis) {
        (Tensor::Values, _) => Layout::values(codec, head_dim, size),
        (Tensor::Keys, Axis::Token) => Layout::keys(codec, head_dim, Groups::Channels(size)),
        (Tensor::Keys, Axis::Channel) => Layout::keys(codec, head_dim, Groups::Tokens(size)),
    };
    Ok(scheme.codec(bits)?.map(of_codec))
}
