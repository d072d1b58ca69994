use kvtune_kernels::codec::{Codebook, Metadata, OneBit, Zero};
use serde::{Deserialize, Serialize};

/// How a cache is coded; a search space names one scheme.
///
/// Reading one from a file checks it ([`Scheme::check`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Scheme {
    /// Which of the published families this is.
    pub name: SchemeName,
    /// Groups and residual of the keys.
    pub key: TensorSpec,
    /// Groups and residual of the values.
    pub value: TensorSpec,
    /// Zero-point convention.
    #[serde(default)]
    pub zero: Zero,
    /// Type that scale and zero point are stored in.
    #[serde(default)]
    pub metadata: Metadata,
    /// Codec at one bit.
    #[serde(default)]
    pub one_bit: OneBit,
    /// Where the levels of a code lie.
    #[serde(default)]
    pub codebook: Codebook,
    /// First tokens kept at full precision.
    #[serde(default)]
    pub sinks: usize,
    /// Rotate each head by an orthonormal Hadamard matrix before coding, and back at reading.
    #[serde(default)]
    pub hadamard: bool,
    /// What is coded of a key whose projection has a bias.
    #[serde(default)]
    pub key_bias: KeyBias,
    /// What the queries of the prompt read.
    #[serde(default)]
    pub prefill: Prefill,
}

/// The published families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchemeName {
    /// Keys and values by token.
    PerTokenAsym,
    /// Keys by channel over blocks of tokens, values by token.
    Kivi,
}

impl SchemeName {
    /// As files spell it.
    pub fn slug(self) -> &'static str {
        match self {
            Self::PerTokenAsym => "per-token-asym",
            Self::Kivi => "kivi",
        }
    }
}

/// Groups and residual of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorSpec {
    /// What the elements of one group share.
    pub axis: Axis,
    /// Elements of one group.
    pub group: Group,
    /// Newest tokens held exact: keys freeze in whole blocks of `residual`, values leave a sliding window.
    #[serde(default)]
    pub residual: usize,
}

/// What the elements of one group share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// One token: a group is consecutive channels of one head.
    Token,
    /// One channel: a group is consecutive tokens.
    Channel,
}

/// Elements of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// All channels of a head (token axis only).
    Head,
    /// A count; the last group of a head may be shorter, never padded.
    Size(usize),
}

/// What is coded of a key whose projection has a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyBias {
    /// The key as it is.
    #[default]
    Keep,
    /// The key less the rotated bias, which is added back at reading: exact, and costs no storage (**ours**).
    Subtract,
}

/// What the queries of the prompt read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefill {
    /// The cache as it stands after the whole prompt: the paper's, error accumulates over layers.
    #[default]
    Dequantized,
    /// Full-precision keys and values, as the published code does.
    Exact,
}

impl Scheme {
    /// Keys by channel over blocks of 32 tokens, values by 32 channels of one token (KIVI).
    ///
    /// Source: KIVI (Liu et al. 2024, arXiv:2402.02750), with no residual of values.
    pub fn kivi() -> Self {
        Self::of(
            SchemeName::Kivi,
            TensorSpec { axis: Axis::Channel, group: Group::Size(32), residual: 32 },
            TensorSpec { axis: Axis::Token, group: Group::Size(32), residual: 0 },
        )
    }

    /// Keys and values by token, a whole head as one group, nothing kept exact.
    pub fn per_token_asym() -> Self {
        let spec = TensorSpec { axis: Axis::Token, group: Group::Head, residual: 0 };
        Self::of(SchemeName::PerTokenAsym, spec, spec)
    }

    fn of(name: SchemeName, key: TensorSpec, value: TensorSpec) -> Self {
        Self {
            name,
            key,
            value,
            zero: Zero::default(),
            metadata: Metadata::default(),
            one_bit: OneBit::default(),
            codebook: Codebook::default(),
            sinks: 0,
            hadamard: false,
            key_bias: KeyBias::default(),
            prefill: Prefill::default(),
        }
    }
}

impl Serialize for Scheme {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Scheme {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let scheme = Self::deserialize(deserializer)?;
        scheme.check().map_err(serde::de::Error::custom)?;
        Ok(scheme)
    }
}

impl Serialize for Group {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Head => serializer.serialize_str("head"),
            Self::Size(size) => serializer.serialize_u64(*size as u64),
        }
    }
}

impl<'de> Deserialize<'de> for Group {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a positive number of elements, or `head`")]
        enum Written {
            Size(usize),
            Word(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Size(size) if size > 0 => Ok(Self::Size(size)),
            Written::Word(word) if word == "head" => Ok(Self::Head),
            Written::Size(size) => {
                Err(serde::de::Error::custom(format!("group size {size}, expected 1 or more")))
            }
            Written::Word(word) => {
                Err(serde::de::Error::custom(format!("group `{word}`, expected a number or `head`")))
            }
        }
    }
}
