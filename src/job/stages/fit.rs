//! Whether what is asked for fits the model's context and the machine's memory, said before a weight is read.

use super::session::Session;
use super::{BenchRequest, Generation, StageError};
use crate::bench::Cell;
use crate::cache::CacheKind;
use crate::job::plan::size;
use crate::model::WeightType;
use crate::precision::{PrecisionMap, PrecisionPair};
use crate::quant::{KeyBias, LayerShape, Scheme, Tensor};
use crate::tasks::answers::AnswerSpec;

/// Refuses prompts that, with all that may follow, are longer than the model's context.
pub(super) fn context(prompts: &[Vec<u32>], max_new: usize, session: &Session<'_>) -> Result<(), StageError> {
    let most = session.checkpoint.config().max_position_embeddings;
    let longest = prompts.iter().map(Vec::len).enumerate().max_by_key(|&(_, len)| len);
    let Some((index, len)) = longest.filter(|&(_, len)| len.saturating_add(max_new) > most) else {
        return Ok(());
    };
    let which = if prompts.len() == 1 { String::from("the prompt") } else { format!("prompt {index}") };
    let hint = match most.saturating_sub(len) {
        0 => String::from("shorten the prompt"),
        left => format!("add {left} tokens at most, with `-n {left}`"),
    };
    Err(StageError::Unmet {
        message: format!(
            "{which} has {len} tokens and {max_new} may follow, {} in all, but `{}` is made for {most}",
            len.saturating_add(max_new),
            session.resolved.id
        ),
        hint: Some(hint),
    })
}

/// Refuses to generate questions that are longer than the model's context.
pub(super) fn questions(spec: &AnswerSpec, session: &Session<'_>) -> Result<(), StageError> {
    let most = session.checkpoint.config().max_position_embeddings;
    let Some(length) = spec.length.filter(|&length| length > most) else { return Ok(()) };
    Err(StageError::Unmet {
        message: format!(
            "questions of `{}` shall have {length} tokens, but `{}` is made for {most}",
            spec.task, session.resolved.id
        ),
        hint: Some(format!("ask for a length of {most} at most")),
    })
}

/// Refuses windows that, with a token before each if there is one, are longer than the model's context.
pub(super) fn window(tokens: usize, with_bos: bool, session: &Session<'_>) -> Result<(), StageError> {
    let most = session.checkpoint.config().max_position_embeddings;
    let room = most.saturating_sub(usize::from(with_bos));
    if tokens <= room {
        return Ok(());
    }
    let bos = if with_bos { " and a BOS before them" } else { "" };
    Err(StageError::Unmet {
        message: format!(
            "a window has {tokens} tokens{bos}, but `{}` is made for {most}",
            session.resolved.id
        ),
        hint: Some(format!("use windows of {room} tokens at most, with `--window {room}`")),
    })
}

/// Refuses more lanes than memory has room for once all are at their full length.
pub(super) fn memory(
    request: &Generation,
    map: &PrecisionMap,
    prompts: &[Vec<u32>],
    session: &Session<'_>,
) -> Result<(), StageError> {
    let Some(free) = session.context.available_memory else { return Ok(()) };
    let config = session.checkpoint.config();
    let weights = session.held(request.weights)?.bytes();
    let mut lengths: Vec<usize> =
        prompts.iter().map(|prompt| prompt.len().saturating_add(request.max_new_tokens)).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let cost = CacheCost {
        kind: request.cache,
        scheme: &request.configuration.scheme,
        shape: config.head_shape().stored(),
    };
    let table = lengths.first().map_or(0, |&longest| cost.key_bias_bytes(map, longest));
    lengths.truncate(request.lanes);
    let caches = lengths.iter().map(|&tokens| cost.bytes(map, tokens)).fold(table, u64::saturating_add);
    if weights.saturating_add(caches) <= free {
        return Ok(());
    }
    let prompts = match lengths.len() {
        1 => String::from("one prompt"),
        several => format!("{several} prompts side by side"),
    };
    Err(StageError::Unmet {
        message: format!(
            "{prompts} may take {} of {} cache beside {} of weights, but {} of memory are free",
            size(caches),
            request.cache,
            size(weights),
            size(free)
        ),
        hint: Some(String::from("lower `-n` or `--lanes`, or use a packed cache of fewer bits")),
    })
}

/// Refuses cells that are longer than the model's context, unless they are asked for all the same.
pub(super) fn cells(request: &BenchRequest, session: &Session<'_>) -> Result<(), StageError> {
    let (most, longest) = (session.checkpoint.config().max_position_embeddings, request.longest());
    if longest <= most || request.beyond {
        return Ok(());
    }
    Err(StageError::Unmet {
        message: format!(
            "the longest cell has {longest} tokens once all steps are made, but `{}` is made for {most}",
            session.resolved.id
        ),
        hint: Some("choose shorter cells, or time them all the same with `--beyond`".into()),
    })
}

/// Refuses cells whose caches, of full precision and all configurations together, memory has no room for.
pub(super) fn cell_memory(
    request: &BenchRequest,
    maps: &[PrecisionMap],
    session: &Session<'_>,
) -> Result<(), StageError> {
    let Some(free) = session.context.available_memory else { return Ok(()) };
    let config = session.checkpoint.config();
    let weights = session.held(request.weights)?.bytes();
    let shape = config.head_shape().stored();
    let of_cell = |cell: &Cell| {
        let cost =
            |kind, scheme, map: &PrecisionMap| CacheCost { kind, scheme, shape }.bytes(map, cell.context);
        let coded = request.configurations.iter().zip(maps);
        let coded = coded.map(|(configuration, map)| cost(request.cache, &configuration.scheme, map));
        let full = PrecisionMap::uniform(session.n_layers(), PrecisionPair::FULL);
        let lane = coded.fold(cost(CacheKind::Full, &Scheme::kivi(), &full), u64::saturating_add);
        lane.saturating_mul(cell.batch as u64)
    };
    let caches = request.cells.iter().map(of_cell).max().unwrap_or(0);
    if weights.saturating_add(caches) <= free {
        return Ok(());
    }
    Err(StageError::Unmet {
        message: format!(
            "the caches of the largest cell take {} beside {} of weights, but {} of memory are free",
            size(caches),
            size(weights),
            size(free)
        ),
        hint: Some("choose smaller cells with `--cells`, or fewer configurations".into()),
    })
}

/// What the caches of a lane are made for.
pub(super) struct LaneCost<'a> {
    pub(super) kind: CacheKind,
    pub(super) scheme: &'a Scheme,
    pub(super) map: &'a PrecisionMap,
}

/// How many lanes of the given kinds memory has room for, all of them `longest` tokens long; no more than `wanted`.
/// Beside them stand the weights and, of each kind, one prefix of `prefix` tokens.
///
/// Refuses where not even one fits.
pub(super) fn lanes(
    wanted: usize,
    costs: &[LaneCost<'_>],
    (prefix, longest): (usize, usize),
    weights: WeightType,
    session: &Session<'_>,
) -> Result<usize, StageError> {
    let Some(free) = session.context.available_memory else { return Ok(wanted) };
    let shape = session.checkpoint.config().head_shape().stored();
    let (mut lane, mut fixed) = (1, session.held(weights)?.bytes());
    for cost in costs {
        let own = CacheCost { kind: cost.kind, scheme: cost.scheme, shape };
        lane = own.bytes(cost.map, longest).max(lane);
        let shared = own.bytes(cost.map, prefix).saturating_add(own.key_bias_bytes(cost.map, longest));
        fixed = fixed.saturating_add(shared);
    }
    match usize::try_from(free.saturating_sub(fixed) / lane).unwrap_or(usize::MAX) {
        0 => Err(StageError::Unmet {
            message: format!(
                "the longest item may take {} of cache beside {} of weights and prefixes, but {} of memory are free",
                size(lane),
                size(fixed),
                size(free)
            ),
            hint: Some("ask for shorter items, or use a packed cache of fewer bits".into()),
        }),
        room => Ok(wanted.min(room)),
    }
}

/// What one lane's caches hold at least; room to grow comes on top.
struct CacheCost<'a> {
    kind: CacheKind,
    scheme: &'a Scheme,
    shape: LayerShape,
}

impl CacheCost<'_> {
    fn bytes(&self, map: &PrecisionMap, tokens: usize) -> u64 {
        map.pairs().iter().map(|&pair| self.layer(pair, tokens)).fold(0, u64::saturating_add)
    }

    fn layer(&self, pair: PrecisionPair, tokens: usize) -> u64 {
        let sides = [(Tensor::Keys, pair.key), (Tensor::Values, pair.value)];
        match self.kind {
            CacheKind::Full => self.exact(tokens).saturating_mul(2),
            // A coded side is held twice: as it came, and as it reads.
            CacheKind::Simulated => {
                let copies = sides.map(|(_, bits)| if bits.is_full() { 1 } else { 2 });
                self.exact(tokens).saturating_mul(copies[0] + copies[1])
            }
            // The scheme counts two bytes for an exact element, which is held in four.
            CacheKind::Packed => {
                let not_coded = sides.map(|(tensor, bits)| match bits.is_full() {
                    true => tokens,
                    false => tokens - self.scheme.coded(tensor, tokens),
                });
                self.scheme.layer_bytes(self.shape, pair, tokens)
                    + self.exact(not_coded[0] + not_coded[1]) / 2
            }
        }
    }

    /// Keys, or values, of one layer in f32.
    fn exact(&self, tokens: usize) -> u64 {
        ((size_of::<f32>() * self.shape.width()) as u64).saturating_mul(tokens as u64)
    }

    /// The table of rotated biases, which all lanes share.
    fn key_bias_bytes(&self, map: &PrecisionMap, longest: usize) -> u64 {
        let subtracts = self.scheme.key_bias == KeyBias::Subtract;
        if subtracts { self.exact(longest).saturating_mul(map.n_layers() as u64) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: LayerShape = LayerShape { n_kv_heads: 3, head_dim: 64 };

    fn bytes(kind: CacheKind, pair: &str, tokens: usize) -> u64 {
        let scheme = Scheme::kivi();
        let map = PrecisionMap::uniform(2, pair.parse().expect("a pair"));
        CacheCost { kind, scheme: &scheme, shape: SHAPE }.bytes(&map, tokens)
    }

    #[test]
    fn what_is_exact_takes_four_bytes() {
        // 2 layers · keys and values · 192 channels · 40 tokens.
        let f32 = 2 * 2 * 192 * 40 * 4;
        assert_eq!(bytes(CacheKind::Full, "KV2", 40), f32);
        assert_eq!(bytes(CacheKind::Packed, "KV16", 40), f32);
        assert_eq!(bytes(CacheKind::Simulated, "KV2", 40), 2 * f32);
        assert_eq!(bytes(CacheKind::Simulated, "K16V2", 40), f32 + f32 / 2);
    }

    #[test]
    fn codes_take_what_the_scheme_says() {
        // A group of 32 at 2 bits: 8 bytes and two f16. Keys: 32 tokens in codes, 8 exact; values all in codes.
        let layer = 192 * 12 + 8 * 192 * 4 + 40 * 6 * 12;
        assert_eq!(bytes(CacheKind::Packed, "KV2", 40), 2 * layer);
    }
}
