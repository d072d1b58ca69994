//! How a head's tokens are held: exact sinks, codes, exact tail.

use std::ops::Range;

use super::head::PackedHead;

/// Keys or values of one KV head: exact sinks, then codes, then exact tokens.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// The first tokens, `[n, head_dim]`.
    pub sinks: &'a [f32],
    /// Those behind them.
    pub packed: Option<&'a PackedHead>,
    /// The newest, `[n, head_dim]`.
    pub tail: &'a [f32],
}

impl Stored<'_> {
    pub(super) fn coded(&self, head_dim: usize) -> Range<usize> {
        let start = self.sinks.len() / head_dim;
        start..start + self.packed.map_or(0, PackedHead::len)
    }

    /// Tokens held.
    pub fn len(&self, head_dim: usize) -> usize {
        self.coded(head_dim).end + self.tail.len() / head_dim
    }
}

/// A chunk of tokens by how they are held; each part with the column of the chunk where it begins.
pub(super) struct Parts<'a> {
    pub(super) sinks: (&'a [f32], usize),
    /// Counted from behind the sinks.
    pub(super) coded: Range<usize>,
    pub(super) coded_at: usize,
    pub(super) tail: (&'a [f32], usize),
}

impl<'a> Parts<'a> {
    pub(super) fn of(stored: &Stored<'a>, head_dim: usize, chunk: &Range<usize>) -> Self {
        let coded = stored.coded(head_dim);
        let cut = |part: Range<usize>| {
            let start = chunk.start.max(part.start);
            start..chunk.end.min(part.end).max(start)
        };
        let rows = |data: &'a [f32], part: Range<usize>, first: usize| {
            let at = part.start.min(chunk.end) - chunk.start;
            match part.is_empty() {
                true => (&data[..0], 0),
                false => (&data[(part.start - first) * head_dim..(part.end - first) * head_dim], at),
            }
        };
        let sinks = rows(stored.sinks, cut(0..coded.start), 0);
        let tail = rows(stored.tail, cut(coded.end..usize::MAX), coded.end);
        let mine = cut(coded.clone());
        let coded_at = mine.start.min(chunk.end) - chunk.start;
        Self { sinks, coded: mine.start - coded.start..mine.end - coded.start, coded_at, tail }
    }
}
