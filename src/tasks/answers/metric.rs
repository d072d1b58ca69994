//! Marks for texts, from 0 to 1; sources beside each.

use std::collections::HashMap;

use super::extract::digit_runs;
use super::item::mark;

/// Lower case, without punctuation and articles, white space single.
///
/// Source: SQuAD's evaluation script, which TriviaQA and LongBench take over.
pub(super) fn normalized(text: &str) -> String {
    let plain: String = text
        .to_lowercase()
        .chars()
        .map(|letter| if letter == '_' { ' ' } else { letter })
        .filter(|&letter| !is_punctuation(letter))
        .collect();
    let words = plain.split_whitespace().filter(|word| !matches!(*word, "a" | "an" | "the"));
    words.collect::<Vec<_>>().join(" ")
}

fn is_punctuation(letter: char) -> bool {
    letter.is_ascii_punctuation() || "‘’´“”。，、；：？！（）《》「」『』【】…—·".contains(letter)
}

/// Words of an English text, as F1 counts them.
pub(super) fn words(text: &str) -> Vec<String> {
    normalized(text).split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Characters of a Chinese text, as F1 counts them.
///
/// **Ours**: the published code cuts Chinese into words with a dictionary; single characters need none, and give
/// figures of their own.
pub(super) fn characters(text: &str) -> Vec<String> {
    let plain = text.to_lowercase();
    let letters = plain.chars().filter(|&letter| !letter.is_whitespace() && !is_punctuation(letter));
    letters.map(String::from).collect()
}

/// Harmonic mean of the shares of words in common, as bags.
pub(super) fn f1(found: &[String], expected: &[String]) -> f64 {
    let mut left: HashMap<&str, usize> = HashMap::new();
    expected.iter().for_each(|word| *left.entry(word).or_default() += 1);
    let is_common = |word: &&String| match left.get_mut(word.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    };
    let common = found.iter().filter(is_common).count();
    harmonic(common, found.len(), expected.len())
}

/// ROUGE-L: F1 of the longest common subsequence of words.
///
/// Source: Lin (2004), of whole texts, with equal weights.
pub(super) fn rouge_l(found: &[String], expected: &[String]) -> f64 {
    harmonic(common_subsequence(found, expected), found.len(), expected.len())
}

/// How alike two lines of code are: 2 × the longest common subsequence of characters over both lengths.
///
/// Source: LongBench takes fuzzywuzzy's `ratio`, which is this, rounded to a hundredth; not rounded here.
pub(super) fn similarity(found: &str, expected: &str) -> f64 {
    let (found, expected): (Vec<char>, Vec<char>) = (found.chars().collect(), expected.chars().collect());
    if found.is_empty() && expected.is_empty() {
        return 1.0;
    }
    harmonic(common_subsequence(&found, &expected), found.len(), expected.len())
}

/// 2 · common / (a + b), which is the harmonic mean of common / a and common / b.
fn harmonic(common: usize, a: usize, b: usize) -> f64 {
    if common == 0 { 0.0 } else { 2.0 * common as f64 / (a + b) as f64 }
}

/// Members of the longest common subsequence.
fn common_subsequence<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    let mut row = vec![0; b.len() + 1];
    for x in a {
        let mut above_left = 0;
        for (column, y) in b.iter().enumerate() {
            let above = row[column + 1];
            row[column + 1] = if x == y { above_left + 1 } else { above.max(row[column]) };
            above_left = above;
        }
    }
    row[b.len()]
}

/// 1 over the number of labels that a text names, if the right one is among them; a label inside the right one does
/// not count.
///
/// Source: LongBench, `classification_score`.
pub(super) fn classification(found: &str, expected: &str, labels: &[String]) -> f64 {
    let is_named = |label: &&String| {
        found.contains(label.as_str()) && (label.as_str() == expected || !expected.contains(label.as_str()))
    };
    let named: Vec<&String> = labels.iter().filter(is_named).collect();
    if named.iter().any(|label| label.as_str() == expected) { 1.0 / named.len() as f64 } else { 0.0 }
}

/// The share of a text's numbers that are the expected one.
///
/// Source: LongBench, `count_score` and `retrieval_score`.
pub(super) fn numbers(found: &str, expected: &str) -> f64 {
    let runs = digit_runs(found);
    let right = runs.iter().filter(|run| **run == expected).count();
    if runs.is_empty() { 0.0 } else { right as f64 / runs.len() as f64 }
}

/// The share of the expected strings that a text contains, whatever the case.
///
/// Source: RULER, `string_match_all`.
pub(super) fn recall(found: &str, expected: &[String]) -> f64 {
    let found = found.to_lowercase();
    let named = expected.iter().filter(|text| found.contains(&text.to_lowercase())).count();
    named as f64 / expected.len().max(1) as f64
}

/// The best of several right answers.
pub(super) fn best(expected: &[String], score: impl Fn(&str) -> f64) -> f64 {
    expected.iter().map(|text| score(text)).fold(0.0, f64::max)
}

/// Whether both say the same once normalized.
pub(super) fn exact(found: &str, expected: &str) -> f64 {
    mark(normalized(found) == normalized(expected))
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "shares of small counts are exact")]
mod tests {
    use super::*;

    fn labels(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn texts_are_compared_without_articles_case_and_punctuation() {
        assert_eq!(normalized("The  Cat's, an_Apple!"), "cats apple");
        assert_eq!(exact(" the Beatles.", "Beatles"), 1.0);
        assert_eq!(exact("Beatle", "Beatles"), 0.0);
    }

    #[test]
    fn f1_counts_words_as_often_as_they_come() {
        // Found 4 words, 2 of them in common with the expected 3: 2·2/(4+3).
        assert_eq!(f1(&words("red red big dog"), &words("red small dog")), 4.0 / 7.0);
        assert_eq!(f1(&words(""), &words("red")), 0.0);
        // 2 of 3 and of 2 characters.
        assert_eq!(f1(&characters("北京市"), &characters("北京。")), 0.8);
    }

    #[test]
    fn rouge_l_minds_the_order() {
        assert_eq!(rouge_l(&words("x y z"), &words("z y x")), 1.0 / 3.0);
        assert_eq!(rouge_l(&words("police killed gunman"), &words("police kill gunman")), 2.0 / 3.0);
    }

    #[test]
    fn similarity_is_twice_the_common_part_over_both_lengths() {
        assert_eq!(similarity("return x", "return y"), 14.0 / 16.0);
        assert_eq!(similarity("", ""), 1.0);
        assert_eq!(similarity("", "a"), 0.0);
    }

    #[test]
    fn naming_every_label_is_worth_little() {
        let all = labels(&["Food", "Fast food", "City"]);
        assert_eq!(classification("It is Fast food", "Fast food", &all), 1.0);
        assert_eq!(classification("Food or City", "City", &all), 0.5);
        assert_eq!(classification("Food", "City", &all), 0.0);
    }

    #[test]
    fn every_number_of_an_answer_counts() {
        assert_eq!(numbers("Paragraph 3, not 14", "3"), 0.5);
        assert_eq!(numbers("none", "3"), 0.0);
        assert_eq!(numbers("13", "3"), 0.0);
    }

    #[test]
    fn recall_is_the_share_that_was_written() {
        assert_eq!(recall("VAR abc and DEF", &labels(&["ABC", "DEF", "GHI", "JKL"])), 0.5);
    }
}
