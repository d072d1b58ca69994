use std::fmt;
use std::str::FromStr;

use linfa::ParamGuard;
use serde::{Deserialize, Serialize};

/// What becomes of layers that are like no other. All three are **ours**.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Noise {
    /// All noise among layers of one candidate set forms one group; the published groups look like this.
    #[default]
    Bucket,
    /// Each noise layer is its own group.
    Singleton,
    /// Each noise layer joins the cluster of the nearest clustered layer with its candidate set (the lower layer
    /// on a tie); where there is no cluster, as `bucket`.
    Nearest,
}

/// How many groups are wanted: `4..8`, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GroupRange {
    /// Fewest.
    pub fewest: usize,
    /// Most.
    pub most: usize,
}

impl GroupRange {
    pub(super) fn contains(self, count: usize) -> bool {
        (self.fewest..=self.most).contains(&count)
    }
}

impl fmt::Display for GroupRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.fewest, self.most)
    }
}

impl FromStr for GroupRange {
    type Err = ClusterParamsError;

    fn from_str(text: &str) -> Result<Self, ClusterParamsError> {
        let parsed = text
            .split_once("..")
            .and_then(|(fewest, most)| Some(Self { fewest: fewest.parse().ok()?, most: most.parse().ok()? }));
        let sensible = parsed.filter(|range| 1 <= range.fewest && range.fewest <= range.most);
        sensible.ok_or_else(|| ClusterParamsError::Groups { found: text.to_owned() })
    }
}

impl TryFrom<String> for GroupRange {
    type Error = ClusterParamsError;

    fn try_from(text: String) -> Result<Self, ClusterParamsError> {
        text.parse()
    }
}

impl From<GroupRange> for String {
    fn from(range: GroupRange) -> Self {
        range.to_string()
    }
}

/// Checked clustering parameters; made by [`ClusterParams`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterValidParams {
    pub(super) eps: f64,
    pub(super) min_samples: usize,
    pub(super) noise: Noise,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) groups: Option<GroupRange>,
}

/// KVTuner's eps and min_samples.
impl Default for ClusterValidParams {
    fn default() -> Self {
        Self { eps: 0.05, min_samples: 2, noise: Noise::Bucket, groups: None }
    }
}

/// How layers are clustered: DBSCAN's eps (0.05) and min_samples (2), and what becomes of noise (`bucket`).
///
/// With `groups`, eps is searched: of all distances between layers the one nearest to `eps` (by ratio) that gives a
/// number of groups in the range; `eps` itself when it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterParams(ClusterValidParams);

impl ClusterParams {
    /// Greatest distance between neighbors, in units of e_o.
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.0.eps = eps;
        self
    }

    /// Layers that make a neighborhood dense, the layer itself included.
    #[must_use]
    pub fn min_samples(mut self, min_samples: usize) -> Self {
        self.0.min_samples = min_samples;
        self
    }

    /// What becomes of noise.
    #[must_use]
    pub fn noise(mut self, noise: Noise) -> Self {
        self.0.noise = noise;
        self
    }

    /// How many groups are wanted.
    #[must_use]
    pub fn groups(mut self, groups: GroupRange) -> Self {
        self.0.groups = Some(groups);
        self
    }
}

/// Clustering parameters out of range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClusterParamsError {
    /// eps is not a positive number.
    #[error("cluster `eps` is {eps}, expected a finite number above 0")]
    Eps {
        /// What was found.
        eps: f64,
    },
    /// A cluster of one layer is no cluster.
    #[error("cluster `min_samples` is {min_samples}, expected at least 2 (the layer itself counts)")]
    MinSamples {
        /// What was found.
        min_samples: usize,
    },
    /// Not a range of group counts.
    #[error("cluster `groups` is `{found}`, expected a range such as `4..8`")]
    Groups {
        /// What was found.
        found: String,
    },
}

impl ParamGuard for ClusterParams {
    type Checked = ClusterValidParams;
    type Error = ClusterParamsError;

    fn check_ref(&self) -> Result<&ClusterValidParams, ClusterParamsError> {
        let ClusterValidParams { eps, min_samples, groups, .. } = self.0;
        if !(eps.is_finite() && eps > 0.0) {
            return Err(ClusterParamsError::Eps { eps });
        }
        if min_samples < 2 {
            return Err(ClusterParamsError::MinSamples { min_samples });
        }
        match groups {
            Some(range) if !(1..=range.most).contains(&range.fewest) => {
                Err(ClusterParamsError::Groups { found: range.to_string() })
            }
            _ => Ok(&self.0),
        }
    }

    fn check(self) -> Result<ClusterValidParams, ClusterParamsError> {
        self.check_ref()?;
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_parameters_are_named_with_their_value() {
        let message = |params: ClusterParams| params.check().expect_err("invalid").to_string();
        let eps = "cluster `eps` is 0, expected a finite number above 0";
        assert_eq!(message(ClusterParams::default().eps(0.0)), eps);
        let samples = "cluster `min_samples` is 1, expected at least 2 (the layer itself counts)";
        assert_eq!(message(ClusterParams::default().min_samples(1)), samples);
        let range = "8..4".parse::<GroupRange>().expect_err("backwards").to_string();
        assert_eq!(range, "cluster `groups` is `8..4`, expected a range such as `4..8`");
    }

    #[test]
    fn parameters_read_as_a_search_space_writes_them() {
        let text = "{eps: 0.1, noise: nearest, groups: 4..8}";
        let params: ClusterParams = serde_yaml::from_str(text).expect("valid");
        let range = GroupRange { fewest: 4, most: 8 };
        assert_eq!(params, ClusterParams::default().eps(0.1).noise(Noise::Nearest).groups(range));
        assert!(serde_yaml::from_str::<ClusterParams>("{epsilon: 0.1}").is_err());
    }
}
