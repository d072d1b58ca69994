use std::path::Path;

use crate::cli::args::MapsArgs;
use crate::cli::exit::UsageError;
use crate::job::stages::{Configuration, ConfigurationBits};
use crate::job::{SearchSpace, default_scheme};
use crate::precision::PrecisionPair;
use crate::quant::{Scheme, SchemeName};
use crate::report::PrecisionFile;

/// The maps first, then the uniform pairs, as typed.
pub(super) fn all(typed: &MapsArgs) -> anyhow::Result<Vec<Configuration>> {
    let scheme = scheme(&typed.scheme)?;
    let maps = typed.precision.iter().map(|path| map(path, &scheme));
    maps.chain(typed.uniform.iter().map(|&pair| Ok(uniform(pair, &scheme)))).collect()
}

/// A map under the scheme that its file names, else the one that was typed.
pub(super) fn map(path: &Path, scheme: &Scheme) -> anyhow::Result<Configuration> {
    let file = PrecisionFile::read(path)?;
    let scheme = file.provenance.map_or_else(|| scheme.clone(), |provenance| provenance.scheme);
    Ok(Configuration { name: path.display().to_string(), scheme, bits: ConfigurationBits::Map(file.map) })
}

/// One pair for all layers.
pub(super) fn uniform(pair: PrecisionPair, scheme: &Scheme) -> Configuration {
    let bits = ConfigurationBits::Uniform(pair);
    Configuration { name: pair.to_string(), scheme: scheme.clone(), bits }
}

/// A scheme by its name, or of a search space file.
pub(super) fn scheme(typed: &str) -> anyhow::Result<Scheme> {
    match typed {
        "kivi" => return Ok(default_scheme(SchemeName::Kivi)),
        "per-token-asym" => return Ok(default_scheme(SchemeName::PerTokenAsym)),
        _ => {}
    }
    let path = Path::new(typed);
    let text = std::fs::read_to_string(path).map_err(|error| UsageError {
        message: format!(
            "scheme `{typed}` is neither `kivi`, `per-token-asym` nor a search space file: {error}"
        ),
        hint: None,
    })?;
    Ok(SearchSpace::parse(path, &text)?.scheme)
}
