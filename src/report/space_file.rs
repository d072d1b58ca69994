use std::path::Path;

use serde::{Deserialize, Serialize};

use super::files::{FileError, read_yaml, write_yaml};
use super::run_record::refuse_format;
use crate::space::Space;

/// `space.yaml`: the space and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpaceFile {
    /// Version of this format.
    pub format: u32,
    /// Fingerprint of the model's weights.
    pub model: String,
    /// Version of kvtune.
    pub version: String,
    /// Decimal logarithms of the number of maps: before, after pruning, after grouping.
    pub log10_sizes: [f64; 3],
    /// The space.
    #[serde(flatten)]
    pub space: Space,
}

impl SpaceFile {
    /// The format that this version writes and reads.
    pub const FORMAT: u32 = 1;

    /// The file of a space found for a model.
    pub fn new(space: Space, model: String) -> Self {
        let log10_sizes = [space.size_before(), space.size_pruned(), space.size()].map(|size| size.log10);
        Self {
            format: Self::FORMAT,
            model,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            log10_sizes,
            space,
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// [`FileError::Write`].
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        write_yaml(path, self)
    }

    /// Reads it back.
    ///
    /// # Errors
    /// [`FileError`] when the file cannot be read or holds no space.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let file: Self = read_yaml(path)?;
        refuse_format(path, file.format, Self::FORMAT)?;
        Ok(file)
    }
}

/// The letter of each layer's group.
pub(in crate::report) fn group_letters(space: &Space) -> Vec<String> {
    let mut letters = vec![String::new(); space.n_layers()];
    for (index, group) in space.groups().iter().enumerate() {
        for layer in &group.layers {
            if let Some(place) = letters.get_mut(layer.0) {
                *place = letter(index);
            }
        }
    }
    letters
}

/// Of the group at that place: A to Z, then A1 to Z1 and so on.
pub(in crate::report) fn letter(index: usize) -> String {
    let letter = char::from(b'A' + (index % 26) as u8);
    if index < 26 { letter.to_string() } else { format!("{letter}{}", index / 26) }
}
