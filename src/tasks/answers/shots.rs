use std::path::Path;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::AnswerError;

/// `shots` of a file's examples, drawn by the seed: the same ones before every item, so that they can be shared.
pub(super) fn drawn<T>(
    mut examples: Vec<T>,
    (path, shots): (&Path, usize),
    seed: u64,
) -> Result<Vec<T>, AnswerError> {
    examples.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    first(examples, (path, shots))
}

/// The first `shots` of a file's examples, for sets that publish a few of them for that use.
pub(super) fn first<T>(mut examples: Vec<T>, (path, shots): (&Path, usize)) -> Result<Vec<T>, AnswerError> {
    if examples.len() < shots {
        return Err(AnswerError::Examples { path: path.to_owned(), found: examples.len(), expected: shots });
    }
    examples.truncate(shots);
    Ok(examples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_which_are_drawn() {
        let draw = |seed| drawn((0..100).collect(), (Path::new("t"), 5), seed).expect("enough");
        assert_eq!(draw(0), draw(0));
        assert_ne!(draw(0), draw(1));
        assert_eq!(draw(0).len(), 5);
    }

    #[test]
    fn fewer_than_asked_is_an_error_with_both_numbers() {
        let error = first(vec![1, 2], (Path::new("t.jsonl"), 3)).expect_err("two are not three");
        assert_eq!(error.to_string(), "`t.jsonl` has 2 worked examples, but `--shots` asks for 3");
    }
}
