//! `trace.safetensors` of a setting: what the quantized and the full-precision run say at the same positions.
//!
//! For document number i, with T positions, `held` candidates and W channels of hidden states:
//!
//! | tensor | type, shape | holds |
//! |---|---|---|
//! | `{i}.words` | u32 `[T, 6 * held + 10]` | the tables of a [`Sheet`], side by side, floats by their bits |
//! | `{i}.hidden` | f16 `[T, W]` | the last hidden state of the quantized run, then those that leave earlier layers |
//!
//! The last hidden state is as it leaves the final norm; the others are divided by their root mean square. The file
//! is written document by document, and hidden states are read from the mapped file row by row, so memory does not
//! grow with them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use half::f16;
use kvtune_kernels::mmap::Mapped;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use super::error::DgapError;
use super::setting::Setting;
use super::sheet::{HELD, Row, Sheet};
use crate::report::write_atomic;
use crate::trace::Split;

/// The entry of the header's `__metadata__`.
const ENTRY: &str = "kvtune";

/// Where a quantized trace comes from, and what is in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracedMeta {
    /// Version of the layout.
    pub format: u32,
    /// Version of kvtune that wrote it.
    pub version: String,
    /// What the user called the model.
    pub model_id: String,
    /// sha256 of the model's files.
    pub model_fingerprint: String,
    /// Seed of the trace's prompts.
    pub seed: u64,
    /// Hash of the trace that it was made from.
    pub trace_key: String,
    /// How the cache was held.
    pub setting: Setting,
    /// Layers whose leaving hidden states stand behind the last one.
    pub layers: Vec<usize>,
    /// Channels of one hidden state.
    pub hidden_size: usize,
    /// Tokens there are.
    pub vocab_size: usize,
    /// Candidates of each run at a position.
    pub held: usize,
    /// In the order of the trace.
    pub documents: Vec<TracedEntry>,
}

/// A document of a quantized trace, without its tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracedEntry {
    /// As in the trace.
    pub id: String,
    /// As in the trace.
    pub domain: String,
    /// As in the trace.
    pub split: Split,
    /// T.
    pub positions: usize,
}

impl TracedMeta {
    /// Version of the layout that this version writes and reads.
    pub const FORMAT: u32 = 1;

    /// W, channels of all hidden states of a position.
    pub fn inputs(&self) -> usize {
        self.hidden_size * (1 + self.layers.len())
    }

    fn words(&self) -> usize {
        6 * self.held + Row::WIDTH
    }
}

/// One document of a quantized trace, on its way to the file.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedDocument {
    /// Logits.
    pub sheet: Sheet,
    /// Hidden states `[T, W]`.
    pub hidden: Vec<f32>,
}

/// A quantized trace: sheets in memory, hidden states in the mapped file.
pub struct Traced {
    /// Where it comes from.
    pub meta: TracedMeta,
    sheets: Vec<Sheet>,
    /// Where each document's hidden states start in the file.
    hidden: Vec<usize>,
    bytes: Mapped,
}

impl Traced {
    /// Writes the documents that `next` gives, as many as `meta` names and as long, whole or not at all.
    ///
    /// # Errors
    /// What `next` says, or [`DgapError::File`].
    pub fn write<E: From<DgapError>>(
        path: &Path,
        meta: &TracedMeta,
        mut next: impl FnMut(usize) -> Result<TracedDocument, E>,
    ) -> Result<(), E> {
        let mut failed = None;
        let written = write_atomic(path, |file| {
            write_header(file, meta)?;
            for index in 0..meta.documents.len() {
                match next(index) {
                    Ok(document) => write_document(file, &document)?,
                    Err(error) => {
                        failed = Some(error);
                        return Err(io::ErrorKind::Interrupted.into());
                    }
                }
            }
            Ok(())
        });
        match (failed, written) {
            (Some(error), _) => Err(error),
            (None, written) => written.map_err(|error| DgapError::from(error).into()),
        }
    }

    /// Reads a quantized trace; hidden states stay in the file.
    ///
    /// # Errors
    /// [`DgapError::File`] for a file that is damaged in any way.
    pub fn read(path: &Path) -> Result<Self, DgapError> {
        let bytes = Mapped::open(path)
            .map_err(|source| crate::report::FileError::Read { path: path.to_owned(), source })?;
        let damaged = |message: String| DgapError::damaged(path, message);
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|error| damaged(error.to_string()))?;
        let entry = header.metadata().as_ref().and_then(|entries| entries.get(ENTRY));
        let entry = entry.ok_or_else(|| damaged("no `kvtune` entry in its header".into()))?;
        let meta: TracedMeta = serde_json::from_str(entry).map_err(|error| damaged(error.to_string()))?;
        if meta.format != TracedMeta::FORMAT {
            let (found, expected) = (meta.format, TracedMeta::FORMAT);
            return Err(damaged(format!("format {found}, but this version of kvtune reads {expected}")));
        }
        refuse_sizes(&meta).map_err(damaged)?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|error| damaged(error.to_string()))?;
        let (mut sheets, mut hidden) = (Vec::new(), Vec::new());
        for (index, document) in meta.documents.iter().enumerate() {
            let open = |part: &str, dtype: Dtype, width: usize| {
                let name = name(index, part);
                let tensor = tensors.tensor(&name).map_err(|error| damaged(error.to_string()))?;
                let expected = [document.positions, width];
                match tensor.dtype() == dtype && tensor.shape() == expected {
                    true => Ok(tensor.data()),
                    false => Err(damaged(format!("`{name}` is not {dtype:?} {expected:?}"))),
                }
            };
            sheets.push(read_sheet(open("words", Dtype::U32, meta.words())?, meta.held));
            let states = open("hidden", Dtype::F16, meta.inputs())?;
            hidden.push(states.as_ptr() as usize - bytes.as_ptr() as usize);
        }
        check(&meta, &sheets).map_err(damaged)?;
        Ok(Self { meta, sheets, hidden, bytes })
    }

    /// The logits of one document.
    pub fn sheet(&self, document: usize) -> &Sheet {
        &self.sheets[document]
    }

    /// Adds the hidden states of one position to `out`: W channels.
    pub fn hidden(&self, document: usize, position: usize, out: &mut Vec<f32>) {
        let width = 2 * self.meta.inputs();
        let start = self.hidden[document] + position * width;
        let states = self.bytes[start..start + width].as_chunks::<2>().0;
        out.extend(states.iter().map(|&two| f16::from_le_bytes(two).to_f32()));
    }

    /// Numbers of the documents that a test on their entry takes.
    pub fn documents(&self, take: impl Fn(&TracedEntry) -> bool) -> Vec<usize> {
        let entries = self.meta.documents.iter().enumerate();
        entries.filter(|(_, entry)| take(entry)).map(|(index, _)| index).collect()
    }
}

fn name(document: usize, part: &str) -> String {
    format!("{document:06}.{part}")
}

#[derive(Serialize)]
struct Entry {
    dtype: &'static str,
    shape: [usize; 2],
    data_offsets: [usize; 2],
}

fn write_header(file: &mut dyn Write, meta: &TracedMeta) -> io::Result<()> {
    let mut header = BTreeMap::from([(
        String::from("__metadata__"),
        serde_json::json!({ ENTRY: serde_json::to_string(meta)? }),
    )]);
    let mut end = 0;
    for (index, document) in meta.documents.iter().enumerate() {
        let parts = [("words", "U32", 4, meta.words()), ("hidden", "F16", 2, meta.inputs())];
        for (part, dtype, bytes, width) in parts {
            let start = end;
            end += bytes * width * document.positions;
            let shape = [document.positions, width];
            let entry = Entry { dtype, shape, data_offsets: [start, end] };
            header.insert(name(index, part), serde_json::to_value(entry)?);
        }
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)
}

fn write_document(file: &mut dyn Write, document: &TracedDocument) -> io::Result<()> {
    let mut bytes = Vec::new();
    for position in document.sheet.iter() {
        let floats = [position.logits, position.full, position.full_logits, position.full_quantized];
        let ids = [position.ids, position.full_ids];
        bytes.extend(ids.concat().iter().flat_map(|id| id.to_le_bytes()));
        bytes.extend(floats.concat().iter().flat_map(|value| value.to_le_bytes()));
        bytes.extend(position.row.words().iter().flat_map(|word| word.to_le_bytes()));
    }
    let most = f16::MAX.to_f32();
    let half = |&value: &f32| f16::from_f32(value.clamp(-most, most)).to_le_bytes();
    bytes.extend(document.hidden.iter().flat_map(half));
    file.write_all(&bytes)
}

fn read_sheet(bytes: &[u8], held: usize) -> Sheet {
    let words: Vec<u32> = bytes.as_chunks().0.iter().map(|&four| u32::from_le_bytes(four)).collect();
    let mut sheet = Sheet::new(held);
    for row in words.chunks_exact(6 * held + Row::WIDTH) {
        let part = |at: usize| &row[at * held..(at + 1) * held];
        let floats = |at: usize| part(at).iter().map(|&word| f32::from_bits(word));
        sheet.ids.extend(part(0));
        sheet.full_ids.extend(part(1));
        sheet.logits.extend(floats(2));
        sheet.full.extend(floats(3));
        sheet.full_logits.extend(floats(4));
        sheet.full_quantized.extend(floats(5));
        if let Ok(words) = row[6 * held..].try_into() {
            sheet.rows.push(Row::of_words(words));
        }
    }
    sheet
}

/// Sizes that no model has are refused before anything is computed from them.
fn refuse_sizes(meta: &TracedMeta) -> Result<(), String> {
    const MOST: usize = 1 << 24;
    let held = 2..=HELD.min(meta.vocab_size);
    let sizes = [meta.hidden_size, meta.vocab_size, 1 + meta.layers.len()];
    if held.contains(&meta.held)
        && sizes.iter().all(|size| (1..=MOST).contains(size))
        && meta.layers.len() < 4096
    {
        return Ok(());
    }
    Err(format!(
        "{} candidates of {} tokens, {} channels of {} layers: expected {} to {} candidates, and 1 to {MOST} of the rest",
        meta.held,
        meta.vocab_size,
        meta.hidden_size,
        1 + meta.layers.len(),
        held.start(),
        held.end()
    ))
}

/// Ids inside the vocabulary, logits finite: what everything later relies on.
fn check(meta: &TracedMeta, sheets: &[Sheet]) -> Result<(), String> {
    for (sheet, entry) in sheets.iter().zip(&meta.documents) {
        let mut ids = sheet.ids.iter().chain(&sheet.full_ids).chain(sheet.rows.iter().map(|row| &row.next));
        if let Some(id) = ids.find(|&&id| id as usize >= meta.vocab_size) {
            return Err(format!("document `{}`: token {id}, expected below {}", entry.id, meta.vocab_size));
        }
        let tables = [&sheet.logits, &sheet.full, &sheet.full_logits, &sheet.full_quantized];
        let rows = sheet.rows.iter().flat_map(|row| {
            [
                row.next_logit,
                row.next_full,
                row.log_sum,
                row.full_log_sum,
                row.entropy,
                row.js_rest,
                row.tv_rest,
                row.kl_rest,
            ]
        });
        let mut values = tables.into_iter().flatten().copied().chain(rows);
        if let Some(value) = values.find(|value| !value.is_finite()) {
            return Err(format!("document `{}` holds {value}, expected a finite number", entry.id));
        }
    }
    Ok(())
}
