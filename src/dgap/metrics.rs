//! How good risks are at telling drifted steps from quiet ones.

/// A detector's figures on some positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detection {
    /// Area under the ROC curve: the chance that a drifted step has more risk than a quiet one.
    pub auroc: f64,
    /// Area under the precision–recall curve (average precision).
    pub auprc: f64,
    /// Expected calibration error over ten bins of equal width.
    pub ece: f64,
}

/// Compares risks with what happened; `None` where all steps drifted, or none.
pub fn detection(risks: &[f64], drifted: &[bool]) -> Option<Detection> {
    let positives = drifted.iter().filter(|&&drifted| drifted).count();
    if positives == 0 || positives == drifted.len() {
        return None;
    }
    let mut order: Vec<(f64, bool)> = risks.iter().copied().zip(drifted.iter().copied()).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    Some(Detection {
        auroc: auroc(&order, positives),
        auprc: auprc(&order, positives),
        ece: calibration_error(risks, drifted),
    })
}

/// Ties count one half.
fn auroc(order: &[(f64, bool)], positives: usize) -> f64 {
    let (mut above, mut area) = (0.0, 0.0);
    for tied in order.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let positive = tied.iter().filter(|step| step.1).count() as f64;
        area += (tied.len() as f64 - positive) * (above + positive / 2.0);
        above += positive;
    }
    area / (positives as f64 * (order.len() - positives) as f64)
}

/// Precision at each drifted step, tied steps taken together.
fn auprc(order: &[(f64, bool)], positives: usize) -> f64 {
    let (mut found, mut seen, mut area) = (0.0, 0.0, 0.0);
    for tied in order.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let positive = tied.iter().filter(|step| step.1).count() as f64;
        (found, seen) = (found + positive, seen + tied.len() as f64);
        area += positive * found / seen;
    }
    area / positives as f64
}

fn calibration_error(risks: &[f64], drifted: &[bool]) -> f64 {
    const BINS: usize = 10;
    let mut bins = [(0.0, 0.0); BINS];
    for (&risk, &drifted) in risks.iter().zip(drifted) {
        let bin = &mut bins[((risk * BINS as f64) as usize).min(BINS - 1)];
        *bin = (bin.0 + risk, bin.1 + f64::from(u8::from(drifted)));
    }
    bins.iter().map(|(risk, drifted)| (risk - drifted).abs()).sum::<f64>() / risks.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
    }

    #[test]
    fn figures_by_hand() {
        // Falling: drifted 0.9, quiet 0.8, drifted 0.6, quiet 0.2.
        let found = detection(&[0.6, 0.8, 0.9, 0.2], &[true, false, true, false]).expect("both kinds");
        near(found.auroc, 3.0 / 4.0);
        near(found.auprc, (1.0 + 2.0 / 3.0) / 2.0);
        near(found.ece, (0.4 + 0.8 + 0.1 + 0.2) / 4.0);
    }

    #[test]
    fn equal_risks_tell_nothing() {
        let found = detection(&[0.5; 4], &[true, false, true, false]).expect("both kinds");
        near(found.auroc, 0.5);
        near(found.auprc, 0.5);
        near(found.ece, 0.0);
    }

    #[test]
    fn one_kind_alone_has_no_figures() {
        assert_eq!(detection(&[0.1, 0.2], &[true, true]), None);
        assert_eq!(detection(&[], &[]), None);
    }
}
