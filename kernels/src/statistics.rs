//! Sums over long rows, accumulated in f64 over fixed lanes: the same result on every instruction set.

use pulp::Arch;

use crate::pointwise::exp;

const LANES: usize = 16;

/// How far a tensor is from its reference, summed over elements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Deviation {
    /// Σ |x − x̂|
    pub absolute: f64,
    /// Σ |x|
    pub magnitude: f64,
    /// Σ |x − x̂| / max(|x|, floor)
    pub relative: f64,
    /// Number of elements.
    pub elements: u64,
}

impl Deviation {
    /// Of `other` from `reference`, with |x| floored at `floor` in the relative sum.
    pub fn new(reference: &[f32], other: &[f32], floor: f32) -> Self {
        debug_assert_eq!(reference.len(), other.len(), "one element each");
        let (mut absolute, mut magnitude, mut relative) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        Arch::new().dispatch(|| {
            let (a, a_rest) = reference.as_chunks::<LANES>();
            let (b, b_rest) = other.as_chunks::<LANES>();
            for (a, b) in a.iter().zip(b) {
                for i in 0..LANES {
                    let (error, size) = ((a[i] - b[i]).abs(), a[i].abs());
                    absolute[i] += f64::from(error);
                    magnitude[i] += f64::from(size);
                    relative[i] += f64::from(error / size.max(floor));
                }
            }
            for (i, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
                let (error, size) = ((a - b).abs(), a.abs());
                absolute[i] += f64::from(error);
                magnitude[i] += f64::from(size);
                relative[i] += f64::from(error / size.max(floor));
            }
        });
        Self {
            absolute: absolute.iter().sum(),
            magnitude: magnitude.iter().sum(),
            relative: relative.iter().sum(),
            elements: reference.len() as u64,
        }
    }

    /// Takes in the elements of another part.
    pub fn add(&mut self, other: &Self) {
        self.absolute += other.absolute;
        self.magnitude += other.magnitude;
        self.relative += other.relative;
        self.elements += other.elements;
    }
}

/// Σ |x − y| over a row.
pub fn absolute_difference(x: &[f32], y: &[f32]) -> f64 {
    let mut lanes = [0.0_f64; LANES];
    Arch::new().dispatch(|| {
        let (a, a_rest) = x.as_chunks::<LANES>();
        let (b, b_rest) = y.as_chunks::<LANES>();
        for (a, b) in a.iter().zip(b) {
            for i in 0..LANES {
                lanes[i] += f64::from((a[i] - b[i]).abs());
            }
        }
        for (i, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
            lanes[i] += f64::from((a - b).abs());
        }
    });
    lanes.iter().sum()
}

/// √(mean x²).
pub fn root_mean_square(x: &[f32]) -> f64 {
    let mut lanes = [0.0_f64; LANES];
    Arch::new().dispatch(|| {
        let (chunks, rest) = x.as_chunks::<LANES>();
        for chunk in chunks {
            for i in 0..LANES {
                lanes[i] += f64::from(chunk[i]) * f64::from(chunk[i]);
            }
        }
        for (i, &x) in rest.iter().enumerate() {
            lanes[i] += f64::from(x) * f64::from(x);
        }
    });
    (lanes.iter().sum::<f64>() / x.len().max(1) as f64).sqrt()
}

/// Index of the largest element, the first of equals; `None` for an empty row.
pub fn arg_max(row: &[f32]) -> Option<usize> {
    let mut best: Option<(usize, f32)> = None;
    for (i, &x) in row.iter().enumerate() {
        if best.is_none_or(|(_, top)| x > top) {
            best = Some((i, x));
        }
    }
    best.map(|(i, _)| i)
}

/// log Σ exp of a row of logits.
pub fn log_sum_exp(row: &[f32]) -> f64 {
    let mut lanes = [0.0_f64; LANES];
    let mut top = f32::NEG_INFINITY;
    Arch::new().dispatch(|| {
        top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let (chunks, rest) = row.as_chunks::<LANES>();
        for chunk in chunks {
            for i in 0..LANES {
                lanes[i] += f64::from(exp(chunk[i] - top));
            }
        }
        for (i, &x) in rest.iter().enumerate() {
            lanes[i] += f64::from(exp(x - top));
        }
    });
    f64::from(top) + lanes.iter().sum::<f64>().ln()
}

/// KL(p ‖ q) in nats between the distributions of two rows of logits, given each row's log Σ exp.
///
/// `Σ p (z_p − z_q) − lse_p + lse_q`, never below 0.
pub fn divergence(p: &[f32], p_log_sum: f64, q: &[f32], q_log_sum: f64) -> f64 {
    let mut lanes = [0.0_f64; LANES];
    let shift = p_log_sum as f32;
    Arch::new().dispatch(|| {
        let (a, a_rest) = p.as_chunks::<LANES>();
        let (b, b_rest) = q.as_chunks::<LANES>();
        for (a, b) in a.iter().zip(b) {
            for i in 0..LANES {
                lanes[i] += f64::from(exp(a[i] - shift)) * f64::from(a[i] - b[i]);
            }
        }
        for (i, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
            lanes[i] += f64::from(exp(a - shift)) * f64::from(a - b);
        }
    });
    (lanes.iter().sum::<f64>() - p_log_sum + q_log_sum).max(0.0)
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "sums of halves are exact")]
mod tests {
    use super::*;

    #[test]
    fn deviation_by_hand() {
        let found = Deviation::new(&[2.0, -4.0, 0.0], &[1.0, -4.0, 0.5], 0.25);
        assert_eq!(found, Deviation { absolute: 1.5, magnitude: 6.0, relative: 0.5 + 2.0, elements: 3 });
    }

    #[test]
    fn long_rows_and_ragged_ends_count_once() {
        let x: Vec<f32> = (0..37).map(|i| i as f32).collect();
        let y: Vec<f32> = x.iter().map(|x| x + 0.5).collect();
        assert_eq!(Deviation::new(&x, &y, 1.0).absolute, 18.5);
        assert_eq!(absolute_difference(&x, &y), 18.5);
    }

    #[test]
    fn divergence_of_two_coins() {
        // p = (3/4, 1/4), q = (1/2, 1/2)
        let p = [3.0_f32.ln(), 0.0];
        let q = [0.0, 0.0];
        let expected = 0.75 * 1.5_f64.ln() + 0.25 * 0.5_f64.ln();
        assert!((divergence(&p, log_sum_exp(&p), &q, log_sum_exp(&q)) - expected).abs() < 1e-6);
        assert_eq!(divergence(&p, log_sum_exp(&p), &p, log_sum_exp(&p)), 0.0);
    }

    #[test]
    fn the_first_of_equal_logits_is_chosen() {
        assert_eq!(arg_max(&[1.0, 3.0, 3.0]), Some(1));
        assert_eq!(arg_max(&[f32::NEG_INFINITY]), Some(0));
        assert_eq!(arg_max(&[]), None);
    }
}
