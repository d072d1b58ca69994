use std::fmt;

use serde::{Deserialize, Serialize};

use super::PrecisionError;

/// Bits that one cached element takes, before scales: 1, 2, 3, 4, 5, 6, 8, or 16 (not quantized).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Bits(u8);

impl Bits {
    /// Not quantized.
    pub const FULL: Self = Self(16);
    /// Every width there is, narrowest first.
    pub const ALL: [Self; 8] = [Self(1), Self(2), Self(3), Self(4), Self(5), Self(6), Self(8), Self(16)];

    /// The width as a number.
    pub fn get(self) -> u8 {
        self.0
    }

    /// Whether elements are kept as they are.
    pub fn is_full(self) -> bool {
        self == Self::FULL
    }
}

impl TryFrom<u8> for Bits {
    type Error = PrecisionError;

    fn try_from(bits: u8) -> Result<Self, PrecisionError> {
        let known = Self::ALL.into_iter().find(|known| known.0 == bits);
        known.ok_or_else(|| PrecisionError::Bits { found: bits.to_string() })
    }
}

impl From<Bits> for u8 {
    fn from(bits: Bits) -> Self {
        bits.0
    }
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_widths_that_codecs_have_exist() {
        let known: Vec<u8> = (0..=255).filter(|&bits| Bits::try_from(bits).is_ok()).collect();
        assert_eq!(known, [1, 2, 3, 4, 5, 6, 8, 16]);
    }

    #[test]
    fn an_unknown_width_says_which_exist() {
        let error = Bits::try_from(7).expect_err("7 is no width");
        assert_eq!(error.to_string(), "`7` is not a bit width, expected one of 1, 2, 3, 4, 5, 6, 8, 16");
    }
}
