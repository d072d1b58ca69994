use serde::{Deserialize, Serialize};

/// A question with its right answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Unique among the items of one spec: `gsm8k-0017`.
    pub id: String,
    /// The subject or data set it belongs to; the task's name where there is one set only.
    pub set: String,
    /// The question itself, whatever stands around it or in which order: what [`super::split_of`] goes by.
    pub key: String,
    /// What the model reads.
    pub prompt: ItemPrompt,
    /// What it is to do then.
    pub ask: Ask,
    /// The right answer.
    pub gold: Gold,
    /// What becomes of it where the context is too small.
    pub when_long: WhenLong,
}

/// A prompt in two parts: what many items have in common, and what is this item's own.
///
/// The parts are turned into tokens one by one, so that the first is the same tokens for all who share it; it is a
/// prompt unit of its own (`cache::Units::with_prefix`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemPrompt {
    /// Text to be continued.
    Text {
        /// Instructions and worked examples; may be empty.
        prefix: String,
        /// The question, never empty.
        rest: String,
    },
    /// A conversation, to be put into the model's chat template.
    Chat {
        /// Worked examples, question and answer in turn; may be empty.
        examples: Vec<(Turn, Turn)>,
        /// What the user asks last.
        question: String,
    },
}

/// What one side of a conversation says.
pub type Turn = String;

/// What is asked of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A text of its own, up to the first stop string, which is cut off.
    Write {
        /// Where the answer ends.
        stop: Vec<String>,
        /// Tokens of the answer at most.
        max_new_tokens: usize,
    },
    /// How likely each of these is to follow the prompt; none is empty.
    Choose {
        /// The continuations, each with the white space that parts it from the prompt.
        continuations: Vec<String>,
    },
}

/// The right answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gold {
    /// Any of these texts, or all of them, as the task says.
    Texts(Vec<String>),
    /// One of the labels `classes` that a text may name, LongBench's classification sets.
    Label {
        /// The right ones.
        texts: Vec<String>,
        /// All there are.
        classes: Vec<String>,
    },
    /// The continuation of this number.
    Choice(usize),
    /// Whether each continuation is true.
    Truths(Vec<bool>),
}

/// What becomes of an item that does not fit the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenLong {
    /// It is left out, and counted.
    Skip,
    /// The middle of its prompt is cut out, as LongBench does, and it is counted.
    CutMiddle,
}

/// What the model answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// To [`Ask::Write`].
    Text(String),
    /// To [`Ask::Choose`]: the natural logarithm of each continuation's probability.
    LogLikelihoods(Vec<f64>),
}

/// What an answer is worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Grade {
    /// What was taken for the answer; none where nothing could be.
    pub extracted: Option<String>,
    /// One score a metric of the task, from 0 to 1.
    pub scores: Vec<f64>,
}

/// One way to mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// As tables call it.
    pub name: &'static str,
    /// Whether scores are 0 or 1 and nothing between.
    pub is_binary: bool,
}

impl Metric {
    pub(super) const fn binary(name: &'static str) -> Self {
        Self { name, is_binary: true }
    }

    pub(super) const fn graded(name: &'static str) -> Self {
        Self { name, is_binary: false }
    }
}

/// The items of a spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Items {
    /// In the order of the file.
    pub items: Vec<Item>,
    /// Items left out because they are among the worked examples.
    pub examples_left_out: usize,
}

/// 1 for right, 0 for wrong.
pub(super) fn mark(is_right: bool) -> f64 {
    if is_right { 1.0 } else { 0.0 }
}
