use std::ops::Range;

use kvtune_kernels::attention::Source;
use kvtune_kernels::hadamard::hadamard;

use super::{CacheError, KeyBiasTable, Memory, Rows};
use crate::precision::Bits;
use crate::quant::{Axis, Codec, CodecOptionsError, GroupError, LayerShape, Scheme, Tensor, TensorSpec};

/// One layer's keys or values, exact and as they read after coding.
///
/// A token is coded once, when [`Scheme::frozen`] first counts it, and never touched again, so the result does
/// not depend on how the tokens were cut into calls of [`append`](Self::append). Codes are simulated: the
/// dequantized rows are kept as f32, in the original basis and with the key bias added back.
///
/// # Shapes
/// Each head is contiguous: `[n_kv_heads][capacity][head_dim]`.
#[derive(Clone, Debug)]
pub struct CodedTensor {
    shape: LayerShape,
    /// `None` where everything stays exact.
    coding: Option<Coding>,
    len: usize,
    capacity: usize,
    exact: Vec<f32>,
    /// Frozen tokens dequantized, the others as in `exact`; empty without a coding.
    read: Vec<f32>,
    /// Leading tokens of `read` that are final.
    done: usize,
}

impl CodedTensor {
    /// An empty tensor of one layer.
    ///
    /// `key_bias` is the layer's bias of the key projection, rotated to each position: what `key_bias: subtract`
    /// takes off a key before coding. Give it exactly where the scheme asks for it.
    ///
    /// # Errors
    /// [`CodecOptionsError`] where the scheme has no codec of that width.
    pub fn new(
        scheme: &Scheme,
        tensor: Tensor,
        bits: Bits,
        shape: LayerShape,
        key_bias: Option<KeyBiasTable>,
    ) -> Result<Self, CodecOptionsError> {
        let coding =
            scheme.codec(bits)?.map(|codec| Coding { codec, scheme: scheme.clone(), tensor, key_bias });
        Ok(Self { coding, ..Self::exact_only(shape) })
    }

    /// An empty tensor that codes nothing.
    pub fn exact_only(shape: LayerShape) -> Self {
        Self { shape, coding: None, len: 0, capacity: 0, exact: Vec::new(), read: Vec::new(), done: 0 }
    }

    /// Tokens held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is held yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many leading tokens a query reads from [`read`](Self::read) when `n` tokens are held; none at 16 bits.
    pub fn frozen(&self, n: usize) -> usize {
        self.coding.as_ref().map_or(0, |coding| coding.scheme.frozen(coding.tensor, n))
    }

    /// What was appended to one head, `[len, head_dim]`.
    pub fn exact(&self, head: usize) -> &[f32] {
        &self.exact[self.tokens(head, 0..self.len)]
    }

    /// What a query that sees all tokens reads of one head, `[len, head_dim]`: [`frozen`](Self::frozen) tokens as
    /// they dequantize (sinks exact), the others exact.
    pub fn read(&self, head: usize) -> &[f32] {
        let rows = if self.coding.is_some() { &self.read } else { &self.exact };
        &rows[self.tokens(head, 0..self.len)]
    }

    /// Both versions of one head, as attention takes them.
    pub fn source(&self, head: usize) -> Source<'_> {
        Source { coded: self.read(head), exact: self.exact(head) }
    }

    /// What is allocated: both versions as f32.
    pub fn memory(&self) -> Memory {
        let bytes = (self.exact.len() + self.read.len()) * size_of::<f32>();
        Memory { exact: bytes, ..Memory::default() }
    }

    /// Takes the next tokens, and codes those that freeze.
    ///
    /// # Errors
    /// [`CacheError`] where a group cannot be coded; the tensor is of no use after that.
    ///
    /// # Panics
    /// Never for rows of `n_kv_heads * head_dim` elements, which the decoder makes.
    pub fn append(&mut self, rows: Rows<'_>) -> Result<(), CacheError> {
        assert_eq!(rows.width, self.shape.width(), "a row holds every head");
        self.reserve(self.len + rows.rows);
        for i in 0..rows.rows {
            for (head, elements) in rows.row(i).chunks_exact(self.shape.head_dim).enumerate() {
                let at = self.tokens(head, self.len..self.len + 1);
                if self.coding.is_some() {
                    self.read[at.clone()].copy_from_slice(elements);
                }
                self.exact[at].copy_from_slice(elements);
            }
            self.len += 1;
        }
        self.freeze()
    }

    /// Makes room for `tokens` in all, so that appending up to there moves nothing.
    pub fn reserve(&mut self, tokens: usize) {
        if tokens <= self.capacity {
            return;
        }
        // A quarter more, not twice as much: at full precision the room would weigh more than what is in it.
        let capacity = tokens.max(self.capacity + self.capacity / 4);
        self.exact = self.moved(&self.exact, capacity);
        if self.coding.is_some() {
            self.read = self.moved(&self.read, capacity);
        }
        self.capacity = capacity;
    }

    fn moved(&self, rows: &[f32], capacity: usize) -> Vec<f32> {
        let head_dim = self.shape.head_dim;
        let mut moved = vec![0.0; self.shape.n_kv_heads * capacity * head_dim];
        for head in 0..self.shape.n_kv_heads {
            let held = self.len * head_dim;
            moved[head * capacity * head_dim..][..held]
                .copy_from_slice(&rows[self.tokens(head, 0..self.len)]);
        }
        moved
    }

    /// Where tokens of one head lie.
    fn tokens(&self, head: usize, tokens: Range<usize>) -> Range<usize> {
        let at = |token| (head * self.capacity + token) * self.shape.head_dim;
        at(tokens.start)..at(tokens.end)
    }

    /// Codes the tokens that have frozen since the last call.
    fn freeze(&mut self) -> Result<(), CacheError> {
        let frozen = self.frozen(self.len);
        let Some(coding) = &self.coding else { return Ok(()) };
        let tokens = self.done.max(coding.scheme.sinks)..frozen;
        if tokens.is_empty() {
            return Ok(());
        }
        coding.check_bias(self.shape.width(), tokens.end)?;
        for head in 0..self.shape.n_kv_heads {
            let at = self.tokens(head, tokens.clone());
            coding.apply(self.shape, head, tokens.start, &mut self.read[at])?;
        }
        self.done = tokens.end;
        Ok(())
    }
}

/// What happens to tokens as they freeze.
#[derive(Clone, Debug)]
struct Coding {
    codec: Codec,
    scheme: Scheme,
    tensor: Tensor,
    /// `[positions][n_kv_heads * head_dim]`.
    key_bias: Option<KeyBiasTable>,
}

impl Coding {
    fn check_bias(&self, width: usize, tokens: usize) -> Result<(), CacheError> {
        let Some(bias) = &self.key_bias else { return Ok(()) };
        let positions = bias.len() / width;
        if positions < tokens { Err(CacheError::KeyBias { positions, tokens }) } else { Ok(()) }
    }

    /// Replaces tokens of one head, from `first` on, by what their codes stand for.
    ///
    /// # Shapes
    /// - `block`: `[tokens, head_dim]`
    fn apply(
        &self,
        shape: LayerShape,
        head: usize,
        first: usize,
        block: &mut [f32],
    ) -> Result<(), CacheError> {
        let Self { codec, scheme, tensor, .. } = self;
        let groups = Groups { codec: *codec, spec: scheme.spec(*tensor), head_dim: shape.head_dim };
        if let Some(bias) = &self.key_bias {
            add_bias(bias, shape, head, first, block, -1.0);
        }
        if scheme.hadamard {
            hadamard(block, shape.head_dim);
        }
        groups
            .code(first - scheme.sinks, block)
            .map_err(|error| CacheError::refused(*tensor, head, error))?;
        if scheme.hadamard {
            hadamard(block, shape.head_dim);
        }
        if let Some(bias) = &self.key_bias {
            add_bias(bias, shape, head, first, block, 1.0);
        }
        Ok(())
    }
}

/// Adds the rotated bias of a head's keys, `sign` times, to tokens from `first` on.
pub(super) fn add_bias(
    bias: &[f32],
    shape: LayerShape,
    head: usize,
    first: usize,
    block: &mut [f32],
    sign: f32,
) {
    let of_head = &bias[first * shape.width() + head * shape.head_dim..];
    for (row, bias) in block.chunks_exact_mut(shape.head_dim).zip(of_head.chunks(shape.width())) {
        row.iter_mut().zip(bias).for_each(|(x, bias)| *x += sign * bias);
    }
}

/// How a block of one head's tokens, `[tokens, head_dim]`, falls into groups.
struct Groups {
    codec: Codec,
    spec: TensorSpec,
    head_dim: usize,
}

impl Groups {
    /// `first` is the number of the block's first token after the sinks; a head's groups are counted from there.
    fn code(&self, first: usize, block: &mut [f32]) -> Result<(), GroupError> {
        match self.spec.axis {
            Axis::Token => self.code_tokens(first, block),
            Axis::Channel => self.code_channels(first, block),
        }
    }

    /// Each token's channels in groups, the last one ragged where the size does not divide `head_dim`.
    fn code_tokens(&self, first: usize, block: &mut [f32]) -> Result<(), GroupError> {
        let size = self.spec.group_size(self.head_dim).max(1);
        let per_token = self.head_dim.div_ceil(size);
        if self.head_dim.is_multiple_of(size) {
            let coded = self.codec.fake_quant_groups(block, size);
            return coded.map_err(|error| error.after(first * per_token));
        }
        for (i, token) in block.chunks_mut(self.head_dim).enumerate() {
            let coded = self.codec.fake_quant_groups(token, size);
            coded.map_err(|error| error.after((first + i) * per_token))?;
        }
        Ok(())
    }

    /// Each channel over blocks of as many tokens as a group has; groups are counted block by block.
    fn code_channels(&self, first: usize, block: &mut [f32]) -> Result<(), GroupError> {
        let size = self.spec.group_size(self.head_dim).max(1);
        for (i, tokens) in block.chunks_mut(size * self.head_dim).enumerate() {
            let coded = self.codec.fake_quant_columns(tokens, self.head_dim);
            coded.map_err(|error| error.after((first / size + i) * self.head_dim))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
