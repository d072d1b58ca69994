//! Progress on standard error: bars on a terminal, a line per stage elsewhere.

use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::Global;
use super::output::Output;
use crate::progress::Observer;

/// Set by Ctrl-C; stages look at it through [`Observer::interrupted`].
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes Ctrl-C ask for a stop; a second one stops at once.
pub(super) fn catch_interrupts() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            std::process::exit(super::exit::INTERRUPTED.into());
        }
    })
}

/// Tells the user of progress.
pub(super) struct Progress {
    output: Output,
    bars: bool,
    quiet: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Progress {
    pub(super) fn new(global: &Global, output: Output) -> Self {
        let quiet = global.quiet > 0;
        let bars = io::stderr().is_terminal() && !global.no_progress && !quiet;
        Self { output, bars, quiet, bar: Mutex::new(None) }
    }

    fn with_bar<T>(&self, use_it: impl FnOnce(&mut Option<ProgressBar>) -> T) -> T {
        // A thread that panicked while it held the bar leaves nothing half-done in it.
        use_it(&mut self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Prints a line without breaking a bar that is shown.
    fn print(&self, print: impl FnOnce()) {
        self.with_bar(|bar| match bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        });
    }
}

impl Observer for Progress {
    fn begin(&self, stage: &str, total: u64, unit: &str) {
        if self.bars {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            bar.set_style(style(unit));
            bar.set_message(stage.to_owned());
            bar.enable_steady_tick(Duration::from_millis(200));
            self.with_bar(|current| *current = Some(bar));
        } else if !self.quiet {
            self.output.note(format_args!("{stage}: {total} {unit}"));
        }
    }

    fn advance(&self, steps: u64) {
        self.with_bar(|bar| {
            if let Some(bar) = bar {
                bar.inc(steps);
            }
        });
    }

    fn warn(&self, message: &str) {
        self.print(|| self.output.warning(message));
    }

    fn end(&self, summary: &str) {
        self.with_bar(|bar| {
            if let Some(bar) = bar.take() {
                bar.finish_and_clear();
            }
        });
        self.output.note(summary);
    }

    fn interrupted(&self) -> bool {
        INTERRUPTED.load(Ordering::SeqCst)
    }
}

fn style(unit: &str) -> ProgressStyle {
    let counts = if unit == "bytes" { "{bytes}/{total_bytes}" } else { "{pos}/{len} " };
    let unit = if unit == "bytes" { "" } else { unit };
    let template = format!("{{msg}} {{wide_bar}} {counts}{unit}, {{eta}} left");
    ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
