//! `dgap.safetensors`, and `dgap.yaml` beside it for people to read.
//!
//! Tensors are f32: `features.mean`, `features.deviation` `[1, F]`, `hidden.mean`, `hidden.deviation` `[1, W]`,
//! `detector.{kind}.{matrix}` and `corrector.{kind}.{matrix}`. The header's `__metadata__` has one entry, `kvtune`:
//! JSON of [`About`].

use std::collections::HashMap;
use std::path::Path;

use kvtune_kernels::mmap::Mapped;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::error::DgapError;
use super::features::Features;
use super::heads::{Corrector, Detector, Head, Matrix, Standard};
use super::set::{About, Heads};
use super::sheet::HELD;
use crate::report::{FileError, write_atomic, write_text};

const ENTRY: &str = "kvtune";

impl Heads {
    /// Writes `path` and its description with the ending `.yaml`.
    ///
    /// # Errors
    /// [`DgapError::File`].
    pub fn write(&self, path: &Path) -> Result<(), DgapError> {
        let damaged = |error: String| DgapError::damaged(path, error);
        let about = serde_json::to_string(&self.about).map_err(|error| damaged(error.to_string()))?;
        let matrices = self.matrices();
        let bytes: Vec<(String, [usize; 2], Vec<u8>)> =
            matrices.into_iter().map(|(name, shape, data)| (name, shape, little_endian(&data))).collect();
        let views = bytes.iter().map(|(name, shape, bytes)| {
            Ok((
                name,
                TensorView::new(Dtype::F32, shape.to_vec(), bytes)
                    .map_err(|error| damaged(error.to_string()))?,
            ))
        });
        let views = views.collect::<Result<Vec<_>, DgapError>>()?;
        let entries = HashMap::from([(ENTRY.to_owned(), about)]);
        let file =
            safetensors::serialize(views, Some(entries)).map_err(|error| damaged(error.to_string()))?;
        write_atomic(path, |out| out.write_all(&file))?;
        let yaml = serde_yaml::to_string(&self.about).map_err(|error| damaged(error.to_string()))?;
        Ok(write_text(&path.with_extension("yaml"), &yaml)?)
    }

    fn matrices(&self) -> Vec<(String, [usize; 2], Vec<f32>)> {
        let mut matrices = Vec::new();
        for (name, standard) in [("features", &self.features), ("hidden", &self.hidden)] {
            for (part, values) in [("mean", &standard.mean), ("deviation", &standard.deviation)] {
                matrices.push((format!("{name}.{part}"), [1, values.len()], values.clone()));
            }
        }
        let mut add = |kind: String, weights: &[Matrix]| {
            for matrix in weights {
                matrices.push((format!("{kind}.{}", matrix.name), matrix.shape, matrix.data.clone()));
            }
        };
        self.detectors.iter().for_each(|head| add(format!("detector.{}", head.kind), &head.weights));
        self.correctors.iter().for_each(|head| add(format!("corrector.{}", head.kind), &head.weights));
        matrices
    }

    /// Reads heads back; every shape is checked against the description, every number is finite.
    ///
    /// # Errors
    /// [`DgapError::File`] for a file that is not there, or damaged in any way.
    pub fn read(path: &Path) -> Result<Self, DgapError> {
        let bytes = Mapped::open(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
        let damaged = |message: String| DgapError::damaged(path, message);
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|error| damaged(error.to_string()))?;
        let entry = header.metadata().as_ref().and_then(|entries| entries.get(ENTRY));
        let entry = entry.ok_or_else(|| damaged("no heads: its header has no `kvtune` entry".into()))?;
        let about: About = serde_json::from_str(entry).map_err(|error| damaged(error.to_string()))?;
        check(&about).map_err(damaged)?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(|error| damaged(error.to_string()))?;
        let tables = Tables { tensors, path };
        let standard = |name: &str, width| tables.standard(name, width);
        let (features, hidden) =
            (standard("features", about.shape.features)?, standard("hidden", about.shape.inputs)?);
        // Names and shapes are those of fresh weights.
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let mut detectors = Vec::new();
        for kind in Detector::ALL {
            let like = kind.init(about.shape, &mut random);
            detectors.extend(tables.head(&format!("detector.{kind}"), kind, like)?);
        }
        let mut correctors = Vec::new();
        for kind in Corrector::ALL {
            let like = kind.init(about.shape, about.training.sizes, &mut random);
            correctors.extend(tables.head(&format!("corrector.{kind}"), kind, like)?);
        }
        Ok(Self { about, features, hidden, detectors, correctors })
    }
}

/// What a description may claim before anything is allocated for it.
fn check(about: &About) -> Result<(), String> {
    if about.format != About::FORMAT {
        return Err(format!(
            "format {}, but this version of kvtune reads format {}",
            about.format,
            About::FORMAT
        ));
    }
    let shape = about.shape;
    const MOST: usize = 1 << 24;
    let sizes = about.training.sizes;
    let widths = [sizes.rank, sizes.set_width, sizes.width, shape.hidden, shape.inputs, shape.vocab];
    if widths.iter().any(|width| !(1..=MOST).contains(width))
        || !(2..=HELD.min(shape.vocab)).contains(&shape.top_k)
    {
        return Err(format!("`shape` is {shape:?} with sizes {sizes:?}, expected widths of 1 to {MOST}"));
    }
    let clip = about.training.bounds.clip;
    if !(clip.is_finite() && clip > 0.0) {
        return Err(format!("`clip` is {clip}, expected a number above 0"));
    }
    if shape.features != Features::new(shape.top_k).width() {
        return Err(format!("{} features for the top {}, which has others", shape.features, shape.top_k));
    }
    if shape.inputs != shape.hidden * (1 + about.layers.len()) {
        return Err(format!("`inputs` is {}, expected {} a layer read", shape.inputs, shape.hidden));
    }
    Ok(())
}

struct Tables<'a> {
    tensors: SafeTensors<'a>,
    path: &'a Path,
}

impl Tables<'_> {
    /// A head, if the file has its first matrix; then it must have all of them.
    fn head<K>(&self, prefix: &str, kind: K, like: Vec<Matrix>) -> Result<Option<Head<K>>, DgapError> {
        let first = like.first().map(|matrix| format!("{prefix}.{}", matrix.name));
        if first.is_none_or(|name| self.tensors.tensor(&name).is_err()) {
            return Ok(None);
        }
        let read = |matrix: Matrix| {
            let data = self.table(&format!("{prefix}.{}", matrix.name), matrix.shape)?;
            Ok(Matrix { data, ..matrix })
        };
        let weights = like.into_iter().map(read).collect::<Result<_, DgapError>>()?;
        Ok(Some(Head { kind, weights }))
    }

    fn standard(&self, name: &str, width: usize) -> Result<Standard, DgapError> {
        let part = |part: &str| self.table(&format!("{name}.{part}"), [1, width]);
        let (mean, deviation) = (part("mean")?, part("deviation")?);
        if let Some(found) = deviation.iter().find(|deviation| **deviation <= 0.0) {
            let message = format!("`{name}.deviation` holds {found}, expected positive numbers");
            return Err(DgapError::damaged(self.path, message));
        }
        Ok(Standard { mean, deviation })
    }

    fn table(&self, name: &str, shape: [usize; 2]) -> Result<Vec<f32>, DgapError> {
        let damaged = |found: String| {
            DgapError::damaged(self.path, format!("`{name}` is {found}, expected finite F32 {shape:?}"))
        };
        let tensor = self.tensors.tensor(name).map_err(|_| damaged("missing".into()))?;
        if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
            return Err(damaged(format!("{:?} {:?}", tensor.dtype(), tensor.shape())));
        }
        let values: Vec<f32> =
            tensor.data().as_chunks().0.iter().map(|&four| f32::from_le_bytes(four)).collect();
        match values.iter().find(|value| !value.is_finite()) {
            Some(value) => Err(damaged(format!("not finite ({value})"))),
            None => Ok(values),
        }
    }
}

fn little_endian(data: &[f32]) -> Vec<u8> {
    data.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// As the digits that the Python export holds.
pub(super) fn hexadecimal(data: &[f32]) -> String {
    little_endian(data).iter().map(|byte| format!("{byte:02x}")).collect()
}
