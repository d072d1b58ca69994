use std::path::Path;

use kvtune_kernels::mmap::Mapped;
use safetensors::{Dtype, SafeTensors};

use super::super::{Document, FORMAT, Trace, TraceError};
use super::{Description, DocumentEntry, ENTRY, HIDDEN, LOG_SUM_EXP, TOKENS, TOP_IDS, TOP_LOGITS, check};

impl Trace {
    /// Reads a trace and checks every value of it.
    ///
    /// The file is mapped, and its header's claims are compared with its size before anything is allocated.
    ///
    /// # Errors
    /// See [`TraceError`]; a damaged file of any kind is one, never a panic.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let bytes =
            Mapped::open(path).map_err(|source| TraceError::Read { path: path.to_owned(), source })?;
        let container = |source| TraceError::Container { path: path.to_owned(), source };
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(container)?;
        let entry = header.metadata().as_ref().and_then(|entries| entries.get(ENTRY));
        let entry = entry.ok_or_else(|| TraceError::NoTrace { path: path.to_owned() })?;
        let description = describe(entry, path)?;
        let tables = Tables::open(SafeTensors::deserialize(&bytes).map_err(container)?, &description, path)?;
        let trace = tables.trace(description);
        check::trace(&trace, path)?;
        Ok(trace)
    }
}

/// The entry, once its format is known to be ours.
fn describe(entry: &str, path: &Path) -> Result<Description, TraceError> {
    let meta = |source| TraceError::Meta { path: path.to_owned(), source };
    let value: serde_json::Value = serde_json::from_str(entry).map_err(meta)?;
    let format = &value["meta"]["format"];
    if *format != FORMAT {
        return Err(TraceError::Format { path: path.to_owned(), found: format.to_string() });
    }
    serde_json::from_value(value).map_err(meta)
}

/// The five tensors, their shapes checked against the description.
struct Tables<'a> {
    tokens: &'a [u8],
    top_ids: &'a [u8],
    top_logits: &'a [u8],
    log_sum_exp: &'a [u8],
    hidden: &'a [u8],
}

impl<'a> Tables<'a> {
    fn open(tensors: SafeTensors<'a>, description: &Description, path: &Path) -> Result<Self, TraceError> {
        let Description { meta, documents } = description;
        let (n_tokens, n_positions) = lengths(documents, path)?;
        let open = |key: &str, dtype, shape: &[usize]| {
            let expected = format!("{dtype:?} {shape:?}");
            match tensors.tensor(key) {
                Ok(tensor) if tensor.dtype() == dtype && tensor.shape() == shape => Ok(tensor.data()),
                Ok(tensor) => {
                    let found = format!("{:?} {:?}", tensor.dtype(), tensor.shape());
                    Err(check::damaged(path, key, found, expected))
                }
                Err(_) => Err(check::damaged(path, key, "missing", expected)),
            }
        };
        Ok(Self {
            tokens: open(TOKENS, Dtype::U32, &[n_tokens])?,
            top_ids: open(TOP_IDS, Dtype::U32, &[n_positions, meta.top])?,
            top_logits: open(TOP_LOGITS, Dtype::F32, &[n_positions, meta.top])?,
            log_sum_exp: open(LOG_SUM_EXP, Dtype::F32, &[n_positions])?,
            hidden: open(HIDDEN, Dtype::F32, &[n_positions, meta.hidden_size])?,
        })
    }

    /// Takes the documents off the tables, one after the other.
    fn trace(mut self, description: Description) -> Trace {
        let Description { meta, documents } = description;
        let take = |entry: DocumentEntry| {
            let positions = entry.tokens - entry.prompt_len;
            Document {
                id: entry.id,
                domain: entry.domain,
                split: entry.split,
                tokens: take(&mut self.tokens, entry.tokens, u32::from_le_bytes),
                prompt_len: entry.prompt_len,
                top_ids: take(&mut self.top_ids, positions * meta.top, u32::from_le_bytes),
                top_logits: take(&mut self.top_logits, positions * meta.top, f32::from_le_bytes),
                log_sum_exp: take(&mut self.log_sum_exp, positions, f32::from_le_bytes),
                hidden: take(&mut self.hidden, positions * meta.hidden_size, f32::from_le_bytes),
            }
        };
        let documents = documents.into_iter().map(take).collect();
        Trace { meta, documents }
    }
}

/// Tokens and scored positions of all documents; each has at least one of each and a prompt.
fn lengths(documents: &[DocumentEntry], path: &Path) -> Result<(usize, usize), TraceError> {
    let mut lengths = (0_usize, 0_usize);
    for DocumentEntry { id, prompt_len, tokens, .. } in documents {
        let positions = tokens.checked_sub(*prompt_len).filter(|&positions| positions > 0 && *prompt_len > 0);
        let sums = positions
            .and_then(|positions| Some((lengths.0.checked_add(*tokens)?, lengths.1.checked_add(positions)?)));
        lengths = sums.ok_or_else(|| {
            let expected = format!("at least 1 and less than its {tokens} tokens");
            check::damaged(path, &format!("prompt_len` of document `{id}"), prompt_len, expected)
        })?;
    }
    Ok(lengths)
}

/// Cuts `n` values off the front of `bytes`, which hold at least that many.
fn take<T>(bytes: &mut &[u8], n: usize, value: impl Fn([u8; 4]) -> T) -> Vec<T> {
    let (head, tail) = bytes.split_at(4 * n);
    *bytes = tail;
    head.as_chunks().0.iter().map(|&four| value(four)).collect()
}
