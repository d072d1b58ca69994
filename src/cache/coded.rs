use std::ops::Range;
use std::sync::Arc;

use kvtune_kernels::attention::Source;
use kvtune_kernels::codec::{Codec, CodecError, CodecOptionsError, GroupError};
use kvtune_kernels::hadamard::hadamard;

use super::{CacheError, Rows};
use crate::precision::Bits;
use crate::quant::{Axis, LayerShape, Scheme, Tensor};

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
    scheme: Scheme,
    tensor: Tensor,
    shape: LayerShape,
    /// `None` at 16 bits.
    codec: Option<Codec>,
    /// `[positions][n_kv_heads * head_dim]`.
    key_bias: Option<Arc<[f32]>>,
    len: usize,
    capacity: usize,
    exact: Vec<f32>,
    /// Frozen tokens dequantized, the others as in `exact`; empty at 16 bits.
    read: Vec<f32>,
    /// Leading tokens of `read` that are final.
    done: usize,
}

impl CodedTensor {
    /// An empty tensor of one layer.
    ///
    /// `key_bias` is the layer's bias of the key projection, rotated to each position and in the row order of
    /// the keys, `[positions][n_kv_heads * head_dim]`; give it where `key_bias: subtract` asks for it.
    ///
    /// # Errors
    /// [`CodecOptionsError`] where the scheme has no codec of that width.
    pub fn new(
        scheme: &Scheme,
        tensor: Tensor,
        bits: Bits,
        shape: LayerShape,
        key_bias: Option<Arc<[f32]>>,
    ) -> Result<Self, CodecOptionsError> {
        let codec = scheme.codec(bits)?;
        Ok(Self { codec, scheme: scheme.clone(), tensor, key_bias, ..Self::exact_only(shape) })
    }

    /// An empty tensor that codes nothing.
    pub fn exact_only(shape: LayerShape) -> Self {
        Self {
            codec: None,
            scheme: Scheme::per_token_asym(),
            tensor: Tensor::Keys,
            shape,
            key_bias: None,
            len: 0,
            capacity: 0,
            exact: Vec::new(),
            read: Vec::new(),
            done: 0,
        }
    }

    /// Both versions of one head, as attention takes them.
    pub fn source(&self, head: usize) -> Source<'_> {
        Source { coded: self.read(head), exact: self.exact(head) }
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
        if self.codec.is_some() { self.scheme.frozen(self.tensor, n) } else { 0 }
    }

    /// What was appended to one head, `[len, head_dim]`.
    pub fn exact(&self, head: usize) -> &[f32] {
        &self.exact[self.tokens(head, 0..self.len)]
    }

    /// What a query that sees all tokens reads of one head, `[len, head_dim]`: [`frozen`](Self::frozen) tokens as
    /// they dequantize (sinks exact), the others exact.
    pub fn read(&self, head: usize) -> &[f32] {
        let rows = if self.codec.is_some() { &self.read } else { &self.exact };
        &rows[self.tokens(head, 0..self.len)]
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
            let row = &rows.data[i * rows.stride..][..rows.width];
            for (head, elements) in row.chunks_exact(self.shape.head_dim).enumerate() {
                let at = self.tokens(head, self.len..self.len + 1);
                if self.codec.is_some() {
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
        let capacity = tokens.max(2 * self.capacity);
        self.exact = self.moved(&self.exact, capacity);
        if self.codec.is_some() {
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
        let Some(codec) = self.codec else { return Ok(()) };
        let tokens = self.done.max(self.scheme.sinks)..self.frozen(self.len);
        if tokens.is_empty() {
            return Ok(());
        }
        self.check_key_bias(tokens.end)?;
        for head in 0..self.shape.n_kv_heads {
            self.code(codec, head, tokens.clone())?;
        }
        self.done = tokens.end;
        Ok(())
    }

    fn check_key_bias(&self, tokens: usize) -> Result<(), CacheError> {
        let Some(bias) = &self.key_bias else { return Ok(()) };
        let positions = bias.len() / self.shape.width();
        if positions < tokens { Err(CacheError::KeyBias { positions, tokens }) } else { Ok(()) }
    }

    /// Replaces tokens of one head in `read` by what their codes stand for.
    fn code(&mut self, codec: Codec, head: usize, tokens: Range<usize>) -> Result<(), CacheError> {
        let (head_dim, width) = (self.shape.head_dim, self.shape.width());
        let at = self.tokens(head, tokens.clone());
        let block = &mut self.read[at];
        // [tokens, head_dim] of this head, inside rows of all heads.
        let bias = self.key_bias.as_deref().map(|bias| &bias[tokens.start * width + head * head_dim..]);
        let shift = |block: &mut [f32], sign: f32| {
            let rows = block.chunks_exact_mut(head_dim).zip(bias.into_iter().flat_map(|b| b.chunks(width)));
            for (row, bias) in rows {
                row.iter_mut().zip(bias).for_each(|(x, bias)| *x += sign * bias);
            }
        };
        shift(block, -1.0);
        if self.scheme.hadamard {
            hadamard(block, head_dim);
        }
        let first = tokens.start - self.scheme.sinks;
        let spec = self.scheme.spec(self.tensor);
        let coded = match spec.axis {
            Axis::Token => code_tokens(codec, block, head_dim, spec.group_size(head_dim), first),
            Axis::Channel => code_channels(codec, block, head_dim, spec.group_size(head_dim), first),
        };
        coded.map_err(|error| refused(self.tensor, head, error))?;
        if self.scheme.hadamard {
            hadamard(block, head_dim);
        }
        shift(block, 1.0);
        Ok(())
    }
}

/// Codes each token's channels in groups, the last one ragged where `group` does not divide `head_dim`.
///
/// `first` is the number of the block's first token after the sinks; groups are counted from there.
fn code_tokens(
    codec: Codec,
    block: &mut [f32],
    head_dim: usize,
    group: usize,
    first: usize,
) -> Result<(), GroupError> {
    // Rows that groups divide are one long run of groups.
    let (run, groups) = match head_dim % group {
        0 => (block.len(), 0),
        _ => (head_dim, head_dim.div_ceil(group)),
    };
    let before = first * head_dim.div_ceil(group);
    for (i, run) in block.chunks_mut(run.max(1)).enumerate() {
        let coded = codec.fake_quant_groups(run, group);
        coded.map_err(|error| GroupError { group: before + i * groups + error.group, ..error })?;
    }
    Ok(())
}

/// Codes each channel over blocks of `group` tokens; groups are counted block by block.
fn code_channels(
    codec: Codec,
    block: &mut [f32],
    head_dim: usize,
    group: usize,
    first: usize,
) -> Result<(), GroupError> {
    for (i, block) in block.chunks_mut(group * head_dim).enumerate() {
        let before = (first / group + i) * head_dim;
        let coded = codec.fake_quant_columns(block, head_dim);
        coded.map_err(|error| GroupError { group: before + error.group, ..error })?;
    }
    Ok(())
}

fn refused(tensor: Tensor, head: usize, refused: GroupError) -> CacheError {
    let tensor = tensor.name();
    match refused.error {
        CodecError::NotFinite => CacheError::NotFinite { tensor, head },
        error => CacheError::Group { tensor, head, group: refused.group, message: error.to_string() },
    }
}

#[cfg(test)]
mod tests;
