use super::{Session, configuration};
use crate::bench::Bench;
use crate::cli::args::{BenchArgs, MapsArgs};
use crate::cli::{memory, table};
use crate::job::stages::{self, BenchReport, BenchRequest, Configuration};

pub(super) fn bench(args: &BenchArgs, session: &Session<'_>) -> anyhow::Result<()> {
    let request = BenchRequest {
        model: args.model.clone(),
        configurations: configurations(&args.maps)?,
        cache: args.cache.into(),
        cells: args.cells.clone(),
        bench: Bench { prompt: args.prompt, steps: args.steps, rounds: args.rounds },
        beyond: args.beyond,
        weights: args.weights.weights,
    };
    let report = session.with_context(false, |context| stages::bench(&request, context))?;
    session.output.note(machine(&report));
    let text = table::render(&report.rows, "cells", args.format.format)?;
    Ok(session.output.data(&text)?)
}

/// What was typed, else three pairs that show what there is to gain.
fn configurations(maps: &MapsArgs) -> anyhow::Result<Vec<Configuration>> {
    let typed = configuration::all(maps)?;
    if !typed.is_empty() {
        return Ok(typed);
    }
    let scheme = configuration::scheme(&maps.scheme)?;
    ["KV8", "KV4", "K4V2"].iter().map(|pair| Ok(configuration::uniform(pair.parse()?, &scheme))).collect()
}

/// One line on the machine, which every figure of the table has to be read against.
fn machine(report: &BenchReport) -> String {
    let machine = report.machine;
    let peak = memory::peak().map_or(String::new(), |bytes| format!("; peak memory {:.0} MiB", mib(bytes)));
    format!(
        "{} threads; reads {:.1} GB/s, copies {:.1} GB/s, sgemm {:.0} GFLOP/s; {:.0} MiB of weights a step{peak}",
        machine.threads,
        machine.read,
        machine.copy,
        machine.sgemm,
        mib(report.weight_bytes as u64),
    )
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
