use std::fmt;
use std::str::FromStr;

/// What weights are held as in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WeightType {
    /// Four bytes a weight: as files store it, or more exactly than they do.
    #[default]
    F32,
    /// Two bytes: 11 significant bits, up to 65,504.
    F16,
    /// Two bytes: 8 significant bits, the range of f32.
    Bf16,
}

impl WeightType {
    /// Bytes of one weight.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

impl fmt::Display for WeightType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        })
    }
}

/// A word that is no type of weights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is no type of weights, expected `f32`, `f16` or `bf16`")]
pub struct UnknownWeightType {
    found: String,
}

impl FromStr for WeightType {
    type Err = UnknownWeightType;

    fn from_str(text: &str) -> Result<Self, UnknownWeightType> {
        let known = [Self::F32, Self::F16, Self::Bf16];
        let found = known.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| UnknownWeightType { found: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_reads_as_it_prints() {
        for kind in [WeightType::F32, WeightType::F16, WeightType::Bf16] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "fp16".parse::<WeightType>().expect_err("not our spelling");
        assert_eq!(error.to_string(), "`fp16` is no type of weights, expected `f32`, `f16` or `bf16`");
    }
}
