use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;

use super::super::example::trace;
use super::super::{Document, Split, Trace, TraceError};

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("trace.safetensors")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).expect("the folder is there");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    fn read(&self, bytes: &[u8]) -> Result<Trace, TraceError> {
        fs::write(self.path(), bytes).expect("written");
        Trace::read(&self.path())
    }

    fn message(&self, bytes: &[u8]) -> String {
        self.describe(&self.read(bytes).expect_err("the file is damaged"))
    }

    fn describe(&self, error: &TraceError) -> String {
        error.to_string().replace(&self.path().display().to_string(), "FILE")
    }
}

fn written() -> Vec<u8> {
    let folder = Folder::new();
    trace().write(&folder.path()).expect("written");
    fs::read(folder.path()).expect("it is there")
}

/// Replaces a piece of the header by one of the same length.
fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes());
    let at = at.expect("the header has it");
    let mut bytes = bytes.to_vec();
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    bytes
}

#[test]
fn what_was_written_is_read_back() {
    let folder = Folder::new();
    trace().write(&folder.path()).expect("written");
    let read = Trace::read(&folder.path()).expect("read");
    assert_eq!(read, trace());
    // −0 == 0, so equality alone does not see every bit.
    assert_eq!(read.content_key(), trace().content_key());
}

#[test]
fn equal_traces_are_equal_files_of_which_no_half_is_left() {
    let folder = Folder::new();
    trace().write(&folder.path()).expect("written");
    trace().write(&folder.path()).expect("written over the old one");
    assert_eq!(fs::read(folder.path()).expect("it is there"), written());
    assert_eq!(folder.names(), ["trace.safetensors"]);
}

#[cfg(unix)]
#[test]
fn others_may_read_what_the_user_lets_them() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let plain = folder.0.path().join("plain");
    fs::write(&plain, "").expect("written");
    trace().write(&folder.path()).expect("written");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode();
    assert_eq!(mode(&folder.path()), mode(&plain));
}

/// Makes one thing of a document wrong.
type Break = fn(&mut Document);

#[test]
fn a_trace_that_breaks_a_rule_is_not_written() {
    let breaks: [(Break, &str); 8] = [
        (
            |d| d.prompt_len = 0,
            "`prompt_len` of document `search-000` is 0, expected at least 1 and less than its 4 tokens",
        ),
        (
            |d| d.prompt_len = 4,
            "`prompt_len` of document `search-000` is 4, expected at least 1 and less than its 4 tokens",
        ),
        (|d| d.tokens[3] = 5, "`tokens` of document `search-000` is 5, expected a token id below 5"),
        (|d| d.hidden[2] = f32::NAN, "`hidden` of document `search-000` is NaN, expected a finite number"),
        (
            |d| d.hidden.truncate(5),
            "`hidden` of document `search-000` is 5 values long, expected 2 rows of 3",
        ),
        (
            |d| d.top_logits.swap(0, 1),
            "`top_logits` of document `search-000` is out of order, expected the largest first, ties by id",
        ),
        (
            |d| d.top_ids.swap(2, 3),
            "`top_logits` of document `search-000` is out of order, expected the largest first, ties by id",
        ),
        (
            |d| d.log_sum_exp[0] = 1.0,
            "`log_sum_exp` of document `search-000` is 1, expected at least the largest logit, 1.5",
        ),
    ];
    let folder = Folder::new();
    for (break_it, message) in breaks {
        let mut trace = trace();
        break_it(&mut trace.documents[0]);
        let error = trace.write(&folder.path()).expect_err("it breaks a rule");
        assert_eq!(folder.describe(&error), format!("trace `FILE`: {message}"));
    }
    let mut twice = trace();
    twice.documents[1].id = "search-000".into();
    let error = twice.write(&folder.path()).expect_err("one id, two documents");
    assert_eq!(
        folder.describe(&error),
        "trace `FILE`: `documents` is `search-000` twice, expected one of each"
    );
    assert!(folder.names().is_empty());
}

#[test]
fn a_folder_that_is_missing_is_named() {
    let path = Path::new("no/such/folder/trace.safetensors");
    let error = trace().write(path).expect_err("there is no folder");
    assert_eq!(error.to_string(), "cannot write trace `no/such/folder/trace.safetensors`");
    let error = Trace::read(path).expect_err("there is no file");
    assert_eq!(error.to_string(), "cannot read trace `no/such/folder/trace.safetensors`");
}

#[test]
fn every_truncation_is_an_error() {
    let (folder, bytes) = (Folder::new(), written());
    for length in 0..bytes.len() {
        assert!(folder.read(&bytes[..length]).is_err(), "{length} of {} bytes were read", bytes.len());
    }
}

#[test]
fn a_header_that_lies_is_an_error() {
    let (folder, bytes) = (Folder::new(), written());
    for length in [0, 1, bytes.len() as u64, 99_999_999, 1 << 40, u64::MAX] {
        let mut lying = bytes.clone();
        lying[..8].copy_from_slice(&length.to_le_bytes());
        assert_eq!(folder.message(&lying), "trace `FILE` is not a whole safetensors file");
    }
    // Tokens that are not there, tables of another type, a document longer than the tables.
    assert_eq!(
        folder.message(&replaced(&bytes, r#""shape":[7]"#, r#""shape":[9]"#)),
        "trace `FILE` is not a whole safetensors file"
    );
    assert_eq!(
        folder.message(&replaced(&bytes, r#"{"dtype":"F32","shape":[3]"#, r#"{"dtype":"I32","shape":[3]"#)),
        "trace `FILE`: `log_sum_exp` is I32 [3], expected F32 [3]"
    );
    assert_eq!(
        folder.message(&replaced(&bytes, r#"\"tokens\":4"#, r#"\"tokens\":9"#)),
        "trace `FILE`: `tokens` is U32 [7], expected U32 [12]"
    );
    assert_eq!(
        folder.message(&replaced(&bytes, r#"\"prompt_len\":2"#, r#"\"prompt_len\":9"#)),
        "trace `FILE`: `prompt_len` of document `search-000` is 9, expected at least 1 and less than its 4 tokens"
    );
    assert_eq!(
        folder.message(&replaced(&bytes, r#""hidden":"#, r#""bidden":"#)),
        "trace `FILE`: `hidden` is missing, expected F32 [3, 3]"
    );
}

#[test]
fn another_format_is_refused_before_its_fields_are_read() {
    let (folder, bytes) = (Folder::new(), written());
    let other = replaced(&bytes, r#"\"format\":1"#, r#"\"format\":7"#);
    assert_eq!(folder.message(&other), "trace `FILE` has format 7, but this kvtune reads format 1");
    let unknown = replaced(&bytes, r#"\"bos\""#, r#"\"sob\""#);
    assert!(matches!(folder.read(&unknown), Err(TraceError::Meta { .. })));
    assert_eq!(
        folder.message(&replaced(&bytes, r#""kvtune""#, r#""kvtuna""#)),
        "`FILE` is no trace: its header has no `kvtune` entry"
    );
}

/// Any trace that keeps the rules, of up to four documents.
fn any_trace() -> impl Strategy<Value = Trace> {
    let document = (1_usize..4, 1_usize..5, any::<u8>(), prop::collection::vec(-1e6_f32..1e6, 64));
    prop::collection::vec(document, 0..4).prop_map(|shapes| {
        let mut trace = trace();
        trace.documents = shapes.into_iter().enumerate().map(any_document).collect();
        trace
    })
}

fn any_document((index, shape): (usize, (usize, usize, u8, Vec<f32>))) -> Document {
    let (prompt_len, positions, noise, values) = shape;
    let logits = |row: usize| [values[row].max(values[row + 1]), values[row].min(values[row + 1])];
    Document {
        id: format!("document {index} \"é\""),
        domain: "prose".into(),
        split: Split::ALL[usize::from(noise) % 3],
        tokens: (0..prompt_len + positions).map(|at| (at as u32 + u32::from(noise)) % 5).collect(),
        prompt_len,
        top_ids: [0, 3].repeat(positions),
        top_logits: (0..positions).flat_map(logits).collect(),
        log_sum_exp: (0..positions).map(|row| logits(row)[0] + 1.0).collect(),
        hidden: values[..3 * positions].to_vec(),
    }
}

proptest! {
    #[test]
    fn every_trace_survives_the_file(trace in any_trace()) {
        let folder = Folder::new();
        trace.write(&folder.path()).expect("written");
        prop_assert_eq!(Trace::read(&folder.path()).expect("read"), trace);
    }

    #[test]
    fn flipped_bytes_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let (folder, mut bytes) = (Folder::new(), written());
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        // Either it is refused or what was read keeps every rule and can be written again.
        if let Ok(read) = folder.read(&bytes) {
            prop_assert!(read.write(&folder.path()).is_ok());
        }
    }
}
