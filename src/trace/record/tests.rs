use std::sync::Mutex;

use super::super::example;
use super::*;
use crate::progress::Silent;

const EOS: u32 = 4;

/// Counts upward in a vocabulary of 5, whose last token is EOS: the hidden state of a token is itself.
#[derive(Default)]
struct Counting {
    mute: bool,
    broken: Option<f32>,
    extra: usize,
}

#[derive(Debug, thiserror::Error)]
#[error("it never fails")]
struct Never;

impl Continue for Counting {
    type Error = Never;

    fn continue_greedily(&self, prompt: &[u32], max_new: usize) -> Result<Vec<u32>, Never> {
        let next = prompt.last().expect("the recorder refuses empty prompts") + 1;
        let all: Vec<_> = (next..=EOS).take(max_new).collect();
        Ok(if self.mute { Vec::new() } else { all })
    }

    fn hidden_states(&self, tokens: &[u32], from: usize) -> Result<Vec<f32>, Never> {
        let mut hidden: Vec<_> = tokens[from..].iter().flat_map(|&token| [token as f32, 0.5, -1.0]).collect();
        if let Some(broken) = self.broken {
            hidden[3] = broken;
        }
        hidden.resize(hidden.len() + self.extra, 0.0);
        Ok(hidden)
    }

    fn logits(&self, hidden: &[f32]) -> Result<Vec<f32>, Never> {
        let row = |state: &[f32]| {
            let next = state[0] + 1.0;
            [0.0, 1.0, 2.0, 3.0, 4.0].map(|id: f32| -(id - next).abs())
        };
        Ok(hidden.chunks(3).flat_map(row).collect())
    }
}

fn prompt(tokens: &[u32]) -> EncodedPrompt {
    EncodedPrompt {
        id: "search-000".into(),
        domain: "prose".into(),
        split: Split::Search,
        tokens: tokens.to_vec(),
    }
}

fn message(model: &Counting, tokens: &[u32]) -> String {
    let meta = example::trace().meta;
    record_document(model, &prompt(tokens), &meta).expect_err("it cannot be recorded").to_string()
}

#[test]
fn row_t_chooses_token_t() {
    let document = record_document(&Counting::default(), &prompt(&[3, 0, 1]), &example::trace().meta)
        .expect("a document");
    assert_eq!((document.tokens.as_slice(), document.prompt_len), ([3, 0, 1, 2, 3, 4].as_slice(), 3));
    assert_eq!(document.positions(), 3);
    // Two largest of −|id − next|; the neighbors tie, the smaller id goes first.
    assert_eq!(document.top_ids, [2, 1, 3, 2, 4, 3]);
    assert_eq!(document.top_logits, [0.0, -1.0, 0.0, -1.0, 0.0, -1.0]);
    assert_eq!(document.hidden, [1.0, 0.5, -1.0, 2.0, 0.5, -1.0, 3.0, 0.5, -1.0]);
    // The last row: 1 + e⁻¹ + e⁻² + e⁻³ + e⁻⁴.
    let expected = (1.0 + [1.0_f32, 2.0, 3.0, 4.0].map(|n| (-n).exp()).iter().sum::<f32>()).ln();
    assert!((document.log_sum_exp[2] - expected).abs() < 1e-6);
    assert_eq!(document.repeated_choices(), 3);
}

#[test]
fn the_rows_read_at_once_change_nothing() {
    let meta = example::trace().meta;
    let whole = record_document(&Counting::default(), &prompt(&[0]), &meta).expect("a document");
    assert_eq!(whole.positions(), 4);
    for rows_at_once in [1, 2, 3, 4] {
        let bare = Document {
            top_ids: Vec::new(),
            top_logits: Vec::new(),
            log_sum_exp: Vec::new(),
            hidden: Vec::new(),
            ..whole.clone()
        };
        let hidden = whole.hidden.clone();
        let filled =
            fill_tables(&Counting::default(), bare, hidden, &meta, rows_at_once).expect("a document");
        assert_eq!(filled, whole);
    }
}

#[test]
fn a_continuation_of_eos_alone_is_one_position() {
    let document =
        record_document(&Counting::default(), &prompt(&[3]), &example::trace().meta).expect("a document");
    assert_eq!((document.tokens.as_slice(), document.positions()), ([3, EOS].as_slice(), 1));
}

#[test]
fn a_model_that_breaks_its_word_is_an_error() {
    assert_eq!(
        message(&Counting::default(), &[]),
        "the prompt of document `search-000` has no tokens, expected at least 1"
    );
    assert_eq!(
        message(&Counting::default(), &[0, 9]),
        "document `search-000` has token 9, but the vocabulary has 5"
    );
    assert_eq!(
        message(&Counting { mute: true, ..Counting::default() }, &[1]),
        "the continuation of document `search-000` has no tokens, expected 1 to 8"
    );
    assert_eq!(
        message(&Counting { broken: Some(f32::NAN), ..Counting::default() }, &[0, 0]),
        "document `search-000`: hidden states at position 2 are not finite"
    );
    assert_eq!(
        message(&Counting { extra: 1, ..Counting::default() }, &[0]),
        "document `search-000`: the model gave 13 values of hidden states, expected 12"
    );
}

/// Keeps what it is told and stops after some documents.
struct Listening {
    stop_after: u64,
    heard: Mutex<(u64, Vec<String>)>,
}

impl Observer for Listening {
    fn begin(&self, _stage: &str, _total: u64, _unit: &str) {}
    fn advance(&self, steps: u64) {
        self.heard.lock().expect("no test panicked holding it").0 += steps;
    }
    fn warn(&self, message: &str) {
        self.heard.lock().expect("no test panicked holding it").1.push(message.to_owned());
    }
    fn end(&self, summary: &str) {
        self.warn(summary);
    }
    fn interrupted(&self) -> bool {
        self.heard.lock().expect("no test panicked holding it").0 >= self.stop_after
    }
}

#[test]
fn a_trace_holds_every_prompt_in_order_and_says_that_it_is_short() {
    let observer = Listening { stop_after: 9, heard: Mutex::default() };
    let prompts = [prompt(&[0]), prompt(&[2])];
    let meta = TraceMeta { top: 64, ..example::trace().meta };
    let trace = record(&Counting::default(), &prompts, meta, &observer).expect("a trace");
    assert_eq!((trace.meta.top, trace.positions()), (5, 4 + 2));
    let heard = observer.heard.into_inner().expect("no test panicked holding it");
    assert_eq!(heard.0, 2);
    assert!(heard.1[0].starts_with("2 of 2 sequences have fewer than 256 tokens"), "{:?}", heard.1);
    assert_eq!(heard.1[1..], ["2 documents, 6 positions"]);
}

#[test]
fn choices_that_the_pass_does_not_repeat_are_counted() {
    let mut trace = example::trace();
    trace.documents[0].top_ids.swap(0, 1);
    assert_eq!(
        trace.warnings()[1],
        "one parallel pass chooses another token than generation at 1 of 3 positions"
    );
}

#[test]
fn an_interrupted_recording_says_how_far_it_came() {
    let observer = Listening { stop_after: 1, heard: Mutex::default() };
    let prompts = [prompt(&[0]), prompt(&[2])];
    let error =
        record(&Counting::default(), &prompts, example::trace().meta, &observer).expect_err("it was stopped");
    assert_eq!(error.to_string(), "interrupted after 1 of 2 documents");
}

#[test]
fn a_recorded_trace_can_be_written_and_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.safetensors");
    let prompts = [prompt(&[0])];
    let trace = record(&Counting::default(), &prompts, example::trace().meta, &Silent).expect("a trace");
    trace.write(&path).expect("written");
    assert_eq!(Trace::read(&path).expect("read"), trace);
}
