use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::trace::Split;

/// The generator of one document: independent of every other document's, whatever the counts of the splits.
///
/// `task` tells tasks of one seed apart. The three fit one stream number: 8 bits, 8 bits, 48 bits.
pub(super) fn document_rng(seed: u64, task: u8, split: Split, index: usize) -> ChaCha8Rng {
    let split = match split {
        Split::Search => 0,
        Split::Select => 1,
        Split::Test => 2,
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(u64::from(task) << 56 | split << 48 | index as u64);
    rng
}

/// One of `items`, which are not none.
pub(super) fn pick<'a, T: ?Sized>(rng: &mut ChaCha8Rng, items: &[&'a T]) -> &'a T {
    items[rng.random_range(0..items.len())]
}
