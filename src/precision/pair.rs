use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Bits, PrecisionError};

/// Key and value precision of one layer; prints as the field writes it: `K8V4`, or `KV4` when equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PrecisionPair {
    /// Width of a key element.
    pub key: Bits,
    /// Width of a value element.
    pub value: Bits,
}

impl PrecisionPair {
    /// Keys and values as they are.
    pub const FULL: Self = Self { key: Bits::FULL, value: Bits::FULL };

    /// One pair from two widths.
    pub fn new(key: Bits, value: Bits) -> Self {
        Self { key, value }
    }

    /// Whether neither side is quantized.
    pub fn is_full(self) -> bool {
        self == Self::FULL
    }

    /// Mean width of a key and a value element: the pair's equivalent bits.
    pub fn mean_bits(self) -> f64 {
        (f64::from(self.key.get()) + f64::from(self.value.get())) / 2.0
    }
}

impl fmt::Display for PrecisionPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.key == self.value {
            format!("KV{}", self.key)
        } else {
            format!("K{}V{}", self.key, self.value)
        };
        f.pad(&text)
    }
}

impl FromStr for PrecisionPair {
    type Err = PrecisionError;

    fn from_str(text: &str) -> Result<Self, PrecisionError> {
        parse(text).ok_or_else(|| PrecisionError::Pair { found: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<PrecisionPair> {
    let rest = text.strip_prefix('K')?;
    if let Some(both) = rest.strip_prefix('V') {
        let bits = parse_bits(both)?;
        return Some(PrecisionPair::new(bits, bits));
    }
    let (key, value) = rest.split_once('V')?;
    Some(PrecisionPair::new(parse_bits(key)?, parse_bits(value)?))
}

/// Plain decimal digits only: `+4` and `04` are nobody's spelling.
fn parse_bits(text: &str) -> Option<Bits> {
    Bits::ALL.into_iter().find(|bits| bits.get().to_string() == text)
}

impl TryFrom<String> for PrecisionPair {
    type Error = PrecisionError;

    fn try_from(text: String) -> Result<Self, PrecisionError> {
        text.parse()
    }
}

impl From<PrecisionPair> for String {
    fn from(pair: PrecisionPair) -> Self {
        pair.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_parses_back_from_what_it_prints() {
        for key in Bits::ALL {
            for value in Bits::ALL {
                let pair = PrecisionPair::new(key, value);
                assert_eq!(pair.to_string().parse(), Ok(pair));
            }
        }
    }

    #[test]
    fn a_pair_of_equal_widths_prints_short() {
        let eight = Bits::try_from(8).expect("8 is a width");
        assert_eq!(PrecisionPair::new(eight, eight).to_string(), "KV8");
        assert_eq!("K8V8".parse(), Ok(PrecisionPair::new(eight, eight)));
    }

    #[test]
    fn what_is_no_pair_is_refused() {
        for text in ["", "K", "KV", "K8", "V8", "K9V4", "K8V", "k8v4", "K+8V4", "K08V4", "KV4 ", "KV-4"] {
            assert!(text.parse::<PrecisionPair>().is_err(), "{text:?} parsed");
        }
    }
}
