use crate::cli::args::ReportArgs;
use crate::cli::output::Output;
use crate::report::html;

pub(super) fn report(args: &ReportArgs, output: Output) -> anyhow::Result<()> {
    let written = html::write(&args.folder, args.out.as_deref())?;
    written.gaps.iter().for_each(|gap| output.warning(gap));
    Ok(output.data(&format!("{}\n", written.path.display()))?)
}
