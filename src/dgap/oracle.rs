//! The ceiling of any corrector that changes only the first K candidates: full precision's own logits there.
//!
//! In two forms (**ours**). [`Oracle::Order`] keeps the probability of the K candidates together as the quantized
//! run has it, and repairs their shares; [`Oracle::Mass`] repairs that sum too, and scales the other tokens.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::drift::Correction;
use super::sheet::Position;

/// Which ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Oracle {
    /// Shares inside the top K only.
    Order,
    /// The mass of the top K as well.
    Mass,
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Order => "oracle-order",
            Self::Mass => "oracle-mass",
        })
    }
}

/// Full precision's logits on the first `k` candidates.
pub fn oracle(position: &Position<'_>, k: usize, form: Oracle) -> Correction {
    let log_sum = f64::from(position.row.log_sum);
    let inside = log_sum_of(&position.logits[..k]);
    let full_inside = log_sum_of(&position.full[..k]);
    let outside = 1.0 - (inside - log_sum).exp();
    let full_outside = 1.0 - (full_inside - f64::from(position.row.full_log_sum)).exp();
    let (shift, rest) = match form {
        // Where nothing is outside there is no mass to move.
        Oracle::Mass if outside > 0.0 && full_outside > 0.0 => {
            (log_sum - f64::from(position.row.full_log_sum), (full_outside / outside).ln())
        }
        _ => (inside - full_inside, 0.0),
    };
    Correction { logits: position.full[..k].iter().map(|&z| f64::from(z) + shift).collect(), rest }
}

/// log Σ exp of a few logits.
pub(super) fn log_sum_of(logits: &[f32]) -> f64 {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&z| f64::from(z - top).exp()).sum();
    f64::from(top) + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::super::drift::tests::sheet;
    use super::super::drift::{Drift, drift};
    use super::*;

    #[test]
    fn order_keeps_the_mass_and_mass_frees_it() {
        // The top 2 hold 0.7 quantized and 0.8 at full precision, in the ratio 1 : 3.
        let sheet = sheet(&[0.4, 0.3, 0.2, 0.1], &[0.2, 0.6, 0.1, 0.1], 4);
        let position = sheet.position(0);
        let order = oracle(&position, 2, Oracle::Order);
        let log_sum = f64::from(position.row.log_sum);
        let share = |logit: f64| (logit - log_sum).exp();
        assert!((share(order.logits[0]) - 0.7 / 4.0).abs() < 1e-6, "{order:?}");
        assert!((share(order.logits[1]) - 0.7 * 3.0 / 4.0).abs() < 1e-6, "{order:?}");
        let mass = oracle(&position, 2, Oracle::Mass);
        assert!((share(mass.logits[0]) - 0.2).abs() < 1e-6 && (share(mass.logits[1]) - 0.6).abs() < 1e-6);
        // 0.3 of the others become 0.2.
        assert!((mass.rest - (0.2_f64 / 0.3).ln()).abs() < 1e-5, "{mass:?}");
        let (before, repaired) =
            (drift(&position, &Correction::none(&position, 2)), drift(&position, &order));
        let js = |drift: &Drift| drift.bins.js;
        assert!(js(&repaired) < js(&before) && js(&drift(&position, &mass)) < js(&repaired));
        assert!(before.flip && !repaired.flip);
    }

    #[test]
    fn all_of_a_vocabulary_repaired_is_full_precision() {
        let sheet = sheet(&[0.4, 0.3, 0.2, 0.1], &[0.2, 0.6, 0.1, 0.1], 4);
        let position = sheet.position(0);
        for form in [Oracle::Order, Oracle::Mass] {
            assert!(drift(&position, &oracle(&position, 4, form)).whole.js < 1e-6);
        }
    }
}
