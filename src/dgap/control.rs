//! The control experiment of the paper's section 3.2: is it the order of the logits that does the harm, or their
//! size?
//!
//! The paper shifts all logits by a constant to change values and keep the order. That changes nothing, for softmax
//! does not see it, so a temperature and the mirror of the first variant stand beside it (**ours**).

use kvtune_kernels::statistics::{arg_max, divergence, log_sum_exp};

use super::drift::js_term;

/// What is done to full-precision logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The quantized logits as they are.
    Quantized,
    /// Full-precision values in the quantized order.
    QuantizedOrder,
    /// Quantized values in the full-precision order.
    QuantizedValues,
    /// Full precision plus a constant.
    Shifted,
    /// Full precision divided by a temperature.
    Tempered,
}

/// Added to every logit.
const SHIFT: f32 = 4.0;
/// Divides every logit.
const TEMPERATURE: f32 = 1.5;

impl Variant {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Quantized, Self::QuantizedOrder, Self::QuantizedValues, Self::Shifted, Self::Tempered];

    /// As files spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quantized => "quantized",
            Self::QuantizedOrder => "full-values-in-quantized-order",
            Self::QuantizedValues => "quantized-values-in-full-order",
            Self::Shifted => "full-plus-4",
            Self::Tempered => "full-at-temperature-1.5",
        }
    }

    /// Whether the most likely token is that of the quantized run; otherwise it is that of full precision, and so
    /// is what greedy generation writes.
    pub fn chooses_as_quantized(self) -> bool {
        matches!(self, Self::Quantized | Self::QuantizedOrder)
    }

    /// The logits.
    pub fn of(self, full: &[f32], quantized: &[f32]) -> Vec<f32> {
        match self {
            Self::Quantized => quantized.to_vec(),
            Self::QuantizedOrder => reordered(full, quantized),
            Self::QuantizedValues => reordered(quantized, full),
            Self::Shifted => full.iter().map(|z| z + SHIFT).collect(),
            Self::Tempered => full.iter().map(|z| z / TEMPERATURE).collect(),
        }
    }
}

/// The values of one list in the order of another: the largest where the other has its largest.
fn reordered(values: &[f32], order: &[f32]) -> Vec<f32> {
    let mut ids: Vec<usize> = (0..order.len()).collect();
    ids.sort_unstable_by(|&a, &b| order[b].total_cmp(&order[a]).then(a.cmp(&b)));
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut out = vec![0.0; values.len()];
    ids.into_iter().zip(sorted).for_each(|(id, value)| out[id] = value);
    out
}

/// Sums over positions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlTally {
    /// Positions.
    pub positions: usize,
    /// Jensen–Shannon divergence, bits.
    pub js: f64,
    /// KL(full ‖ variant), nats.
    pub kl: f64,
    /// Positions with another most likely token.
    pub flips: usize,
    /// −log p of the next token, nats.
    pub nll: f64,
}

impl ControlTally {
    /// Adds a position, whose next token is `next`.
    pub fn add(&mut self, full: &[f32], variant: &[f32], next: u32) {
        let (full_sum, sum) = (log_sum_exp(full), log_sum_exp(variant));
        let share = |z: f32, log_sum: f64| (f64::from(z) - log_sum).exp();
        let js = full.iter().zip(variant).map(|(&p, &q)| js_term(share(p, full_sum), share(q, sum)));
        self.positions += 1;
        self.js += js.sum::<f64>();
        self.kl += divergence(full, full_sum, variant, sum);
        self.flips += usize::from(arg_max(full) != arg_max(variant));
        self.nll += sum - f64::from(variant[next as usize]);
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            positions: self.positions + other.positions,
            js: self.js + other.js,
            kl: self.kl + other.kl,
            flips: self.flips + other.flips,
            nll: self.nll + other.nll,
        }
    }
}

/// Where the classes of full-precision gaps begin.
pub const GAPS: [f64; 7] = [0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0];

/// Pairs of likely tokens by full-precision gap: how many, and how many are turned around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inversions {
    /// Pairs in each class.
    pub pairs: [u64; GAPS.len()],
    /// Those in another order.
    pub inverted: [u64; GAPS.len()],
}

/// Tokens that are paired: full precision's most likely ones.
const PAIRED: usize = 10;

impl Inversions {
    /// Adds the pairs among the most likely tokens at full precision, given both logits of these, largest first.
    pub fn add(&mut self, full: &[f32], quantized: &[f32]) {
        let count = full.len().min(PAIRED);
        for i in 0..count {
            for j in i + 1..count {
                let gap = f64::from(full[i] - full[j]);
                let class = GAPS.iter().rposition(|&from| gap >= from).unwrap_or(0);
                self.pairs[class] += 1;
                self.inverted[class] += u64::from(quantized[i] < quantized[j]);
            }
        }
    }

    /// Both together.
    pub fn plus(mut self, other: Self) -> Self {
        for class in 0..GAPS.len() {
            self.pairs[class] += other.pairs[class];
            self.inverted[class] += other.inverted[class];
        }
        self
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "values are moved, not computed")]
mod tests {
    use super::*;

    const FULL: [f32; 4] = [3.0, 1.0, 2.0, 0.0];
    const QUANTIZED: [f32; 4] = [1.0, 5.0, 2.0, -1.0];

    #[test]
    fn order_and_values_are_told_apart() {
        assert_eq!(Variant::QuantizedOrder.of(&FULL, &QUANTIZED), [1.0, 3.0, 2.0, 0.0]);
        assert_eq!(Variant::QuantizedValues.of(&FULL, &QUANTIZED), [5.0, 1.0, 2.0, -1.0]);
    }

    #[test]
    fn a_constant_changes_nothing_and_a_temperature_does() {
        let tally = |variant: Variant| {
            let mut tally = ControlTally::default();
            tally.add(&FULL, &variant.of(&FULL, &QUANTIZED), 2);
            tally
        };
        let shifted = tally(Variant::Shifted);
        assert!(shifted.js.abs() < 1e-12 && shifted.kl.abs() < 1e-9 && shifted.flips == 0);
        let tempered = tally(Variant::Tempered);
        assert!(tempered.js > 1e-3 && tempered.flips == 0);
        assert_eq!(tally(Variant::QuantizedOrder).flips, 1);
        assert_eq!(tally(Variant::QuantizedValues).flips, 0);
    }

    #[test]
    fn pairs_are_classed_by_gap() {
        let mut found = Inversions::default();
        found.add(&[3.0, 2.0, 1.95], &[1.0, 2.0, 0.5]);
        assert_eq!(found.pairs, [1, 0, 0, 0, 2, 0, 0]);
        assert_eq!(found.inverted, [0, 0, 0, 0, 1, 0, 0]);
    }
}
