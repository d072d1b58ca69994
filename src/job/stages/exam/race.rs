//! Who has fallen behind for sure.

use crate::select::mcnemar;

/// How often a map may be stopped that is not worse, over all looks together.
const ERROR: f64 = 0.05;

/// Whether a map scores worse than a rival on the questions that it has answered, beyond chance.
///
/// One-sided exact test of McNemar on the questions where the two differ (of graded scores the sign test), each of the
/// race's looks at its share of 5 % (Bonferroni), so that looking after every block is allowed. **Ours.**
pub(super) fn is_behind(scores: &[f64], rival: &[f64], looks: usize) -> bool {
    let both = || scores.iter().zip(rival);
    let gained = both().filter(|(score, rival)| score > rival).count();
    let lost = both().filter(|(score, rival)| score < rival).count();
    lost > gained && mcnemar(gained, lost) / 2.0 <= ERROR / looks.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(lost: usize, gained: usize, looks: usize) -> bool {
        let scores = [vec![0.0; lost], vec![1.0; gained], vec![1.0; 5]].concat();
        let rival = [vec![1.0; lost], vec![0.0; gained], vec![1.0; 5]].concat();
        is_behind(&scores, &rival, looks)
    }

    #[test]
    fn a_map_stops_where_chance_would_not_do_the_same_at_any_look() {
        // 1/32 of 5 %: enough for one look, not for two. 1/64 is enough for three, 1/128 for six.
        assert!(behind(5, 0, 1) && !behind(5, 0, 2));
        assert!(behind(6, 0, 3) && !behind(6, 0, 4));
        assert!(behind(7, 0, 6));
        // 9 of 256 with one gain among eight changes.
        assert!(behind(7, 1, 1) && !behind(7, 1, 2));
    }

    #[test]
    fn a_map_that_is_ahead_or_alike_never_stops() {
        assert!(!behind(0, 20, 1) && !behind(0, 0, 1) && !behind(20, 20, 1));
    }
}
