use serde::Serialize;

use super::Session;
use crate::cli::args::{FormatArgs, ModelCommand, PullArgs};
use crate::cli::table;
use crate::model::{KNOWN_MODELS, KnownModel, Source};

pub(super) fn run(command: &ModelCommand, session: &Session<'_>) -> anyhow::Result<()> {
    match command {
        ModelCommand::List(args) => list(args, session),
        ModelCommand::Pull(args) => pull(args, session),
    }
}

/// One known model, as it is printed.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    about: &'static str,
    source: &'static str,
    license: &'static str,
    bytes: u64,
    /// Empty for a hub repository, whose commit names its content.
    sha256: &'static str,
}

impl From<&KnownModel> for Row {
    fn from(model: &KnownModel) -> Self {
        let (source, sha256) = match model.source {
            Source::Package { requirement, sha256 } => (requirement, sha256),
            Source::Hub { id } => (id, ""),
        };
        Self {
            name: model.name,
            about: model.about,
            source,
            license: model.license,
            bytes: model.bytes,
            sha256,
        }
    }
}

fn list(args: &FormatArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let rows: Vec<Row> = KNOWN_MODELS.iter().map(Row::from).collect();
    Ok(session.output.data(&table::render(&rows, "models", args.format)?)?)
}

fn pull(args: &PullArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let resolved =
        session.with_context(false, |context| context.registry.resolve(&args.name, context.observer))?;
    Ok(session.output.data(&format!("{}\n", resolved.path.display()))?)
}
