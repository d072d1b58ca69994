use std::fmt::{self, Write as _};
use std::path::Path;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_yaml::Value;

use crate::precision::{Bits, LayerId, PrecisionMap, PrecisionPair, StorageBits};
use crate::quant::Scheme;

use super::files::{FileError, read_text, write_text};
use super::run_record::{ModelRecord, refuse_format};

/// `precision.yaml`: a map that an engine loads, and where it comes from.
///
/// Layers are top-level integer keys, as KVTuner's published cache class reads them; all else stands under the
/// one key `kvtune`, which a file by others lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct PrecisionFile {
    /// The map.
    pub map: PrecisionMap,
    /// Where it comes from.
    pub provenance: Option<Provenance>,
}

/// What stands under `kvtune:` in a precision file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of this format.
    pub format: u32,
    /// The model that the map is for.
    pub model: ModelRecord,
    /// The scheme that it was found under.
    pub scheme: Scheme,
    /// Mean code width.
    pub equivalent_bits: f64,
    /// What memory holds, at a context.
    pub storage_bits: StorageBits,
    /// What was searched for, and what came of it.
    pub objective: ObjectiveRecord,
    /// Seed of the search.
    pub seed: u64,
    /// Version of kvtune.
    pub version: String,
}

/// The loss of a map against a full-precision cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveRecord {
    /// `flips`, `kl` or `nll`.
    pub name: String,
    /// On the search split.
    pub search: f64,
    /// On the test split, read once; absent where the map was not the chosen one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<f64>,
    /// 95 % interval of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Documents of the test split.
    pub documents: usize,
    /// Whether a split was too small for the figures to be more than a first look.
    pub exploratory: bool,
}

/// One layer, in the field's spelling.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    nbits_key: Bits,
    nbits_value: Bits,
}

impl PrecisionFile {
    /// The format that this version writes and reads.
    pub const FORMAT: u32 = 1;

    /// Writes the file.
    ///
    /// # Errors
    /// [`FileError::Write`].
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        let text = self.to_yaml().map_err(|error| FileError::content(path, "", error.to_string()))?;
        write_text(path, &text)
    }

    /// The file's text.
    ///
    /// # Errors
    /// The serializer's, for a provenance that it cannot write.
    pub fn to_yaml(&self) -> Result<String, serde_yaml::Error> {
        #[derive(Serialize)]
        struct Head<'a> {
            kvtune: &'a Provenance,
        }
        let head =
            self.provenance.as_ref().map(|kvtune| serde_yaml::to_string(&Head { kvtune })).transpose()?;
        let mut text = head.unwrap_or_default();
        for (layer, pair) in self.map.pairs().iter().enumerate() {
            let PrecisionPair { key, value } = pair;
            writeln!(text, "{layer}: {{nbits_key: {key}, nbits_value: {value}}}")
                .expect("writing to a string cannot fail");
        }
        Ok(text)
    }

    /// Reads a file of ours or of KVTuner's.
    ///
    /// # Errors
    /// [`FileError`] naming the layer: missing, given twice, or of a width that does not exist.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        Self::parse(path, &read_text(path)?)
    }

    /// Reads a text; `path` stands in messages.
    ///
    /// # Errors
    /// See [`PrecisionFile::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, FileError> {
        let wrong = |message: String| FileError::content(path, "", message);
        let Entries(fields) =
            serde_yaml::from_str(text).map_err(|error| wrong(format!("not a precision map: {error}")))?;
        let (mut head, mut layers) = (None, Vec::new());
        for (key, value) in fields {
            if key.as_str() == Some("kvtune") {
                if head.is_some() {
                    return Err(wrong(String::from("`kvtune` is listed twice, expected once")));
                }
                head = Some(provenance(path, value)?);
                continue;
            }
            let number = layer_number(&key).ok_or_else(|| wrong(unexpected_key(&key)))?;
            layers.push((number, pair(path, number, value)?));
        }
        let map = map(layers).map_err(wrong)?;
        refuse_count(path, &map, head.as_ref())?;
        Ok(Self { map, provenance: head })
    }
}

/// A mapping as it is written: with a key that stands there twice.
struct Entries(Vec<(Value, Value)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("layer numbers, each with `nbits_key` and `nbits_value`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Entries(entries))
    }
}

fn provenance(path: &Path, head: Value) -> Result<Provenance, FileError> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let wrong = |place: String, message: String| FileError::content(path, format!(", `{place}`"), message);
    let Format { format } = serde_yaml::from_value(head.clone())
        .map_err(|error| wrong(String::from("kvtune"), error.to_string()))?;
    refuse_format(path, format, PrecisionFile::FORMAT)?;
    serde_path_to_error::deserialize(head)
        .map_err(|error| wrong(format!("kvtune.{}", error.path()), error.inner().to_string()))
}

fn layer_number(key: &Value) -> Option<usize> {
    key.as_u64().and_then(|number| usize::try_from(number).ok())
}

fn unexpected_key(key: &Value) -> String {
    let key = serde_yaml::to_string(key).unwrap_or_default();
    format!("unexpected key `{}`, expected layer numbers and `kvtune`", key.trim())
}

fn pair(path: &Path, layer: usize, value: Value) -> Result<PrecisionPair, FileError> {
    if value.as_mapping().is_some_and(|fields| fields.keys().any(Value::is_u64)) {
        let message = "a pair for each head, expected one for the layer";
        return Err(FileError::content(path, format!(", {}", LayerId(layer)), message));
    }
    let Layer { nbits_key, nbits_value } = serde_path_to_error::deserialize(value).map_err(|error| {
        let field = error.path().to_string();
        let place = if field == "." { String::new() } else { format!(", `{field}`") };
        FileError::content(path, format!(", {}{place}", LayerId(layer)), error.into_inner().to_string())
    })?;
    Ok(PrecisionPair::new(nbits_key, nbits_value))
}

/// The map of the layers, if they are 0, 1, 2, … in any order.
fn map(mut layers: Vec<(usize, PrecisionPair)>) -> Result<PrecisionMap, String> {
    layers.sort_by_key(|&(number, _)| number);
    let Some(&(last, _)) = layers.last() else { return Err(String::from("no layer, expected one or more")) };
    if let Some(two) = layers.windows(2).find(|two| two[0].0 == two[1].0) {
        return Err(format!("{} is listed twice, expected once", LayerId(two[0].0)));
    }
    match layers.iter().enumerate().find(|&(expected, &(number, _))| number != expected) {
        Some((expected, _)) => {
            Err(format!("{} is missing, though there is {}", LayerId(expected), LayerId(last)))
        }
        None => Ok(PrecisionMap::new(layers.into_iter().map(|(_, pair)| pair).collect())),
    }
}

fn refuse_count(path: &Path, map: &PrecisionMap, provenance: Option<&Provenance>) -> Result<(), FileError> {
    match provenance {
        Some(Provenance { model, .. }) if model.layers != map.n_layers() => {
            let message = format!(
                "{} layers, but `kvtune.model.layers` says that `{}` has {}",
                map.n_layers(),
                model.id,
                model.layers
            );
            Err(FileError::content(path, "", message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
impl PrecisionFile {
    /// A file with that map, and a provenance that names a model by the sha256 `b179`.
    pub(in crate::report) fn made(map: &str) -> Self {
        let map = super::parse_map(map).expect("a map");
        let model = ModelRecord {
            id: String::from("smollm2-135m"),
            sha256: String::from("b179"),
            layers: map.n_layers(),
        };
        let objective = ObjectiveRecord {
            name: String::from("flips"),
            search: 0.011,
            test: Some(0.013),
            interval: Some([0.009, 0.018]),
            documents: 8,
            exploratory: true,
        };
        let provenance = Provenance {
            format: PrecisionFile::FORMAT,
            model,
            scheme: crate::job::default_scheme(crate::quant::SchemeName::Kivi),
            equivalent_bits: 4.5,
            storage_bits: StorageBits { context: 4096, bits: 5.31 },
            objective,
            seed: 0,
            version: String::from("0.1.0"),
        };
        Self { map, provenance: Some(provenance) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use serde_yaml::Mapping;

    use super::*;

    fn parse(text: &str) -> Result<PrecisionFile, FileError> {
        PrecisionFile::parse(Path::new("p.yaml"), text)
    }

    fn refused(text: &str) -> String {
        parse(text).expect_err(text).to_string()
    }

    #[test]
    fn the_layers_look_as_the_published_class_reads_them() {
        let text = PrecisionFile::made("0 K8V4, 1 K4V2").to_yaml().expect("YAML");
        assert!(text.starts_with("kvtune:\n  format: 1\n"), "{text}");
        assert!(
            text.ends_with("\n0: {nbits_key: 8, nbits_value: 4}\n1: {nbits_key: 4, nbits_value: 2}\n"),
            "{text}"
        );
        let keys: Vec<Value> = serde_yaml::from_str::<Mapping>(&text).expect("YAML").into_keys().collect();
        assert_eq!(keys, [Value::from("kvtune"), Value::from(0), Value::from(1)]);
    }

    #[test]
    fn a_file_reads_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("precision.yaml");
        PrecisionFile::made("0-2 KV16, 3-11 K8V4").write(&path).expect("written");
        assert_eq!(PrecisionFile::read(&path).expect("read"), PrecisionFile::made("0-2 KV16, 3-11 K8V4"));
    }

    #[test]
    fn a_file_of_others_needs_no_provenance() {
        let text = "1:\n  nbits_key: 4\n  nbits_value: 2\n0:\n  nbits_key: 8\n  nbits_value: 8\n";
        let file = parse(text).expect("a map");
        assert_eq!((file.map.to_string().as_str(), file.provenance), ("0 KV8, 1 K4V2", None));
    }

    #[test]
    fn what_is_no_map_is_refused_by_layer() {
        let layer = |n: usize| format!("{n}: {{nbits_key: 8, nbits_value: 4}}\n");
        assert_eq!(refused(&(layer(0) + &layer(2))), "`p.yaml`: layer 1 is missing, though there is layer 2");
        assert_eq!(
            refused(&(layer(1) + &layer(0) + &layer(1))),
            "`p.yaml`: layer 1 is listed twice, expected once"
        );
        assert_eq!(
            refused("0: {0: {nbits_key: 8, nbits_value: 4}}"),
            "`p.yaml`, layer 0: a pair for each head, expected one for the layer"
        );
        assert_eq!(
            refused("0: {nbits_key: 9, nbits_value: 4}"),
            "`p.yaml`, layer 0, `nbits_key`: `9` is not a bit width, expected one of 1, 2, 3, 4, 5, 6, 8, 16"
        );
        assert!(refused("0: {nbits_key: 8}").starts_with("`p.yaml`, layer 0: missing field `nbits_value`"));
        assert!(refused("0: {nbits_key: 8, nbits_value: 4, x: 1}").contains("unknown field `x`"));
        assert_eq!(
            refused(&(layer(0) + "layers: 4")),
            "`p.yaml`: unexpected key `layers`, expected layer numbers and `kvtune`"
        );
        assert_eq!(refused("{}"), "`p.yaml`: no layer, expected one or more");
        assert!(refused("- 1").starts_with("`p.yaml`: not a precision map"));
        assert_eq!(
            refused("kvtune: {format: 2}\n0: {nbits_key: 8, nbits_value: 4}"),
            "`p.yaml`: format 2, but this version of kvtune reads format 1"
        );
    }

    #[test]
    fn a_map_of_another_length_than_its_model_is_refused() {
        let text =
            PrecisionFile::made("0-1 KV8").to_yaml().expect("YAML") + "2: {nbits_key: 8, nbits_value: 4}\n";
        assert_eq!(
            refused(&text),
            "`p.yaml`: 3 layers, but `kvtune.model.layers` says that `smollm2-135m` has 2"
        );
    }

    proptest! {
        #[test]
        fn any_map_reads_back(widths in prop::collection::vec((0..8usize, 0..8usize), 1..40)) {
            let pairs = widths.iter().map(|&(k, v)| PrecisionPair::new(Bits::ALL[k], Bits::ALL[v])).collect();
            let file = PrecisionFile { map: PrecisionMap::new(pairs), provenance: None };
            prop_assert_eq!(parse(&file.to_yaml().expect("YAML")).expect("a map"), file);
        }

        #[test]
        fn any_text_is_answered(text in "[0-9a-z:{}\\[\\], \n-]{0,60}") {
            let _ = parse(&text);
        }
    }
}
