//! Counters of unrolled loops as constants.

use cubecl::prelude::*;

/// A number that is known when a kernel is compiled: what `comptime!` sees of an unrolled loop's counter.
pub(super) trait Known {
    /// The number.
    fn known(&self) -> usize;
}

impl Known for usize {
    fn known(&self) -> usize {
        *self
    }
}

impl Known for NativeExpand<usize> {
    fn known(&self) -> usize {
        self.constant().expect("the counter of an unrolled loop is a constant").as_usize()
    }
}
