use std::path::Path;

use super::{Session, configuration, prompts};
use crate::cache::CacheKind;
use crate::cli::args::{Cache, CacheArgs, GenerateArgs, SamplingArgs};
use crate::cli::exit::UsageError;
use crate::job::stages::{self, Configuration, Continuation, Generation};
use crate::model::Sampling;

pub(super) fn generate(args: GenerateArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let many = args.prompts.is_some();
    let (cache, configuration) = cache(&args.cache)?;
    let request = Generation {
        model: args.model,
        prompts: match args.prompts {
            Some(path) => prompts::parse(&path, &prompts::read(&path)?)?,
            None => vec![prompt(args.prompt.unwrap_or_default())?],
        },
        chat: args.chat,
        max_new_tokens: args.max_new_tokens,
        weights: args.weights.weights,
        sampling: sampling(&args.sampling),
        cache,
        configuration,
        lanes: args.lanes,
        restoration: super::dgap::restoration(&args.restore),
    };
    if many { print_lines(&request, session) } else { print_text(&request, session) }
}

fn print_text(request: &Generation, session: &Session<'_>) -> anyhow::Result<()> {
    let output = session.output;
    session
        .with_context(false, |context| stages::generate(request, context, &mut |text| output.data(text)))?;
    Ok(output.data("\n")?)
}

fn print_lines(request: &Generation, session: &Session<'_>) -> anyhow::Result<()> {
    let print = &mut |continuation: &Continuation| {
        session.output.data(&format!("{}\n", serde_json::to_string(continuation)?))
    };
    session.with_context(false, |context| stages::generate_many(request, context, print))
}

/// Which cache, and how it is coded.
fn cache(args: &CacheArgs) -> anyhow::Result<(CacheKind, Configuration)> {
    let scheme = configuration::scheme(&args.scheme)?;
    let coded = match (&args.precision, args.uniform) {
        (Some(path), _) => Some(configuration::map(path, &scheme)?),
        (None, Some(pair)) => Some(configuration::uniform(pair, &scheme)),
        (None, None) => None,
    };
    let usage = |message: &str, hint: &str| UsageError { message: message.into(), hint: Some(hint.into()) };
    match (args.cache, coded) {
        (Some(Cache::Full), Some(_)) => Err(usage(
            "a full-precision cache has no precision map",
            "leave out `--cache full`, or `-p` and `--uniform`",
        )
        .into()),
        (None | Some(Cache::Full), None) => Ok((CacheKind::Full, Configuration::full())),
        (Some(Cache::Simulated | Cache::Packed), None) => {
            let hint = "name a map with `-p precision.yaml`, or a pair with `--uniform KV4`";
            Err(usage("nothing says which bits the cache shall have", hint).into())
        }
        (kind, Some(coded)) => Ok((kind.unwrap_or(Cache::Packed).into(), coded)),
    }
}

fn sampling(args: &SamplingArgs) -> Sampling {
    let &SamplingArgs { temperature, top_k, top_p, seed } = args;
    Sampling { temperature, top_k, top_p, seed }
}

fn prompt(typed: String) -> anyhow::Result<String> {
    if typed == "-" { Ok(prompts::read(Path::new("-"))?) } else { Ok(typed) }
}
