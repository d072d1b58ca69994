use std::fmt;
use std::str::FromStr;

/// A query head; prints and parses as `12.3`, layer and head from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeadId {
    /// The layer.
    pub layer: usize,
    /// The query head in it.
    pub head: usize,
}

/// A text that names no head.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a head, expected layer and head from 0 with a point between, such as `12.3`")]
pub struct HeadIdError {
    /// What was given.
    pub found: String,
}

impl fmt::Display for HeadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.layer, self.head)
    }
}

impl FromStr for HeadId {
    type Err = HeadIdError;

    fn from_str(text: &str) -> Result<Self, HeadIdError> {
        let number = |text: &str| text.parse().ok().filter(|number: &usize| number.to_string() == text);
        let parsed = text
            .split_once('.')
            .and_then(|(layer, head)| Some(Self { layer: number(layer)?, head: number(head)? }));
        parsed.ok_or_else(|| HeadIdError { found: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_parses_back_from_what_it_prints() {
        let head = HeadId { layer: 12, head: 3 };
        assert_eq!(head.to_string(), "12.3");
        assert_eq!("12.3".parse(), Ok(head));
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for text in ["", ".", "3", "3.", "3.1.2", "03.1", "-1.2", "a.b"] {
            assert!(text.parse::<HeadId>().is_err(), "{text:?} parsed");
        }
    }
}
