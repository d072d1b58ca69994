//! `plain-text`: pieces of a file the user has.

use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::path::Path;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::grow::smallest_reaching;
use super::{Prompt, Task, TaskError, TaskSpec, document_id};
use crate::trace::Split;

/// A sentence without an end is cut here, in bytes, at a space where there is one.
const LONGEST_SENTENCE: usize = 1000;
/// Documents cut for each one that is asked, so that the seed has something to choose from.
const CHOICE: usize = 4;

/// Pieces of one UTF-8 file, to be continued.
///
/// The file is cut from its start, at the ends of lines and sentences, into documents that just reach the
/// length; the seed draws which of them go to which split. Documents never overlap, and a text that occurs
/// twice is used once. Of a long file only the first four times as many documents as asked are considered.
#[derive(Clone, Copy, Debug)]
pub struct PlainText;

impl Task for PlainText {
    fn name(&self) -> &'static str {
        "plain-text"
    }

    fn domain(&self) -> &'static str {
        "prose"
    }

    fn reads_file(&self) -> bool {
        true
    }

    fn prompts(
        &self,
        spec: &TaskSpec,
        count_tokens: &dyn Fn(&str) -> usize,
    ) -> Result<Vec<(Split, Prompt)>, TaskError> {
        let path = spec.path.as_deref().ok_or(TaskError::PathMissing { task: self.name() })?;
        let text = read(path)?;
        let expected = spec.documents.total();
        let mut documents = cut(&text, spec.min_tokens, expected.saturating_mul(CHOICE), count_tokens);
        if documents.len() < expected {
            return Err(TaskError::FileShort {
                path: path.to_owned(),
                min_tokens: spec.min_tokens,
                found: documents.len(),
                expected,
            });
        }
        documents.shuffle(&mut ChaCha8Rng::seed_from_u64(spec.seed));
        let prompt = |((split, index), text): ((Split, usize), &str)| {
            let id = document_id(split, index);
            (split, Prompt { id, domain: self.domain().to_owned(), text: text.to_owned(), answer: None })
        };
        Ok(spec.documents.each().zip(documents).map(prompt).collect())
    }
}

/// The file's text, with `\n` at the end of lines whatever system wrote it.
fn read(path: &Path) -> Result<String, TaskError> {
    let bytes = fs::read(path).map_err(|source| TaskError::Read { path: path.to_owned(), source })?;
    let text = String::from_utf8(bytes).map_err(|error| TaskError::NotText {
        path: path.to_owned(),
        offset: error.utf8_error().valid_up_to(),
    })?;
    if text.trim().is_empty() {
        return Err(TaskError::Empty { path: path.to_owned() });
    }
    Ok(text.trim_start_matches('\u{feff}').replace("\r\n", "\n"))
}

/// At most `most` distinct documents of at least `min_tokens`, in the order of the text.
fn cut<'a>(
    text: &'a str,
    min_tokens: usize,
    most: usize,
    count_tokens: &dyn Fn(&str) -> usize,
) -> Vec<&'a str> {
    let sentences = sentences(text);
    let mut seen = HashSet::new();
    let mut documents = Vec::new();
    let mut first = 0;
    while first < sentences.len() && documents.len() < most {
        let left = sentences.len() - first;
        let document = |n: usize| {
            let last = first + n.clamp(1, left) - 1;
            text[sentences[first].start..sentences[last].end].trim()
        };
        let Ok(n) = smallest_reaching(min_tokens, 1..=left, |n| count_tokens(document(n))) else { break };
        let document = document(n);
        if !document.is_empty() && seen.insert(document) {
            documents.push(document);
        }
        first += n;
    }
    documents
}

/// Where the sentences of `text` lie; together they are all of it.
///
/// A sentence ends after a line break, after `.`, `!` or `?` before white space, after their full-width
/// forms, and at [`LONGEST_SENTENCE`].
fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut sentences = Vec::new();
    let (mut start, mut space) = (0, None);
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let after = at + letter.len_utf8();
        let before_space = letters.peek().is_none_or(|(_, next)| next.is_whitespace());
        let ends = match letter {
            '\n' | '。' | '！' | '？' => true,
            '.' | '!' | '?' => before_space,
            _ => false,
        };
        if letter == ' ' {
            space = Some(after);
        }
        let end = match (ends, after - start >= LONGEST_SENTENCE) {
            (true, _) => after,
            (false, true) => space.unwrap_or(after),
            (false, false) => continue,
        };
        sentences.push(start..end);
        (start, space) = (end, None);
    }
    if start < text.len() {
        sentences.push(start..text.len());
    }
    sentences
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;
    use tempfile::NamedTempFile;

    use super::super::{DocumentCounts, prompts};
    use super::*;

    fn words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn file(bytes: &[u8]) -> NamedTempFile {
        let mut file = NamedTempFile::new().expect("a temporary file");
        file.write_all(bytes).expect("it takes the text");
        file
    }

    fn spec(path: &Path, min_tokens: usize, each: usize) -> TaskSpec {
        TaskSpec {
            path: Some(path.to_owned()),
            min_tokens,
            documents: DocumentCounts { search: each, select: each, test: each },
            ..TaskSpec::named("plain-text")
        }
    }

    fn message(bytes: &[u8]) -> String {
        let file = file(bytes);
        let error = prompts(&spec(file.path(), 4, 1), &words).expect_err("the file cannot serve");
        error.to_string().replace(&file.path().display().to_string(), "FILE")
    }

    #[test]
    fn documents_end_with_a_sentence_and_never_overlap() {
        let text: String = (0..60).map(|n| format!("Sentence number {n} is here. ")).collect();
        let file = file(text.as_bytes());
        let prompts = prompts(&spec(file.path(), 9, 5), &words).expect("prompts");
        let mut numbers = HashSet::new();
        for (_, prompt) in &prompts {
            assert!(prompt.text.ends_with("here.") && words(&prompt.text) == 10, "{}", prompt.text);
            for number in prompt.text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()) {
                assert!(numbers.insert(number), "{number} is in two documents");
            }
        }
        assert_eq!((prompts.len(), numbers.len()), (15, 30));
    }

    #[test]
    fn too_short_a_file_is_an_error_with_figures() {
        assert_eq!(
            message(b"One two three four. One two three four five.\nEnd."),
            "prompt file `FILE` gives 2 distinct documents of at least 4 tokens, but `documents` asks for 3"
        );
    }

    #[test]
    fn a_repeated_text_counts_once() {
        assert!(message(b"One two three four.\n".repeat(50).as_slice()).contains("gives 1 distinct"));
    }

    #[test]
    fn an_empty_or_binary_or_missing_file_is_an_error() {
        assert_eq!(message(b""), "prompt file `FILE` is empty");
        assert_eq!(message(b" \n\r\n\t"), "prompt file `FILE` is empty");
        assert_eq!(message(b"text\xff"), "prompt file `FILE` is not UTF-8 text: bad byte at offset 4");
        let error = prompts(&spec(Path::new("no/such.txt"), 4, 1), &words).expect_err("no file");
        assert_eq!(error.to_string(), "cannot read prompt file `no/such.txt`");
    }

    #[test]
    fn a_long_gap_or_lines_of_one_word_end_nothing() {
        let text = format!("One two three four.{}{}", "\n".repeat(500), "word\n".repeat(4).repeat(3));
        assert_eq!(cut(&text, 4, 9, &words), ["One two three four.", "word\nword\nword\nword"]);
    }

    #[test]
    fn an_endless_line_is_cut_at_spaces() {
        let file = file("word ".repeat(5000).as_bytes());
        let text = read(file.path()).expect("text");
        let ranges = sentences(&text);
        assert!(ranges.len() >= 25);
        assert!(ranges.iter().all(|range| range.len() <= 1000 && text[..range.end].ends_with(' ')));
    }

    proptest! {
        #[test]
        fn sentences_are_the_whole_text(text in "[a-z .!?\n。é]{0,3000}") {
            let whole: String = sentences(&text).into_iter().map(|range| &text[range]).collect();
            prop_assert_eq!(whole, text);
        }

        #[test]
        fn any_text_is_cut_or_refused(text in "\\PC{0,400}", min_tokens in 0_usize..50) {
            for document in cut(&text, min_tokens, 10, &words) {
                prop_assert!(words(document) >= min_tokens && text.contains(document));
            }
        }
    }
}
