use std::ops::Range;

use half::f16;

use super::layout::{Groups, Lanes, Layout};
use super::numbers::Numbers;
use super::{LANES, Unit};
use crate::codec::{GroupError, Meta, Metadata};
use crate::isa::{Isa, Portable};

/// The codes of one head's keys or values, and their metadata.
///
/// Grows by slabs: what is held is never moved, and never coded again.
#[derive(Clone, Debug)]
pub struct PackedHead {
    layout: Layout,
    slabs: Vec<Slab>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Slab {
    units: Box<[Unit]>,
    metadata: Numbers,
}

impl PackedHead {
    /// An empty head.
    pub fn new(layout: Layout) -> Self {
        Self { layout, slabs: Vec::new(), len: 0 }
    }

    /// How codes are laid out.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Tokens held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is held yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes allocated for codes.
    pub fn code_bytes(&self) -> usize {
        self.slabs.iter().map(|slab| size_of_val(&*slab.units)).sum()
    }

    /// Bytes allocated for metadata.
    pub fn metadata_bytes(&self) -> usize {
        self.slabs.iter().map(|slab| slab.metadata.bytes()).sum()
    }

    /// Codes the next tokens.
    ///
    /// # Shapes
    /// - `tokens`: `[n, head_dim]`, n a multiple of [`Layout::block_tokens`]
    ///
    /// # Errors
    /// The first group that cannot be coded, counted from the first token of the head; the head is of no use
    /// after that.
    ///
    /// # Panics
    /// If `tokens` is not of that shape.
    pub fn append(&mut self, tokens: &[f32]) -> Result<(), GroupError> {
        let block = self.layout.block_tokens() * self.layout.head_dim();
        assert!(tokens.len().is_multiple_of(block), "whole groups of whole tokens");
        for tokens in tokens.chunks_exact(block) {
            if self.len.is_multiple_of(self.layout.slab_tokens()) {
                self.slabs.push(Slab::new(&self.layout));
            }
            match self.layout.groups() {
                Groups::Channels(size) => self.append_token(tokens, size)?,
                Groups::Tokens(size) => self.append_block(tokens, size)?,
            }
            self.len += self.layout.block_tokens();
        }
        Ok(())
    }

    /// One token, whose groups run along its channels.
    fn append_token(&mut self, token: &[f32], size: usize) -> Result<(), GroupError> {
        let (layout, tile_tokens) = (self.layout, self.layout.tile_tokens());
        let (first, at) = (self.len * layout.channel_groups(), self.len % tile_tokens);
        let mut codes = vec![0; size];
        let (tile, metadata, meta_at) = self.tile_mut(self.len);
        for (group, elements) in token.chunks(size).enumerate() {
            let meta = layout.codec().encode(elements, &mut codes);
            let meta = meta.map_err(|error| GroupError { group: first + group, error })?;
            metadata.set(meta_at + group * tile_tokens + at, layout.meta_len() / 2, meta);
            for (channel, &code) in (group * size..).zip(&codes[..elements.len()]) {
                layout.set(tile, at, channel, code);
            }
        }
        Ok(())
    }

    /// One group of tokens of every channel.
    fn append_block(&mut self, block: &[f32], size: usize) -> Result<(), GroupError> {
        let (layout, head_dim) = (self.layout, self.layout.head_dim());
        let (mut column, mut codes) = (vec![0.0; size], vec![0; size]);
        for channel in 0..head_dim {
            for (x, token) in column.iter_mut().zip(block.chunks_exact(head_dim)) {
                *x = token[channel];
            }
            let meta = layout.codec().encode(&column, &mut codes);
            let group = self.len / size * head_dim + channel;
            let meta = meta.map_err(|error| GroupError { group, error })?;
            for (index, codes) in codes.chunks(layout.tile_tokens()).enumerate() {
                let (tile, metadata, meta_at) = self.tile_mut(self.len + index * layout.tile_tokens());
                metadata.set(meta_at + channel, head_dim, meta);
                for (token, &code) in codes.iter().enumerate() {
                    layout.set(tile, token, channel, code);
                }
            }
        }
        Ok(())
    }

    /// The tile of a token, all metadata of its slab, and where there the tile's begins.
    fn tile_mut(&mut self, token: usize) -> (&mut [Unit], &mut Numbers, usize) {
        let layout = self.layout;
        let slab = &mut self.slabs[token / layout.slab_tokens()];
        let token = token % layout.slab_tokens();
        let units = layout.tile_units();
        let tile = &mut slab.units[token / layout.tile_tokens() * units..][..units];
        (tile, &mut slab.metadata, token / layout.meta_tokens() * layout.meta_len())
    }

    /// Tiles that hold the tokens of a range.
    pub(super) fn tiles(&self, tokens: Range<usize>) -> Range<usize> {
        let size = self.layout.tile_tokens();
        tokens.start / size..tokens.end.div_ceil(size)
    }

    /// Cuts tiles into stretches that lie behind one another in memory.
    pub(super) fn stretches(&self, tiles: Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        let per_slab = self.layout.slab_tokens() / self.layout.tile_tokens();
        let mut start = tiles.start;
        std::iter::from_fn(move || {
            let end = ((start / per_slab + 1) * per_slab).min(tiles.end);
            let stretch = start..end;
            start = end;
            (!stretch.is_empty()).then_some(stretch)
        })
    }

    /// The units of tiles of one [stretch](Self::stretches).
    #[inline(always)]
    pub(super) fn units(&self, tiles: Range<usize>) -> &[Unit] {
        let units = self.layout.tile_units();
        let per_slab = self.layout.slab_tokens() / self.layout.tile_tokens();
        let first = tiles.start % per_slab;
        &self.slabs[tiles.start / per_slab].units[first * units..(first + tiles.len()) * units]
    }

    /// Asks for the units and the metadata of some tiles, as far as there are any.
    ///
    /// A core waits for about a dozen lines at a time: ask for one tile, and compute another meanwhile.
    #[inline(always)]
    pub(super) fn prefetch<I: Isa>(&self, isa: I, tiles: Range<usize>) {
        let there = self.len.div_ceil(self.layout.tile_tokens());
        for tiles in self.stretches(tiles.start.min(there)..tiles.end.min(there)) {
            let (first, last) = (self.metadata_of(tiles.start), self.metadata_of(tiles.end - 1));
            for unit in self.units(tiles) {
                isa.prefetch(unit.as_ptr().cast());
            }
            let (metadata, at) = self.metadata_at(first);
            metadata.prefetch(isa, at..at + (last + 1 - first) * self.layout.meta_len());
        }
    }

    /// Which stretch of metadata a tile has.
    pub(super) fn metadata_of(&self, tile: usize) -> usize {
        tile * self.layout.tile_tokens() / self.layout.meta_tokens()
    }

    /// One [such stretch](Self::metadata_of) as f32: all first numbers, then all second ones.
    #[inline(always)]
    pub(super) fn read_metadata<I: Isa>(&self, isa: I, index: usize, out: &mut [f32]) {
        let (metadata, at) = self.metadata_at(index);
        metadata.read(isa, at, out);
    }

    /// The metadata of the slab that holds one such stretch, and where it begins there.
    #[inline(always)]
    fn metadata_at(&self, index: usize) -> (&Numbers, usize) {
        let layout = &self.layout;
        let token = index * layout.meta_tokens();
        let (slab, token) = (token / layout.slab_tokens(), token % layout.slab_tokens());
        (&self.slabs[slab].metadata, token / layout.meta_tokens() * layout.meta_len())
    }

    /// What the codes of some tokens stand for, bit for bit what [`Codec::decode`](crate::codec::Codec::decode)
    /// gives.
    ///
    /// # Shapes
    /// - `out`: `[tokens, head_dim]`
    ///
    /// # Panics
    /// If the range ends beyond [`len`](Self::len).
    pub fn decode(&self, tokens: Range<usize>, out: &mut [f32]) {
        assert!(tokens.end <= self.len, "tokens {tokens:?} of {}", self.len);
        let (size, head_dim) = (self.layout.tile_tokens(), self.layout.head_dim());
        let mut tile_out = vec![0.0; size * head_dim];
        let mut scratch = Scratch::default();
        for tile in self.tiles(tokens.clone()) {
            let first = tile * size;
            let (from, to) = (tokens.start.max(first), tokens.end.min(first + size));
            self.decode_tile(tile, &mut tile_out, &mut scratch);
            out[(from - tokens.start) * head_dim..(to - tokens.start) * head_dim]
                .copy_from_slice(&tile_out[(from - first) * head_dim..(to - first) * head_dim]);
        }
    }

    /// All tokens of a tile, `[tile_tokens, head_dim]`; those that are not there yet read as their zero codes.
    pub(super) fn decode_tile(&self, tile: usize, out: &mut [f32], scratch: &mut Scratch) {
        scratch.metadata.resize(self.layout.meta_len(), 0.0);
        self.read_metadata(Portable, self.metadata_of(tile), &mut scratch.metadata);
        match self.layout.groups() {
            Groups::Channels(size) => self.decode_tokens(tile, size, out, scratch),
            Groups::Tokens(_) => self.decode_channels(tile, out, scratch),
        }
    }

    /// A tile whose groups run along the channels of a token.
    fn decode_tokens(&self, tile: usize, group: usize, out: &mut [f32], scratch: &mut Scratch) {
        let (size, head_dim) = (self.layout.tile_tokens(), self.layout.head_dim());
        self.token_codes(tile, &mut scratch.codes);
        let (first, second) = scratch.metadata.split_at(scratch.metadata.len() / 2);
        let codes = scratch.codes.chunks_exact(head_dim);
        for (token, (codes, out)) in codes.zip(out.chunks_exact_mut(head_dim)).enumerate() {
            for (index, (codes, out)) in codes.chunks(group).zip(out.chunks_mut(group)).enumerate() {
                let at = index * size + token;
                self.layout.codec().decode(codes, Meta { first: first[at], second: second[at] }, out);
            }
        }
    }

    /// A tile whose groups run along the tokens of a channel.
    fn decode_channels(&self, tile: usize, out: &mut [f32], scratch: &mut Scratch) {
        let (size, head_dim) = (self.layout.tile_tokens(), self.layout.head_dim());
        let units = self.units(tile..tile + 1);
        scratch.codes.resize(self.layout.columns() * LANES, 0);
        scratch.values.resize(size, 0.0);
        for channel in 0..head_dim {
            for (column, codes) in scratch.codes.chunks_exact_mut(LANES).enumerate() {
                let strip = self.layout.strip_codes(units, channel, column);
                for (code, of_strip) in codes.iter_mut().zip(strip) {
                    *code = of_strip as u8;
                }
            }
            let meta =
                Meta { first: scratch.metadata[channel], second: scratch.metadata[head_dim + channel] };
            self.layout.codec().decode(&scratch.codes[..size], meta, &mut scratch.values);
            for (out, value) in out[channel..].iter_mut().step_by(head_dim).zip(&scratch.values) {
                *out = *value;
            }
        }
    }

    /// The codes of a tile, `[tile_tokens, head_dim]`.
    fn token_codes(&self, tile: usize, out: &mut Vec<u8>) {
        let (layout, units) = (&self.layout, self.units(tile..tile + 1));
        let (size, head_dim) = (layout.tile_tokens(), layout.head_dim());
        out.resize(size * head_dim, 0);
        let rows = if layout.lanes() == Lanes::Tokens { head_dim } else { size };
        for (row, column) in (0..rows).flat_map(|row| (0..layout.columns()).map(move |column| (row, column)))
        {
            let codes = layout.strip_codes(units, row, column).map(|code| code as u8);
            match layout.lanes() {
                Lanes::Tokens => {
                    for (token, code) in (column * LANES..size).zip(codes) {
                        out[token * head_dim + row] = code;
                    }
                }
                Lanes::Channels => {
                    let to = &mut out[row * head_dim + column * LANES..(row + 1) * head_dim];
                    let n = to.len().min(LANES);
                    to[..n].copy_from_slice(&codes[..n]);
                }
            }
        }
    }
}

/// Buffers that reading tiles reuses.
#[derive(Default)]
pub(super) struct Scratch {
    metadata: Vec<f32>,
    codes: Vec<u8>,
    values: Vec<f32>,
}

impl Slab {
    fn new(layout: &Layout) -> Self {
        let units = layout.slab_tokens() / layout.tile_tokens() * layout.tile_units();
        let numbers = layout.slab_tokens() / layout.meta_tokens() * layout.meta_len();
        let metadata = match layout.codec().metadata() {
            Metadata::F16 => Numbers::F16(vec![f16::ZERO; numbers].into()),
            Metadata::F32 => Numbers::F32(vec![0.0; numbers].into()),
        };
        Self { units: vec![[0; LANES]; units].into(), metadata }
    }
}
