//! When a token stops being exact.

/// How the exact residual moves as tokens arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freeze {
    /// Whole blocks of the residual's length freeze at once: keys.
    Block,
    /// The newest tokens are exact: values.
    Window,
}

/// With `n` tokens cached, how many leading ones a reader takes as they were frozen; at most `n`.
///
/// The first `sinks` of those are exact and counting starts after them, so tokens `sinks..frozen_tokens(…)` are
/// held as codes. With residual 0 every token is coded as it is written. Never shrinks as `n` grows.
///
/// Source: KIVI (Liu et al. 2024, arXiv:2402.02750) for both kinds; sinks as in the literature on streaming.
pub fn frozen_tokens(n: usize, residual: usize, kind: Freeze, sinks: usize) -> usize {
    let rest = n.saturating_sub(sinks);
    let frozen = match kind {
        _ if residual == 0 => rest,
        Freeze::Block => rest / residual * residual,
        Freeze::Window => rest.saturating_sub(residual),
    };
    n.min(sinks) + frozen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_residual_every_token_is_frozen() {
        assert_eq!([0, 1, 7].map(|n| frozen_tokens(n, 0, Freeze::Block, 0)), [0, 1, 7]);
        assert_eq!([0, 1, 7].map(|n| frozen_tokens(n, 0, Freeze::Window, 0)), [0, 1, 7]);
    }

    #[test]
    fn blocks_freeze_whole_and_a_window_slides() {
        let at = [0, 31, 32, 63, 64, 65];
        assert_eq!(at.map(|n| frozen_tokens(n, 32, Freeze::Block, 0)), [0, 0, 32, 32, 64, 64]);
        assert_eq!(at.map(|n| frozen_tokens(n, 32, Freeze::Window, 0)), [0, 0, 0, 31, 32, 33]);
    }

    #[test]
    fn counting_starts_after_the_sinks() {
        let at = [0, 2, 3, 34, 35, 67];
        assert_eq!(at.map(|n| frozen_tokens(n, 32, Freeze::Block, 3)), [0, 2, 3, 3, 35, 67]);
        assert_eq!(at.map(|n| frozen_tokens(n, 32, Freeze::Window, 3)), [0, 2, 3, 3, 3, 35]);
    }

    #[test]
    fn nothing_thaws() {
        for kind in [Freeze::Block, Freeze::Window] {
            for (residual, sinks) in [(0, 0), (5, 0), (4, 3), (0, 2)] {
                let frozen: Vec<usize> = (0..40).map(|n| frozen_tokens(n, residual, kind, sinks)).collect();
                assert!(frozen.is_sorted() && frozen.iter().enumerate().all(|(n, &f)| f <= n));
            }
        }
    }
}
