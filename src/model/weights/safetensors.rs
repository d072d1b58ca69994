//! A directory of safetensors files: one, or shards with an index.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use kvtune_kernels::mmap::Mapped;
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use super::WeightType;
use super::element::{Element, Weight, not_finite, refuse};
use crate::model::{ModelError, TensorProblem};

/// Mapped files and where each tensor lies.
#[derive(Debug)]
pub(super) struct Shards {
    shards: Vec<Shard>,
    /// Tensor name → place in `shards`.
    places: HashMap<String, usize>,
}

#[derive(Debug)]
struct Shard {
    path: PathBuf,
    bytes: Mapped,
    header: Metadata,
    /// Where tensor data begins.
    data: usize,
}

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: Unique<String>,
}

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

impl Shards {
    /// Opens `model.safetensors`, or the shards that `model.safetensors.index.json` lists.
    pub(super) fn open(directory: &Path) -> Result<Self, ModelError> {
        if directory.join(SINGLE).is_file() {
            return Self::collect(vec![Shard::open(directory.join(SINGLE))?]);
        }
        let index_path = directory.join(INDEX);
        if !index_path.is_file() {
            let expected = format!("`{SINGLE}`, or shards and `{INDEX}`");
            return Err(ModelError::file(directory, "holds no weights", expected));
        }
        Self::open_index(directory, &index_path)
    }

    fn open_index(directory: &Path, index_path: &Path) -> Result<Self, ModelError> {
        let bytes = std::fs::read(index_path).map_err(ModelError::read(index_path))?;
        let index: Index = serde_json::from_slice(&bytes).map_err(|error| {
            ModelError::file(index_path, format!("does not parse: {error}"), "an index of shards")
        })?;
        let mut files: Vec<&String> = index.weight_map.0.values().collect();
        files.sort_unstable();
        files.dedup();
        let open = |file: &&String| {
            let path = directory.join(file.as_str());
            // Only plain names: an index must not reach out of its directory.
            let inside = Path::new(file.as_str()).file_name().is_some_and(|name| name == file.as_str());
            if inside && path.is_file() {
                Shard::open(path)
            } else {
                let found = format!("`{file}`, which is not there");
                Err(ModelError::key(index_path, "weight_map", found, "files that lie beside the index"))
            }
        };
        let shards = Self::collect(files.iter().map(open).collect::<Result<_, _>>()?)?;
        for (name, file) in &index.weight_map.0 {
            if shards.place(name).is_none_or(|shard| shard.path != directory.join(file)) {
                return Err(ModelError::tensor(&directory.join(file), name, TensorProblem::Missing));
            }
        }
        Ok(shards)
    }

    fn collect(shards: Vec<Shard>) -> Result<Self, ModelError> {
        let mut places = HashMap::new();
        for (place, shard) in shards.iter().enumerate() {
            for name in shard.header.offset_keys() {
                if places.contains_key(&name) {
                    return Err(ModelError::tensor(&shard.path, &name, TensorProblem::Duplicate));
                }
                places.insert(name, place);
            }
        }
        Ok(Self { shards, places })
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.shards.iter().map(|shard| shard.path.as_path())
    }

    /// Appends a tensor to `out`; `false` where no file has it.
    pub(super) fn append<W: Weight>(
        &self,
        name: &str,
        shape: &[usize],
        out: &mut Vec<W>,
    ) -> Result<bool, ModelError> {
        let Some(shard) = self.place(name) else { return Ok(false) };
        let wrong = |problem| ModelError::tensor(&shard.path, name, problem);
        shard.append(name, shape, out).map(|()| true).map_err(wrong)
    }

    /// Whether a tensor of this shape is there; `false` where no file has the name.
    pub(super) fn check(&self, name: &str, shape: &[usize]) -> Result<bool, ModelError> {
        let Some(shard) = self.place(name) else { return Ok(false) };
        let wrong = |problem| ModelError::tensor(&shard.path, name, problem);
        shard.find(name, shape).map(|_| true).map_err(wrong)
    }

    /// The type that a tensor is stored in, if that is one that weights are held in.
    pub(super) fn stored(&self, name: &str) -> Option<WeightType> {
        match self.place(name)?.header.info(name)?.dtype {
            Dtype::F32 => Some(WeightType::F32),
            Dtype::F16 => Some(WeightType::F16),
            Dtype::BF16 => Some(WeightType::Bf16),
            _ => None,
        }
    }

    fn place(&self, name: &str) -> Option<&Shard> {
        self.places.get(name).map(|&place| &self.shards[place])
    }
}

impl Shard {
    fn open(path: PathBuf) -> Result<Self, ModelError> {
        let bytes = Mapped::open(&path).map_err(ModelError::read(&path))?;
        let wrong = |what: String| {
            let found = format!("of {} bytes has {what}", bytes.len());
            ModelError::file(&path, found, "a safetensors file whose header covers it exactly")
        };
        // The reader checks the header's length and every tensor's range against the file.
        let (length, header) =
            SafeTensors::read_metadata(&bytes).map_err(|error| wrong(error.to_string()))?;
        let data = length + size_of::<u64>();
        // A JSON map with a name twice would keep the last one only.
        serde_json::from_slice::<Unique<IgnoredAny>>(&bytes[size_of::<u64>()..data])
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Self { path, bytes, header, data })
    }

    fn append<W: Weight>(&self, name: &str, shape: &[usize], out: &mut Vec<W>) -> Result<(), TensorProblem> {
        let (element, bytes) = self.find(name, shape)?;
        let start = out.len();
        element.decode(bytes, out);
        let Some(index) = not_finite(&out[start..]) else { return Ok(()) };
        let mut wide: Vec<f32> = Vec::new();
        element.decode(bytes, &mut wide);
        Err(refuse::<W>(index, wide[index]))
    }

    /// Format and bytes of a tensor.
    fn find(&self, name: &str, shape: &[usize]) -> Result<(Element, &[u8]), TensorProblem> {
        let TensorInfo { dtype, shape: found, data_offsets: (start, end) } =
            self.header.info(name).ok_or(TensorProblem::Missing)?;
        let element = match dtype {
            Dtype::F32 => Element::F32,
            Dtype::F16 => Element::F16,
            Dtype::BF16 => Element::Bf16,
            other => return Err(TensorProblem::Dtype { found: format!("{other:?}") }),
        };
        if found != shape {
            return Err(TensorProblem::Shape { found: found.clone(), expected: shape.to_vec() });
        }
        let out_of_file =
            || TensorProblem::OutOfFile { end: (self.data + end).to_string(), file: self.bytes.len() };
        let bytes = self.bytes.get(self.data + start..self.data + end).ok_or_else(out_of_file)?;
        Ok((element, bytes))
    }
}

/// A JSON map that must not hold a key twice.
struct Unique<V>(HashMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Unique<V> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Keys<V> {
            type Value = Unique<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map with each key once")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique<V>, A::Error> {
                let mut unique = HashMap::new();
                while let Some((key, value)) = map.next_entry::<String, V>()? {
                    if unique.contains_key(&key) {
                        return Err(serde::de::Error::custom(format!("key `{key}` twice")));
                    }
                    unique.insert(key, value);
                }
                Ok(Unique(unique))
            }
        }
        deserializer.deserialize_map(Keys(PhantomData))
    }
}
