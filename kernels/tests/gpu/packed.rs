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
    pub(crate) fn tile_tokens(&self) -> usize {
        match self.side {
            Side::Keys(Groups::PerChannel { tokens }) => tokens,
            _ => 32,
        }
    }

    /// The groups of a tile of `tokens` tokens: index among the metadata, elements as (token, channel).
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

    /// Strip and lane of a code.
    fn place(&self, token: usize, channel: usize) -> (usize, usize) {
        match self.side {
            Side::Keys(_) => (channel * self.tile_tokens().div_ceil(LANES) + token / LANES, token % LANES),
            Side::Values(_) => (token * self.head_dim.div_ceil(LANES) + channel / LANES, channel % LANES),
        }
    }

    fn planes(&self) -> Vec<usize> {
        match self.bits {
            3 => vec![2, 1],
            5 => vec![4, 1],
            6 => vec![4, 2],
            bits => vec![usize::from(bits)],
        }
    }

    /// Packs `[tokens, head_dim]`, tile after tile; unused places are 0.
    pub(crate) fn pack(&self, rows: &[f32]) -> Packed {
        let mut packed = Packed { codes: Vec::new(), meta: Vec::new(), decoded: vec![0.0; rows.len()] };
        let size = self.tile_tokens() * self.head_dim;
        for (tile, rows) in rows.chunks(size).enumerate() {
            self.pack_tile(rows, tile * size, &mut packed);
        }
        packed
    }

    fn pack_tile(&self, rows: &[f32], start: usize, packed: &mut Packed) {
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
        packed.codes.extend(self.words(&codes));
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
        let strips = match self.side {
            Side::Keys(_) => d * self.tile_tokens().div_ceil(LANES),
            Side::Values(_) => 32 * d.div_ceil(LANES),
        };
        let mut all = Vec::new();
        let mut shift = 0;
        for width in self.planes() {
            let per_unit = 32 / width;
            let mut words = vec![0_u32; strips.div_ceil(per_unit) * LANES];
            for (i, &code) in codes.iter().enumerate() {
                let (strip, lane) = self.place(i / d, i % d);
                let bits = u32::from(code) >> shift & ((1 << width) - 1);
                words[strip / per_unit * LANES + lane] |= bits << (width * (strip % per_unit));
            }
            all.extend(words);
            shift += width;
        }
        all
    }
}
