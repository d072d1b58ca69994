//! How a long stage tells the outside what it does, and learns that it should stop.
//!
//! The library never prints; `cli` implements [`Observer`] with bars, tests with nothing.

/// Told of progress; asked whether to stop.
pub trait Observer: Sync {
    /// A stage begins; `total` steps of `unit` lie ahead.
    fn begin(&self, stage: &str, total: u64, unit: &str);

    /// So many more steps are done.
    fn advance(&self, steps: u64);

    /// Something a user should read, whatever the progress display.
    fn warn(&self, message: &str);

    /// What the stage found, in one line.
    fn end(&self, summary: &str);

    /// Whether the user asked to stop; a stage then saves what it has and returns early.
    fn interrupted(&self) -> bool {
        false
    }
}

/// Hears nothing, never stops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn begin(&self, _stage: &str, _total: u64, _unit: &str) {}
    fn advance(&self, _steps: u64) {}
    fn warn(&self, _message: &str) {}
    fn end(&self, _summary: &str) {}
}

/// `1 map`, `8 maps`: a number with a word that takes an s in the plural.
pub fn counted(number: usize, word: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {word}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "map")), ["0 maps", "1 map", "2 maps"]);
    }
}
