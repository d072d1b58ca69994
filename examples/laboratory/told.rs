//! Progress on standard error.

use std::sync::Mutex;
use std::time::Instant;

use kvtune::progress::Observer;

/// Says every tenth of a stage.
#[derive(Default)]
pub(crate) struct Told(Mutex<Option<Stage>>);

struct Stage {
    name: String,
    total: u64,
    done: u64,
    started: Instant,
}

impl Stage {
    fn tenth(&self) -> u64 {
        10 * self.done / self.total.max(1)
    }
}

impl Told {
    fn with(&self, work: impl FnOnce(&mut Option<Stage>)) {
        // A poisoned lock would only spoil what is printed.
        work(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

impl Observer for Told {
    fn begin(&self, stage: &str, total: u64, unit: &str) {
        eprintln!("{stage}: {total} {unit}");
        let started = Instant::now();
        self.with(|at| *at = Some(Stage { name: stage.to_owned(), total, done: 0, started }));
    }

    fn advance(&self, steps: u64) {
        self.with(|at| {
            let Some(stage) = at else { return };
            let before = stage.tenth();
            stage.done += steps;
            if stage.tenth() > before {
                let Stage { name, total, done, started } = stage;
                eprintln!("{name}: {done} of {total}, {:.0} s", started.elapsed().as_secs_f64());
            }
        });
    }

    fn warn(&self, message: &str) {
        eprintln!("warning: {message}");
    }

    fn end(&self, summary: &str) {
        eprintln!("{summary}");
        self.with(|at| *at = None);
    }
}
