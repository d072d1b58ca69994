use crate::quant::LayerShape;

/// How many heads a layer has, and how wide they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadShape {
    /// Query heads.
    pub n_heads: usize,
    /// Key/value heads; each serves `n_heads / n_kv_heads` query heads (GQA).
    pub n_kv_heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
}

impl HeadShape {
    /// Query heads that read one KV head.
    pub fn heads_per_kv(self) -> usize {
        self.n_heads / self.n_kv_heads
    }

    /// Elements of one token's queries.
    pub fn q_width(self) -> usize {
        self.n_heads * self.head_dim
    }

    /// What a cache of the layer holds per token.
    pub fn stored(self) -> LayerShape {
        LayerShape { n_kv_heads: self.n_kv_heads, head_dim: self.head_dim }
    }

    /// Elements of one token's keys, and of its values.
    pub fn kv_width(self) -> usize {
        self.n_kv_heads * self.head_dim
    }
}

/// Rows of a matrix inside a larger buffer.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The buffer, starting at the first row's first element.
    pub data: &'a [f32],
    /// Elements from one row to the next.
    pub stride: usize,
    /// Elements of one row.
    pub width: usize,
    /// Number of rows.
    pub rows: usize,
}

impl<'a> Rows<'a> {
    /// One row by itself.
    pub fn only(&self, index: usize) -> Self {
        Self { data: &self.data[index * self.stride..], rows: 1, ..*self }
    }

    /// Row `index`.
    pub fn row(&self, index: usize) -> &'a [f32] {
        &self.data[index * self.stride..][..self.width]
    }
}
