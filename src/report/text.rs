//! Maps and genomes as one CSV cell each.

use std::num::ParseIntError;

use serde::{Deserialize, Deserializer, Serializer};

use crate::precision::{PrecisionMap, PrecisionPair};

/// The map that [`PrecisionMap`] prints as runs of equal pairs: `0-3 K8V4, 4 KV2`.
///
/// # Errors
/// What is wrong, in words: no run, a pair that does not exist, layers that do not follow each other from 0.
pub fn parse_map(text: &str) -> Result<PrecisionMap, String> {
    let mut pairs: Vec<PrecisionPair> = Vec::new();
    for run in text.split(',') {
        let (first, last, pair) = parse_run(run.trim())?;
        if first != pairs.len() || last < first {
            return Err(format!("`{}` stands where layer {} was expected", run.trim(), pairs.len()));
        }
        if last > MAX_LAYER {
            return Err(format!("layer {last} is beyond any model, expected at most {MAX_LAYER}"));
        }
        pairs.resize(last + 1, pair);
    }
    Ok(PrecisionMap::new(pairs))
}

/// So that a damaged cell cannot ask for gigabytes.
const MAX_LAYER: usize = 9_999;

fn parse_run(run: &str) -> Result<(usize, usize, PrecisionPair), String> {
    let wrong = || format!("`{run}` is not a run of layers, expected one such as `0-3 K8V4`");
    let (layers, pair) = run.split_once(' ').ok_or_else(wrong)?;
    let (first, last) = layers.split_once('-').unwrap_or((layers, layers));
    let pair = pair.trim().parse().map_err(|error| format!("{error}"))?;
    let number = |text: &str| text.parse().map_err(|_: ParseIntError| wrong());
    Ok((number(first)?, number(last)?, pair))
}

/// serde of a [`PrecisionMap`] as run-length text, for `#[serde(with = …)]`.
pub mod map_text {
    use super::*;

    /// Writes `0-3 K8V4, 4 KV2`.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(map: &PrecisionMap, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(map)
    }

    /// Reads it back.
    ///
    /// # Errors
    /// See [`parse_map`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PrecisionMap, D::Error> {
        parse_map(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// serde of a genome as its choices with spaces between, `0 2 1`; empty where there is none.
pub mod genome_text {
    use super::*;

    /// Writes `0 2 1`.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(genome: &[usize], serializer: S) -> Result<S::Ok, S::Error> {
        let choices: Vec<String> = genome.iter().map(ToString::to_string).collect();
        serializer.serialize_str(&choices.join(" "))
    }

    /// Reads it back.
    ///
    /// # Errors
    /// Naming what is not a number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let choice =
            |word: &str| word.parse().map_err(|_| format!("`{word}` in genome `{text}` is not a number"));
        text.split_whitespace().map(choice).collect::<Result<_, String>>().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::precision::Bits;

    #[test]
    fn what_is_no_map_is_refused() {
        let cases = [
            ("", "`` is not a run of layers"),
            ("0-1 KV8, 3 KV4", "`3 KV4` stands where layer 2 was expected"),
            ("0-1 KV8, 1 KV4", "`1 KV4` stands where layer 2 was expected"),
            ("0 K9V4", "`K9V4` is not a precision pair"),
            ("0-x KV4", "`0-x KV4` is not a run of layers"),
            ("0-99999999999 KV4", "layer 99999999999 is beyond any model"),
        ];
        for (text, expected) in cases {
            let error = parse_map(text).expect_err(text);
            assert!(error.starts_with(expected), "{error}");
        }
    }

    fn any_pair() -> impl Strategy<Value = PrecisionPair> {
        let bits = || (0..Bits::ALL.len()).prop_map(|i| Bits::ALL[i]);
        (bits(), bits()).prop_map(|(key, value)| PrecisionPair::new(key, value))
    }

    proptest! {
        #[test]
        fn a_map_reads_back_from_what_it_prints(pairs in prop::collection::vec(any_pair(), 1..40)) {
            let map = PrecisionMap::new(pairs);
            prop_assert_eq!(parse_map(&map.to_string()), Ok(map));
        }

        #[test]
        fn any_text_is_answered(text in "[0-9KV ,-]{0,20}") {
            let _ = parse_map(&text);
        }
    }
}
