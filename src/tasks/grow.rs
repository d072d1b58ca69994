use std::ops::RangeInclusive;

/// The smallest number of units, in `range`, whose text counts at least `min_tokens`; else the last count.
///
/// Gallops and bisects, so that a long text is tokenized a few dozen times and not once per unit. Takes for
/// granted that more units do not count fewer tokens; where a tokenizer breaks that by a token or two, the
/// answer still reaches the length, only perhaps not with the fewest units.
pub(super) fn smallest_reaching(
    min_tokens: usize,
    range: RangeInclusive<usize>,
    mut tokens_of: impl FnMut(usize) -> usize,
) -> Result<usize, usize> {
    let (start, most) = range.into_inner();
    let (mut low, mut high) = (start, start);
    let mut step = 1;
    loop {
        let found = tokens_of(high);
        if found >= min_tokens {
            break;
        }
        if high >= most {
            return Err(found);
        }
        low = high;
        high = (high + step).min(most);
        step *= 2;
    }
    // `high` reaches; `low` does not, unless the two are equal.
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if tokens_of(middle) >= min_tokens {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(high)
}

/// From `start` units to where even two tokens a unit would have reached the length: every generated unit has
/// more.
pub(super) fn units_from(start: usize, min_tokens: usize) -> RangeInclusive<usize> {
    start..=start + min_tokens / 2 + 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_count_is_found_from_any_start() {
        for min_tokens in 0_usize..200 {
            for start in 0..10 {
                let expected = min_tokens.div_ceil(7).max(start);
                assert_eq!(smallest_reaching(min_tokens, start..=300, |n| 7 * n), Ok(expected));
            }
        }
    }

    #[test]
    fn few_texts_are_counted() {
        let mut calls = 0;
        let found = smallest_reaching(1_000_000, units_from(0, 1_000_000), |n| {
            calls += 1;
            10 * n
        });
        assert_eq!(found, Ok(100_000));
        assert!(calls < 40, "{calls} texts were tokenized");
    }

    #[test]
    fn growth_without_effect_ends() {
        assert_eq!(smallest_reaching(1000, units_from(3, 1000), |_| 5), Err(5));
    }
}
