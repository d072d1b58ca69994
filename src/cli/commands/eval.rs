use super::{Session, configuration};
use crate::cli::args::{EvalArgs, MapsArgs};
use crate::cli::exit::UsageError;
use crate::cli::table;
use crate::job::stages::{self, Configuration, Evaluation};

pub(super) fn eval(args: &EvalArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let request = Evaluation {
        model: args.model.clone(),
        text: args.text.clone(),
        window: args.window,
        windows: args.windows,
        cache: args.cache.into(),
        configurations: compared(&args.maps)?,
        restoration: super::dgap::restoration(&args.restore),
    };
    let rows = session.with_context(false, |context| stages::evaluate(&request, context))?;
    Ok(session.output.data(&table::render(&rows, "configurations", args.format.format)?)?)
}

fn compared(maps: &MapsArgs) -> anyhow::Result<Vec<Configuration>> {
    let typed = configuration::all(maps)?;
    if !typed.is_empty() {
        return Ok(typed);
    }
    Err(UsageError {
        message: String::from("nothing to compare"),
        hint: Some(String::from("name a map with `-p precision.yaml`, or pairs with `--uniform KV8,KV4`")),
    }
    .into())
}
