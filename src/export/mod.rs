//! Precision maps in the spelling of inference engines.
//!
//! Each engine is one `Exporter` in a file of its own. What it cannot say it names: either the nearest thing that
//! it can say, with that map in [`Export::approximation`], or an [`ExportError`]. Knows maps and schemes, no model.
//! Numbers of an engine's codes are its own: only `hf` codes as this crate does; `kvtuner` takes the same widths.

mod exllamav3;
mod hf;
mod ik_llama;
mod kvtuner;
mod llama_cpp;
mod lmdeploy;
mod mlx;
mod modelopt;
mod sglang;
mod tensorrt_llm;
mod uniform;
mod vllm;

use std::fmt;
use std::str::FromStr;

use crate::precision::{LayerId, PrecisionMap};
use crate::quant::Scheme;
use crate::report::Provenance;

/// One engine's spelling.
trait Exporter {
    /// The map as the engine takes it.
    fn export(&self, map: &PrecisionMap, scheme: &Scheme) -> Result<Export, ExportError>;
}

/// A map in an engine's spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// What goes into a file, or onto a command line.
    pub text: String,
    /// What is said exactly.
    pub exact: Vec<String>,
    /// What is lost.
    pub lost: Vec<String>,
    /// The widths that the engine will really use, where they are not the map's.
    pub approximation: Option<PrecisionMap>,
}

/// Why a map cannot be written for an engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// No such engine.
    #[error("`{found}` is not an engine, expected one of {}", names())]
    Engine {
        /// What was asked for.
        found: String,
    },
    /// A layer that the engine has no word for.
    #[error("`{engine}` cannot say {found} of {layer}, expected {expected}")]
    Layer {
        /// The engine.
        engine: Engine,
        /// The first such layer.
        layer: LayerId,
        /// What the map gives it.
        found: String,
        /// What the engine can say.
        expected: &'static str,
    },
    /// Layers that the engine has no word for.
    #[error("`{engine}` cannot say this map, expected {expected} in every layer: {layers}")]
    Layers {
        /// The engine.
        engine: Engine,
        /// What the engine can say.
        expected: &'static str,
        /// The layers that have something else, with what they have.
        layers: String,
    },
    /// An option of the scheme that the export does not know.
    #[error("`{engine}` has no `{option}`")]
    Option {
        /// The engine.
        engine: Engine,
        /// The option, as the scheme spells it.
        option: &'static str,
    },
}

impl ExportError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Engine { .. } => None,
            Self::Layer { .. } | Self::Layers { .. } => {
                Some("search among pairs that it can say, with `search_space.pairs`".into())
            }
            Self::Option { .. } => Some("calibrate under a scheme without that option".into()),
        }
    }
}

/// The engines that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// KVTuner's published cache class.
    Kvtuner,
    /// transformers, with a cache class that is written along.
    Hf,
    /// llama.cpp.
    LlamaCpp,
    /// ik_llama.cpp.
    IkLlama,
    /// vLLM's command line.
    Vllm,
    /// ModelOpt's layer map, which vLLM is about to read.
    Modelopt,
    /// TensorRT-LLM.
    TensorrtLlm,
    /// SGLang.
    Sglang,
    /// LMDeploy.
    Lmdeploy,
    /// MLX-LM.
    Mlx,
    /// ExLlamaV3.
    Exllamav3,
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Kvtuner,
        Self::Hf,
        Self::LlamaCpp,
        Self::IkLlama,
        Self::Vllm,
        Self::Modelopt,
        Self::TensorrtLlm,
        Self::Sglang,
        Self::Lmdeploy,
        Self::Mlx,
        Self::Exllamav3,
    ];

    /// As the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvtuner => "kvtuner",
            Self::Hf => "hf",
            Self::LlamaCpp => "llama.cpp",
            Self::IkLlama => "ik-llama",
            Self::Vllm => "vllm",
            Self::Modelopt => "modelopt",
            Self::TensorrtLlm => "tensorrt-llm",
            Self::Sglang => "sglang",
            Self::Lmdeploy => "lmdeploy",
            Self::Mlx => "mlx",
            Self::Exllamav3 => "exllamav3",
        }
    }

    /// The map in this engine's spelling; `scheme` is the one that it was found under.
    ///
    /// # Errors
    /// [`ExportError`] where not even the nearest thing can be said.
    pub fn export(self, map: &PrecisionMap, scheme: &Scheme) -> Result<Export, ExportError> {
        self.exporter().export(map, scheme)
    }

    /// The text with a line on top that says where its map comes from, where the spelling has comments.
    pub fn stamp(self, text: &str, origin: &Provenance) -> String {
        let Provenance { format, model, seed, version, .. } = origin;
        match self {
            Self::Kvtuner | Self::Hf | Self::TensorrtLlm => format!(
                "# kvtune {version}, format {format}, model {} (sha256 {}), seed {seed}\n{text}",
                model.id.escape_default(),
                model.sha256.escape_default()
            ),
            _ => text.to_owned(),
        }
    }

    fn exporter(self) -> &'static dyn Exporter {
        match self {
            Self::Kvtuner => &kvtuner::Kvtuner,
            Self::Hf => &hf::Hf,
            Self::LlamaCpp => &llama_cpp::LlamaCpp,
            Self::IkLlama => &ik_llama::IkLlama,
            Self::Vllm => &vllm::Vllm,
            Self::Modelopt => &modelopt::Modelopt,
            Self::TensorrtLlm => &tensorrt_llm::TensorrtLlm,
            Self::Sglang => &sglang::Sglang,
            Self::Lmdeploy => &lmdeploy::Lmdeploy,
            Self::Mlx => &mlx::Mlx,
            Self::Exllamav3 => &exllamav3::Exllamav3,
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Engine {
    type Err = ExportError;

    fn from_str(text: &str) -> Result<Self, ExportError> {
        let found = Self::ALL.into_iter().find(|engine| engine.name() == text);
        found.ok_or_else(|| ExportError::Engine { found: text.to_owned() })
    }
}

fn names() -> String {
    Engine::ALL.map(Engine::name).join(", ")
}

#[cfg(test)]
mod tests;
