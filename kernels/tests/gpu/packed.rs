//! The packed layout written out a second time, code by code, with `Codec` for the arithmetic.

use half::f16;
use kvtune_kernels::codec::{Codec, CodecOptions, Meta, Metadata};
use kvtune_kernels::gpu::Groups;

const LANES: usize = 16;

/// Which of the two a scheme packs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Side {
    Keys(Groups),
    Values(usize),
}

/// How one side is packed, for the CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scheme {
    pub(crate) side: Side,
    pub(crate) bits: u8,
    pub(crate) options: CodecOptions,
    pub(crate) head_dim: usize,
}

/// Consecutive tokens of one KV head as they are stored: tiles, and what they stand for.
pub(crate) struct Packed {
    pub(crate) codes: Vec<u32>,
    pub(crate) meta: Vec<u32>,
    /// `[tokens, head_dim]`
    pub(crate) decoded: Vec<f32>,
}

impl Scheme {
    /// Tokens of a page: of a group of keys per channel, else of a tile.
    pub(crate) fn page_tokens(&self) -> usize {
        match self.side {
            Side::Keys(Groups::PerChannel { tokens }) => tokens,
            _ => 32,
        }
    }

    /// The groups of a page of `tokens` tokens: index among the metadata, elements as (token, channel).
    fn groups(&self, tokens: usize) -> Vec<(usize, Vec<(usize, usize)>)> {
        let d = self.head_dim;
        match self.side {
            Side::Keys(Groups::PerChannel { .. }) => {
                (0..d).map(|c| (c, (0..tokens).map(|t| (t, c)).collect())).collect()
            }
            Side::Keys(Groups::PerToken { size }) | Side::Values(size) => {
                let size = if size == 0 { d } else { size };
                let group = |t: usize, g: usize| {
                    (g * 32 + t, (g * size..d.min((g + 1) * size)).map(|c| (t, c)).collect())
                };
                (0..tokens).flat_map(|t| (0..d.div_ceil(size)).map(move |g| group(t, g))).collect()
            }
        }
    }

    fn n_groups(&self) -> usize {
        match self.side {
            Side::Keys(Groups::PerChannel { .. }) => self.head_dim,
            Side::Keys(Groups::PerToken { size: 0 }) | Side::Values(0) => 32,
            Side::Keys(Groups::PerToken { size }) | Side::Values(size) => 32 * self.head_dim.div_ceil(size),
        }
    }

    fn tile_tokens(&self) -> usize {
        let page = self.page_tokens();
        if page.is_multiple_of(32) { 32 } else { page }
    }

    /// Rows and columns of a tile's strips.
    fn shape(&self) -> (usize, usize) {
        match self.side {
            Side::Keys(_) => (self.head_dim, self.tile_tokens().div_ceil(LANES)),
            Side::Values(_) => (32, self.head_dim.div_ceil(LANES)),
        }
    }

    /// Word of a tile's plane and bit in it where a code of `width` bits stands.
    fn place(&self, width: usize, token: usize, channel: usize) -> (usize, usize) {
        let (row, along) = match self.side {
            Side::Keys(_) => (channel, token),
            Side::Values(_) => (token, channel),
        };
        let (column, lane) = (along / LANES, along % LANES);
        let (rows, columns) = self.shape();
        let slots = 32 / width;
        let full = rows / slots * slots;
        let (unit, slot) = if row < full {
            (row / slots * columns + column, row % slots)
        } else {
            let index = column * (rows - full) + (row - full);
            (full / slots * columns + index / slots, index % slots)
        };
        (unit * LANES + lane, width * slot)
    }

    fn plane_words(&self, width: usize) -> usize {
        let (rows, columns) = self.shape();
        let slots = 32 / width;
        LANES * (rows / slots * columns + (columns * (rows % slots)).div_ceil(slots))
    }

    fn planes(&self) -> Vec<usize> {
        match self.bits {
            3 => vec![2, 1],
            5 => vec![4, 1],
            6 => vec![4, 2],
            bits => vec![usize::from(bits)],
        }
    }

    /// Packs `[tokens, head_dim]`, page after page; unused places are 0.
    pub(crate) fn pack(&self, rows: &[f32]) -> Packed {
        let mut packed = Packed { codes: Vec::new(), meta: Vec::new(), decoded: vec![0.0; rows.len()] };
        let size = self.page_tokens() * self.head_dim;
        for (page, rows) in rows.chunks(size).enumerate() {
            self.pack_page(rows, page * size, &mut packed);
        }
        packed
    }

    fn pack_page(&self, rows: &[f32], start: usize, packed: &mut Packed) {
        let codec = Codec::new(self.bits, self.options).expect("a codec");
        let d = self.head_dim;
        let n_groups = self.n_groups();
        let mut numbers = vec![0.0_f32; 2 * n_groups];
        let mut codes = vec![0_u8; rows.len()];
        for (index, elements) in self.groups(rows.len() / d) {
            let group: Vec<f32> = elements.iter().map(|&(t, c)| rows[t * d + c]).collect();
            let mut coded = vec![0; group.len()];
            let mut decoded = vec![0.0; group.len()];
            let meta = codec.encode(&group, &mut coded).expect("finite");
            codec.decode(&coded, meta, &mut decoded);
            for (&(t, c), (&code, &x)) in elements.iter().zip(coded.iter().zip(&decoded)) {
                codes[t * d + c] = code;
                packed.decoded[start + t * d + c] = x;
            }
            let Meta { first, second } = meta;
            (numbers[index], numbers[n_groups + index]) = (first, second);
        }
        let tile = self.tile_tokens() * d;
        for i in 0..self.page_tokens() / self.tile_tokens() {
            let from = codes.len().min(i * tile);
            packed.codes.extend(self.words(&codes[from..codes.len().min(from + tile)]));
        }
        packed.meta.extend(match self.options.metadata {
            Metadata::F32 => numbers.iter().map(|x| x.to_bits()).collect::<Vec<u32>>(),
            Metadata::F16 => {
                let half = |x: f32| u32::from(f16::from_f32(x).to_bits());
                numbers.chunks(2).map(|pair| half(pair[0]) | half(pair[1]) << 16).collect()
            }
        });
    }

    fn words(&self, codes: &[u8]) -> Vec<u32> {
        let d = self.head_dim;
        let mut all = Vec::new();
        let mut shift = 0;
        for width in self.planes() {
            let mut words = vec![0_u32; self.plane_words(width)];
            for (i, &code) in codes.iter().enumerate() {
                let (word, bit) = self.place(width, i / d, i % d);
                words[word] |= (u32::from(code) >> shift & ((1 << width) - 1)) << bit;
            }
            all.extend(words);
            shift += width;
        }
        all
    }
}
