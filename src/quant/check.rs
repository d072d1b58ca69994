use kvtune_kernels::codec::CodecOptionsError;

use super::{Axis, Group, Scheme, SchemeName, Tensor, TensorSpec};

/// The most elements of one group, and tokens of one residual.
const MAX_SPAN: usize = 1 << 20;

/// A scheme that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    /// Nothing to code.
    #[error("`{field}.group` is 0, expected 1 or more elements")]
    EmptyGroup {
        /// `key` or `value`.
        field: &'static str,
    },
    /// More elements than anyone means, and than can be counted with.
    #[error("`{field}.{what}` is {found}, expected at most {MAX_SPAN}")]
    Large {
        /// `key` or `value`.
        field: &'static str,
        /// `group` or `residual`.
        what: &'static str,
        /// What was given.
        found: usize,
    },
    /// A head is no number of tokens.
    #[error(
        "`{field}.group` is `head`, but on the channel axis a group is a number of tokens\n\nhint: set `group: 32`"
    )]
    HeadOnChannelAxis {
        /// `key` or `value`.
        field: &'static str,
    },
    /// Groups would have to be coded again as tokens arrive.
    #[error(
        "`{field}.residual` is {residual}, but on the channel axis it must be a positive multiple of `group` ({group})\n\nhint: set `residual: {group}`"
    )]
    Residual {
        /// `key` or `value`.
        field: &'static str,
        /// What was given.
        residual: usize,
        /// Tokens of one group.
        group: usize,
    },
    /// A name stands for its axes.
    #[error(
        "`{field}.axis` is `{found}`, but the {tensor} of `{name}` are coded on the `{expected}` axis\n\nhint: {hint}"
    )]
    Axis {
        /// `key` or `value`.
        field: &'static str,
        /// `keys` or `values`.
        tensor: &'static str,
        /// The scheme's name.
        name: &'static str,
        /// The axis given.
        found: &'static str,
        /// The axis of the family.
        expected: &'static str,
        /// The way out.
        hint: &'static str,
    },
    /// Codec options that exclude each other.
    #[error(transparent)]
    Codec(#[from] CodecOptionsError),
}

impl Scheme {
    /// Whether the scheme can be applied.
    ///
    /// # Errors
    /// [`SchemeError`] with the field, what it holds and what is expected.
    pub fn check(&self) -> Result<(), SchemeError> {
        for (field, tensor) in [("key", Tensor::Keys), ("value", Tensor::Values)] {
            self.check_axis(field, tensor)?;
            self.spec(tensor).check(field)?;
        }
        Ok(self.codec_options().check()?)
    }

    fn check_axis(&self, field: &'static str, tensor: Tensor) -> Result<(), SchemeError> {
        let expected = match (self.name, tensor) {
            (SchemeName::Kivi, Tensor::Keys) => Axis::Channel,
            _ => Axis::Token,
        };
        let found = self.spec(tensor).axis;
        if found == expected {
            return Ok(());
        }
        let hint = match (self.name, tensor) {
            (SchemeName::Kivi, Tensor::Keys) => "set `name: per-token-asym` or `axis: channel`",
            (SchemeName::PerTokenAsym, Tensor::Keys) => "set `name: kivi` or `axis: token`",
            (_, Tensor::Values) => "set `axis: token`",
        };
        let (name, tensor) = (self.name.text(), tensor.name());
        Err(SchemeError::Axis { field, tensor, name, found: found.text(), expected: expected.text(), hint })
    }
}

impl TensorSpec {
    fn check(&self, field: &'static str) -> Result<(), SchemeError> {
        let residual = self.residual;
        match (self.axis, self.group) {
            (_, Group::Size(0)) => Err(SchemeError::EmptyGroup { field }),
            (_, Group::Size(found)) if found > MAX_SPAN => {
                Err(SchemeError::Large { field, what: "group", found })
            }
            _ if residual > MAX_SPAN => Err(SchemeError::Large { field, what: "residual", found: residual }),
            (Axis::Channel, Group::Head) => Err(SchemeError::HeadOnChannelAxis { field }),
            (Axis::Channel, Group::Size(group)) if residual == 0 || !residual.is_multiple_of(group) => {
                Err(SchemeError::Residual { field, residual, group })
            }
            _ => Ok(()),
        }
    }
}

impl SchemeName {
    fn text(self) -> &'static str {
        match self {
            Self::PerTokenAsym => "per-token-asym",
            Self::Kivi => "kivi",
        }
    }
}

impl Axis {
    fn text(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Channel => "channel",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIVI: &str = "
name: kivi
key: {axis: channel, group: 32, residual: 32}
value: {axis: token, group: 32, residual: 0}
zero: float
metadata: f16
one_bit: two-level
codebook: uniform
sinks: 0
hadamard: false
key_bias: keep
prefill: dequantized
";

    fn read(text: &str) -> Result<Scheme, String> {
        serde_yaml::from_str(text).map_err(|error| error.to_string())
    }

    fn refused(change: (&str, &str)) -> String {
        assert!(KIVI.contains(change.0), "{change:?}");
        read(&KIVI.replace(change.0, change.1)).expect_err("a bad scheme")
    }

    #[test]
    fn the_presets_are_what_the_files_say() {
        assert_eq!(read(KIVI), Ok(Scheme::kivi()));
        let per_token =
            "{name: per-token-asym, key: {axis: token, group: head}, value: {axis: token, group: head}}";
        assert_eq!(read(per_token), Ok(Scheme::per_token_asym()));
        for preset in [Scheme::kivi(), Scheme::per_token_asym()] {
            preset.check().expect("a preset is valid");
            let written = serde_yaml::to_string(&preset).expect("serializable");
            assert_eq!(read(&written), Ok(preset));
        }
    }

    #[test]
    fn what_cannot_be_is_refused_at_reading() {
        for (change, expected) in [
            (("group: 32, residual: 32", "group: 0, residual: 32"), "group size 0, expected 1 or more"),
            (("group: 32, residual: 32", "group: head, residual: 32"), "`key.group` is `head`"),
            (("group: 32, residual: 32", "group: 1048577, residual: 32"), "expected at most 1048576"),
            (("residual: 0}", "residual: 99999999}"), "`value.residual` is 99999999, expected at most"),
            (("residual: 32", "residual: 48"), "`key.residual` is 48, but"),
            (("residual: 32", "residual: 0"), "must be a positive multiple of `group` (32)"),
            (("axis: channel", "axis: token"), "`key.axis` is `token`, but the keys of `kivi`"),
            (("axis: token", "axis: channel"), "`value.axis` is `channel`, but the values of `kivi`"),
            (("zero: float", "zero: rounded"), "hint: set `metadata: f32`"),
            (("sinks", "sink"), "unknown field `sink`"),
        ] {
            let error = refused(change);
            assert!(error.contains(expected), "{change:?} gave: {error}");
        }
        let both = KIVI.replace("zero: float", "zero: rounded").replace("uniform", "lloyd-max");
        assert!(read(&both).expect_err("no zero point").contains("`codebook: lloyd-max` has no zero point"));
    }

    #[test]
    fn a_scheme_built_in_code_is_checked_too() {
        let mut scheme = Scheme::kivi();
        scheme.value.group = Group::Size(0);
        assert_eq!(scheme.check(), Err(SchemeError::EmptyGroup { field: "value" }));
    }
}
