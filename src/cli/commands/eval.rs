use std::path::Path;

use super::Session;
use crate::cli::args::EvalArgs;
use crate::cli::exit::UsageError;
use crate::cli::table;
use crate::job::stages::{self, Configuration, ConfigurationBits, Evaluation};
use crate::job::{SearchSpace, default_scheme};
use crate::quant::{Scheme, SchemeName};
use crate::report::PrecisionFile;

pub(super) fn eval(args: &EvalArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let request = Evaluation {
        model: args.model.clone(),
        weights: args.weights.weights,
        text: args.text.clone(),
        window: args.window,
        windows: args.windows,
        configurations: configurations(args)?,
    };
    let rows = session.with_context(false, |context| stages::evaluate(&request, context))?;
    Ok(session.output.data(&table::render(&rows, "configurations", args.format.format)?)?)
}

/// The maps first, then the uniform pairs, as typed.
fn configurations(args: &EvalArgs) -> anyhow::Result<Vec<Configuration>> {
    if args.precision.is_empty() && args.uniform.is_empty() {
        return Err(UsageError {
            message: String::from("nothing to compare"),
            hint: Some(String::from(
                "name a map with `-p precision.yaml`, or pairs with `--uniform KV8,KV4`",
            )),
        }
        .into());
    }
    let scheme = scheme(&args.scheme)?;
    let maps = args.precision.iter().map(|path| map(path, &scheme));
    let uniform = args.uniform.iter().map(|&pair| {
        let bits = ConfigurationBits::Uniform(pair);
        Ok(Configuration { name: pair.to_string(), scheme: scheme.clone(), bits })
    });
    maps.chain(uniform).collect()
}

/// A map under the scheme that its file names, else the one that was typed.
fn map(path: &Path, scheme: &Scheme) -> anyhow::Result<Configuration> {
    let file = PrecisionFile::read(path)?;
    let scheme = file.provenance.map_or_else(|| scheme.clone(), |provenance| provenance.scheme);
    Ok(Configuration { name: path.display().to_string(), scheme, bits: ConfigurationBits::Map(file.map) })
}

fn scheme(typed: &str) -> anyhow::Result<Scheme> {
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
