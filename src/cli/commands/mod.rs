//! One function per command: arguments in, calls into the library, printing out.

mod analyze;
mod bench;
mod check;
mod configuration;
mod dgap;
mod eval;
mod exchange;
mod generate;
mod job;
mod model;
mod plot;
mod prompts;
mod report;

use clap::CommandFactory;

use super::args::{Cli, Command, CompletionsArgs, Global};
use super::env;
use super::memory;
use super::output::Output;
use super::progress::{Progress, catch_interrupts};
use crate::job::stages::{Context, Stage};

pub(super) fn run(command: Command, global: &Global, output: Output) -> anyhow::Result<()> {
    let session = Session { global, output };
    match command {
        Command::Calibrate(args) => job::calibrate(&args, &session),
        Command::Trace(args) => job::stage(Stage::Trace, &args, &session),
        Command::Sensitivity(args) => job::stage(Stage::Sensitivity, &args, &session),
        Command::Space(args) => job::stage(Stage::Space, &args, &session),
        Command::Search(args) => job::stage(Stage::Search, &args, &session),
        Command::Select(args) => job::stage(Stage::Select, &args, &session),
        Command::Dgap(command) => dgap::run(&command, &session),
        Command::Analyze(args) => analyze::analyze(&args, &session),
        Command::Plot(args) => plot::plot(&args, output),
        Command::Report(args) => report::report(&args, output),
        Command::Model(command) => model::run(&command, &session),
        Command::Generate(args) => generate::generate(args, &session),
        Command::Eval(args) => eval::eval(&args, &session),
        Command::Bench(args) => bench::bench(&args, &session),
        Command::Export(args) => exchange::export(&args, &session),
        Command::Import(args) => exchange::import(&args, output),
        Command::Check(args) => check::check(&args, &session),
        Command::Completions(args) => completions(&args, output),
    }
}

/// What every command that does work needs.
struct Session<'a> {
    global: &'a Global,
    output: Output,
}

impl Session<'_> {
    /// Calls `work` with Ctrl-C caught, the thread pool set up and progress shown.
    fn with_context<T, E>(
        &self,
        force: bool,
        work: impl FnOnce(&Context<'_>) -> Result<T, E>,
    ) -> anyhow::Result<T>
    where
        anyhow::Error: From<E>,
    {
        catch_interrupts()?;
        let threads = self.threads()?;
        let progress = Progress::new(self.global, self.output);
        let context = Context {
            observer: &progress,
            registry: env::registry(self.global.offline),
            device: self.global.device,
            stream_weights: self.global.stream_weights,
            force,
            threads,
            available_memory: memory::free(),
            command: env::command_line(),
        };
        Ok(work(&context)?)
    }

    /// Sizes the thread pool and says how many threads it has.
    fn threads(&self) -> anyhow::Result<usize> {
        // This thread is one of the pool's: another one would wake them for each of a token's small products, and
        // sleep meanwhile.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.global.threads).use_current_thread();
        pool.build_global()?;
        Ok(rayon::current_num_threads())
    }
}

fn completions(args: &CompletionsArgs, output: Output) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "kvtune", &mut script);
    Ok(output.data(&String::from_utf8(script)?)?)
}
