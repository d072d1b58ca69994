use crate::cli::args::PlotArgs;
use crate::cli::output::Output;
use crate::report::plot;

pub(super) fn plot(args: &PlotArgs, output: Output) -> anyhow::Result<()> {
    let out = args.out.clone().unwrap_or_else(|| args.file.with_extension("svg"));
    plot::plot(&args.file, &out)?;
    Ok(output.data(&format!("{}\n", out.display()))?)
}
