use serde::Serialize;

use crate::precision::LayerId;

/// Groups of layers in which every layer of a model occurs exactly once, ordered by their first layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Partition(Vec<Vec<LayerId>>);

/// Why groups of layers are no partition of a model's layers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    /// A layer in two groups, or twice in one.
    #[error("{layer} is listed twice in the groups of layers, expected once")]
    Twice {
        /// The layer.
        layer: LayerId,
    },
    /// A layer in no group.
    #[error("{layer} is in no group of layers, expected it in exactly one")]
    Missing {
        /// The layer.
        layer: LayerId,
    },
    /// A layer that the model does not have.
    #[error("the groups of layers list {layer}, but the model has {n_layers} layers")]
    Unknown {
        /// The layer.
        layer: LayerId,
        /// Layers of the model.
        n_layers: usize,
    },
    /// A group of no layers.
    #[error("group {index} lists no layer, expected at least one")]
    Empty {
        /// The group's place in the list, from 0.
        index: usize,
    },
}

impl Partition {
    /// The groups, each in ascending order and ordered by their first layer.
    ///
    /// # Errors
    /// Names the first layer that is listed twice, unknown or missing, or the group that is empty.
    pub fn new(mut groups: Vec<Vec<LayerId>>, n_layers: usize) -> Result<Self, PartitionError> {
        if let Some(index) = groups.iter().position(Vec::is_empty) {
            return Err(PartitionError::Empty { index });
        }
        let mut listed = vec![false; n_layers];
        for &layer in groups.iter().flatten() {
            let seen = listed.get_mut(layer.0).ok_or(PartitionError::Unknown { layer, n_layers })?;
            if std::mem::replace(seen, true) {
                return Err(PartitionError::Twice { layer });
            }
        }
        if let Some(layer) = listed.iter().position(|&seen| !seen).map(LayerId) {
            return Err(PartitionError::Missing { layer });
        }
        groups.iter_mut().for_each(|group| group.sort());
        groups.sort();
        Ok(Self(groups))
    }

    /// The groups.
    pub fn groups(&self) -> &[Vec<LayerId>] {
        &self.0
    }

    /// The groups, owned.
    pub fn into_groups(self) -> Vec<Vec<LayerId>> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(groups: &[&[usize]], n_layers: usize) -> Result<Partition, PartitionError> {
        let groups = groups.iter().map(|group| group.iter().copied().map(LayerId).collect()).collect();
        Partition::new(groups, n_layers)
    }

    #[test]
    fn groups_are_ordered_by_their_first_layer() {
        let parts = partition(&[&[4, 2], &[3, 0], &[1]], 5).expect("each layer once");
        let layers: Vec<Vec<usize>> =
            parts.groups().iter().map(|group| group.iter().map(|layer| layer.0).collect()).collect();
        assert_eq!(layers, [vec![0, 3], vec![1], vec![2, 4]]);
    }

    #[test]
    fn what_is_no_partition_names_the_layer() {
        assert_eq!(partition(&[&[0, 1], &[1]], 2), Err(PartitionError::Twice { layer: LayerId(1) }));
        assert_eq!(partition(&[&[0], &[2]], 3), Err(PartitionError::Missing { layer: LayerId(1) }));
        assert_eq!(partition(&[&[0, 9]], 2), Err(PartitionError::Unknown { layer: LayerId(9), n_layers: 2 }));
        assert_eq!(partition(&[&[0], &[]], 1), Err(PartitionError::Empty { index: 1 }));
    }
}
