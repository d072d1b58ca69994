//! What a model can run on in this build.

use std::fmt;
use std::str::FromStr;

/// A device that this build can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The processor, through flex.
    #[cfg(feature = "flex")]
    Cpu,
    /// The first NVIDIA GPU.
    #[cfg(feature = "cuda")]
    Cuda,
}

/// A device that this build does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "device `{found}` is not in this build, which has {KNOWN}\n\nhint: build with `--features cuda` for NVIDIA GPUs"
)]
pub struct UnknownDevice {
    found: String,
}

const KNOWN: &str = match (cfg!(feature = "flex"), cfg!(feature = "cuda")) {
    (true, true) => "`cpu` and `cuda`",
    (true, false) => "`cpu`",
    (false, true) => "`cuda`",
    (false, false) => "none",
};

impl FromStr for Device {
    type Err = UnknownDevice;

    fn from_str(text: &str) -> Result<Self, UnknownDevice> {
        match text {
            #[cfg(feature = "flex")]
            "cpu" => Ok(Self::Cpu),
            #[cfg(feature = "cuda")]
            "cuda" => Ok(Self::Cuda),
            found => Err(UnknownDevice { found: found.to_owned() }),
        }
    }
}

impl Device {
    /// Whether its memory is the machine's own.
    pub fn shares_memory(self) -> bool {
        match self {
            #[cfg(feature = "flex")]
            Self::Cpu => true,
            #[cfg(feature = "cuda")]
            Self::Cuda => false,
        }
    }

    fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "flex")]
            Self::Cpu => "cpu",
            #[cfg(feature = "cuda")]
            Self::Cuda => "cuda",
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Calls a function that is generic over the backend with the backend of a device.
#[cfg(any(feature = "flex", feature = "cuda"))]
macro_rules! on_device {
    ($device:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $device {
            #[cfg(feature = "flex")]
            $crate::model::Device::Cpu => $function::<burn_flex::Flex>($($argument),*),
            #[cfg(feature = "cuda")]
            $crate::model::Device::Cuda => $function::<burn::backend::Cuda>($($argument),*),
        }
    };
}
#[cfg(any(feature = "flex", feature = "cuda"))]
pub(crate) use on_device;
