use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A number of bytes; written `512MiB`, `1.5GB` or plainly `1048576`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub struct ByteSize(pub u64);

const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// The largest binary unit that divides the number, else bytes.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = UNITS[..4].iter().find(|(_, size)| self.0 > 0 && self.0.is_multiple_of(*size));
        match binary {
            Some((unit, size)) => write!(f, "{}{unit}", self.0 / size),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_bytes(text.trim()).map(Self).ok_or_else(|| {
            format!(
                "`{text}` is not a size, expected a number of bytes or one with a unit as in `512MiB`, `2GB`"
            )
        })
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_lowercase();
    let size = match unit.as_str() {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1,
    };
    let digits = digits.trim_end();
    if let Ok(count) = digits.parse::<u64>() {
        return count.checked_mul(size);
    }
    let bytes = digits.parse::<f64>().ok()? * size as f64;
    (bytes >= 0.0 && bytes < u64::MAX as f64).then_some(bytes as u64)
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a size such as `512MiB` or a number of bytes")]
enum Written {
    Bytes(u64),
    Text(String),
}

impl TryFrom<Written> for ByteSize {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Bytes(bytes) => Ok(Self(bytes)),
            Written::Text(text) => text.parse(),
        }
    }
}

impl From<ByteSize> for String {
    fn from(size: ByteSize) -> Self {
        size.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        let cases = [
            ("512MiB", 536_870_912),
            ("512 mib", 536_870_912),
            ("2GB", 2_000_000_000),
            ("1.5KiB", 1536),
            ("77", 77),
            ("0B", 0),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "MiB", "-1MiB", "12parsec", "inf", "99999999TiB", "1e400GB", "NaN"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text:?} parsed");
        }
    }

    proptest! {
        #[test]
        fn a_size_reads_back_from_what_it_prints(bytes: u64) {
            prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }

        #[test]
        fn any_text_is_answered(text in "\\PC{0,12}") {
            let _ = text.parse::<ByteSize>();
        }
    }
}
