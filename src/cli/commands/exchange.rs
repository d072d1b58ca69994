use std::path::Path;

use super::check::{scored, texts};
use super::{Session, configuration};
use crate::cli::args::{ExportArgs, ImportArgs};
use crate::cli::output::Output;
use crate::cli::places;
use crate::export::Export;
use crate::job::stages::{CheckRequest, Configuration, ConfigurationBits};
use crate::report::{PrecisionFile, write_text};
use crate::score::Objective;

pub(super) fn export(args: &ExportArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let output = session.output;
    if let Some(out) = &args.out {
        places::check("`--out`", out, &[&args.precision])?;
    }
    let file = PrecisionFile::read(&args.precision)?;
    let scheme = match &file.provenance {
        Some(provenance) => provenance.scheme.clone(),
        None => configuration::scheme(&args.scheme)?,
    };
    let export = args.to.export(&file.map, &scheme)?;
    say(&export, output);
    if args.score {
        let chosen = Configuration {
            name: args.precision.display().to_string(),
            scheme,
            bits: ConfigurationBits::Map(file.map.clone()),
        };
        score(args, &export, chosen, session)?;
    }
    let text = match &file.provenance {
        Some(origin) => args.to.stamp(&export.text, origin),
        None => export.text.clone(),
    };
    hand_over(&text, args.out.as_deref(), output)
}

fn say(export: &Export, output: Output) {
    export.exact.iter().for_each(|line| output.note(format_args!("exact: {line}")));
    export.lost.iter().for_each(|line| output.warning(line));
}

/// The map that the engine can say, held to the chosen one on the same texts.
fn score(
    args: &ExportArgs,
    export: &Export,
    chosen: Configuration,
    session: &Session<'_>,
) -> anyhow::Result<()> {
    let output = session.output;
    let (Some(given), Some(model)) = (&export.approximation, &args.model) else {
        output.note("nothing to score: the engine can say the widths of this map");
        return Ok(());
    };
    let approximation = Configuration {
        name: format!("as {} can say it", args.to),
        bits: ConfigurationBits::Map(given.clone()),
        ..chosen.clone()
    };
    let request = CheckRequest {
        model: model.clone(),
        configurations: vec![chosen, approximation],
        texts: texts(&args.texts, &args.precision)?.0,
        objective: Objective::Kl,
        seed: 0,
    };
    let result = scored(&request, session)?;
    for (configuration, loss) in request.configurations.iter().zip(&result.losses) {
        output.note(format_args!(
            "{}: KL {:.4} nats a token, 95 % [{:.4}, {:.4}]",
            configuration.name, loss.mean, loss.low, loss.high
        ));
    }
    for more in &result.more {
        output.note(format_args!(
            "difference on the same {} documents: {:+.4} [{:+.4}, {:+.4}], by this map's widths under the chosen scheme",
            more.documents, more.mean, more.low, more.high
        ));
    }
    Ok(())
}

pub(super) fn import(args: &ImportArgs, output: Output) -> anyhow::Result<()> {
    let file = PrecisionFile::read(&args.file)?;
    let bits = file.map.pairs().iter().map(|pair| pair.mean_bits()).sum::<f64>() / file.map.n_layers() as f64;
    output.note(format_args!("{} layers, {bits:.4} equivalent bits: {}", file.map.n_layers(), file.map));
    hand_over(&file.to_yaml()?, args.out.as_deref(), output)
}

/// Into a file, whose name is then printed, or to standard output.
fn hand_over(text: &str, out: Option<&Path>, output: Output) -> anyhow::Result<()> {
    match out {
        None => Ok(output.data(text)?),
        Some(path) => {
            write_text(path, text)?;
            Ok(output.data(&format!("{}\n", path.display()))?)
        }
    }
}
