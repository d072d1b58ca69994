//! How a text is cut into words before merging, by the names that GGUF files use.
//!
//! Source of the patterns: the models' own `tokenizer.json` files; of `default`: llama.cpp's rule for files that
//! name none.

use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

/// A pre-tokenizer of byte-level BPE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pre {
    Smollm,
    Qwen2,
    LlamaBpe,
    Default,
}

impl Pre {
    pub(super) const KNOWN: &str = "one of `smollm`, `qwen2`, `llama-bpe`, `default`";

    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "smollm" => Some(Self::Smollm),
            "qwen2" => Some(Self::Qwen2),
            "llama-bpe" => Some(Self::LlamaBpe),
            "default" => Some(Self::Default),
            _ => None,
        }
    }

    /// Whether a word that is a token is taken as it is, merges or not.
    pub(super) fn ignores_merges(self) -> bool {
        self == Self::LlamaBpe
    }

    /// Whether texts begin with BOS where the file does not say.
    pub(super) fn begins_texts(self) -> bool {
        self == Self::LlamaBpe
    }

    /// The cuts, in order; the last step maps bytes to the alphabet of the vocabulary.
    pub(super) fn build(self) -> tokenizers::Result<Sequence> {
        let gpt2 = |use_regex| PreTokenizerWrapper::from(ByteLevel::new(false, true, use_regex));
        let steps = match self {
            Self::Smollm => vec![Digits::new(true).into(), gpt2(true)],
            Self::Qwen2 => vec![split(QWEN2)?, gpt2(false)],
            Self::LlamaBpe => vec![split(LLAMA3)?, gpt2(false)],
            Self::Default => {
                let mut steps = DEFAULT.into_iter().map(split).collect::<tokenizers::Result<Vec<_>>>()?;
                steps.push(gpt2(false));
                steps
            }
        };
        Ok(Sequence::new(steps))
    }
}

fn split(pattern: &str) -> tokenizers::Result<PreTokenizerWrapper> {
    let pattern = SplitPattern::Regex(pattern.into());
    Ok(Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?.into())
}

const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// As Qwen2's, with up to three digits together.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const DEFAULT: [&str; 4] = [
    r"[\p{P}$+<=>^~|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    "[0-9][0-9][0-9]",
];

#[cfg(test)]
mod tests {
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

    use super::*;

    fn words(pre: Pre, text: &str) -> Vec<String> {
        let mut cut = PreTokenizedString::from(text);
        pre.build().expect("patterns compile").pre_tokenize(&mut cut).expect("a cut");
        let words = cut.get_splits(OffsetReferential::Original, OffsetType::Byte);
        words.into_iter().map(|(word, ..)| word.replace('Ġ', "_")).collect()
    }

    #[test]
    fn digits_stand_alone_or_in_threes() {
        assert_eq!(words(Pre::Smollm, "in 1234"), ["in", "_", "1", "2", "3", "4"]);
        assert_eq!(words(Pre::Qwen2, "in 1234"), ["in", "_", "1", "2", "3", "4"]);
        assert_eq!(words(Pre::LlamaBpe, "in 1234"), ["in", "_", "123", "4"]);
        assert_eq!(words(Pre::Default, "in 1234"), ["in", "_", "123", "4"]);
    }

    #[test]
    fn punctuation_and_contractions_follow_each_rule() {
        assert_eq!(words(Pre::Smollm, "don't stop!"), ["don", "'t", "_stop", "!"]);
        assert_eq!(words(Pre::Qwen2, "DON'T stop!"), ["DON", "'T", "_stop", "!"]);
        assert_eq!(words(Pre::Default, "don't stop!"), ["don", "'", "t", "_stop", "!"]);
    }

    #[test]
    fn an_unknown_name_is_none() {
        assert_eq!(Pre::named("tekken"), None);
    }
}
