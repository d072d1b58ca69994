use std::cmp::Ordering;

/// The `k` largest logits with their ids, largest first, the smaller id first among equals.
///
/// One pass: of 150,000 logits nearly all fail one comparison with the k-th best so far. Not a number sorts
/// as [`f32::total_cmp`] does, and `−0` equals `0`.
pub fn top_k(logits: &[f32], k: usize) -> Vec<(u32, f32)> {
    if k == 0 {
        return Vec::new();
    }
    let mut best: Vec<(u32, f32)> = Vec::with_capacity(logits.len().min(2 * k));
    // Of the k-th best, once k are known. A later logit that equals it has the larger id.
    let mut threshold = None;
    for (id, &logit) in (0_u32..).zip(logits) {
        if threshold.is_some_and(|threshold| logit <= threshold) {
            continue;
        }
        best.push((id, logit));
        if best.len() == 2 * k {
            best.select_nth_unstable_by(k - 1, larger_first);
            best.truncate(k);
            threshold = Some(best[k - 1].1);
        }
    }
    best.sort_unstable_by(larger_first);
    best.truncate(k);
    best
}

fn larger_first(a: &(u32, f32), b: &(u32, f32)) -> Ordering {
    // Adding zero turns −0 into 0.
    (b.1 + 0.0).total_cmp(&(a.1 + 0.0)).then(a.0.cmp(&b.0))
}

/// log Σ exp of the logits, accumulated in f64 around their maximum; −∞ for none.
///
/// At least the maximum, also after rounding to f32.
pub fn log_sum_exp(logits: &[f32]) -> f64 {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    if max.is_infinite() {
        return max;
    }
    max + logits.iter().map(|&logit| (f64::from(logit) - max).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_sorting(logits: &[f32], k: usize) -> Vec<(u32, f32)> {
        let mut all: Vec<_> = (0..).zip(logits.iter().copied()).collect();
        all.sort_by(|a, b| b.1.partial_cmp(&a.1).expect("finite").then(a.0.cmp(&b.0)));
        all.truncate(k);
        all
    }

    #[test]
    fn ties_go_to_the_smaller_id() {
        assert_eq!(top_k(&[1.0, 3.0, 3.0, 0.0, 3.0], 2), [(1, 3.0), (2, 3.0)]);
        assert_eq!(top_k(&[-0.0, 0.0, 0.0], 2), [(0, 0.0), (1, 0.0)]);
        assert_eq!(top_k(&[1.0], 64), [(0, 1.0)]);
        assert_eq!(top_k(&[1.0], 0), []);
    }

    #[test]
    fn what_is_not_a_number_does_not_panic() {
        let logits: Vec<_> = (0..500_u16).map(|n| if n % 3 == 0 { f32::NAN } else { f32::from(n) }).collect();
        assert_eq!(top_k(&logits, 64).len(), 64);
    }

    #[test]
    fn log_sum_exp_of_equal_logits_is_their_value_plus_the_log_of_their_number() {
        assert!((log_sum_exp(&[1000.0; 8]) - (1000.0 + 8_f64.ln())).abs() < 1e-9);
        assert!((log_sum_exp(&[0.0, 3_f32.ln()]) - 4_f64.ln()).abs() < 1e-7);
        for nothing in [&[][..], &[f32::NEG_INFINITY; 2]] {
            let sum = log_sum_exp(nothing);
            assert!(sum.is_infinite() && sum < 0.0);
        }
    }

    proptest! {
        #[test]
        fn top_k_equals_a_full_sort(
            logits in prop::collection::vec((-4_i8..4).prop_map(|n| f32::from(n) / 2.0), 0..300),
            k in 0_usize..80,
        ) {
            prop_assert_eq!(top_k(&logits, k), by_sorting(&logits, k));
        }

        #[test]
        fn log_sum_exp_is_at_least_the_maximum_in_f32(logits in prop::collection::vec(-1e4_f32..1e4, 1..50)) {
            let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            prop_assert!(log_sum_exp(&logits) as f32 >= max);
        }
    }
}
