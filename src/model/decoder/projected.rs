use crate::cache::{HeadShape, Rows};

/// Queries, keys and values of consecutive tokens of one layer, rotated; rows of q, then k, then v.
pub struct Projected {
    pub(super) data: Vec<f32>,
    pub(super) shape: HeadShape,
    pub(super) rows: usize,
}

impl Projected {
    fn part(&self, from: usize, width: usize) -> Rows<'_> {
        let stride = self.shape.q_width() + 2 * self.shape.kv_width();
        Rows { data: &self.data[from..], stride, width, rows: self.rows }
    }

    /// `[tokens, n_heads * head_dim]`
    pub fn q(&self) -> Rows<'_> {
        self.part(0, self.shape.q_width())
    }

    /// `[tokens, n_kv_heads * head_dim]`
    pub fn k(&self) -> Rows<'_> {
        self.part(self.shape.q_width(), self.shape.kv_width())
    }

    /// `[tokens, n_kv_heads * head_dim]`
    pub fn v(&self) -> Rows<'_> {
        self.part(self.shape.q_width() + self.shape.kv_width(), self.shape.kv_width())
    }
}
