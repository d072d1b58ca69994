//! Values to positions on an axis.

/// An axis: linear, or logarithmic with a place of its own for zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    Linear {
        low: f64,
        high: f64,
    },
    /// `zero`: share of the axis, at its low end, that is set aside for 0.
    Log {
        low: f64,
        high: f64,
        zero: f64,
    },
}

/// A labeled place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// Share of a logarithmic axis that is set aside for 0 where there is one.
const ZERO_SHARE: f64 = 0.06;

impl Scale {
    /// The axis for some finite values: logarithmic when none is negative and the positive ones span more than two
    /// decades; ends are rounded outwards.
    pub(super) fn fit(values: impl Iterator<Item = f64> + Clone) -> Self {
        let high = values.clone().fold(f64::NEG_INFINITY, f64::max);
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let positive = values.clone().filter(|&v| v > 0.0).fold(f64::INFINITY, f64::min);
        if low >= 0.0 && positive.is_finite() && high / positive > 100.0 {
            let zero = if low > 0.0 { 0.0 } else { ZERO_SHARE };
            Self::Log { low: floor_log(positive), high: ceil_log(high), zero }
        } else {
            Self::linear(low, high)
        }
    }

    /// A logarithmic axis for positive values, its ends at round ones.
    pub(super) fn log(low: f64, high: f64) -> Self {
        Self::Log { low: floor_log(low), high: ceil_log(high.max(low * 1.01)), zero: 0.0 }
    }

    /// A linear axis with its ends at round values.
    pub(super) fn linear(low: f64, high: f64) -> Self {
        let (low, high) = if high > low { (low, high) } else { (low - 0.5, low + 0.5) };
        let step = step(high - low);
        Self::Linear { low: (low / step).floor() * step, high: (high / step).ceil() * step }
    }

    /// A linear axis that ends where it is told to.
    pub(super) fn between(low: f64, high: f64) -> Self {
        Self::Linear { low, high }
    }

    /// Where a value lies, 0 at the low end and 1 at the high one.
    pub(super) fn share(&self, value: f64) -> f64 {
        match *self {
            Self::Linear { low, high } => (value - low) / (high - low),
            Self::Log { zero, .. } if value <= 0.0 => zero / 2.0 * f64::from(zero > 0.0),
            Self::Log { low, high, zero } => zero + (1.0 - zero) * (value / low).ln() / (high / low).ln(),
        }
    }

    /// Round values to label, low to high.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        match *self {
            Self::Linear { low, high } => linear_ticks(low, high),
            Self::Log { low, high, zero } => log_ticks(low, high, zero > 0.0),
        }
    }
}

/// 1, 2, 2.5 or 5 times a power of ten that parts a span into about six.
fn step(span: f64) -> f64 {
    let rough = span / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough * 0.999);
    factor.unwrap_or(10.0) * power
}

fn linear_ticks(low: f64, high: f64) -> Vec<Tick> {
    let step = step(high - low);
    let low = (low / step - 1e-6).ceil() * step;
    let count = ((high - low) / step + 1e-6).floor() as usize;
    let decimals = (-step.log10().floor()).max(0.0) as usize + usize::from(step_has_half(step));
    let value = |i: usize| low + step * i as f64;
    let label = |value: f64| format!("{value:.decimals$}").replace('-', "−");
    (0..=count).map(|i| Tick { value: value(i), label: label(value(i) + 0.0) }).collect()
}

/// Whether the step is 2.5 times a power of ten.
fn step_has_half(step: f64) -> bool {
    let mantissa = step / 10f64.powf(step.log10().floor());
    (mantissa - 2.5).abs() < 1e-6
}

const MANTISSAS: [f64; 3] = [1.0, 2.0, 5.0];

/// The nearest of 1, 2, 5 × 10ⁿ that is not above.
fn floor_log(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let fit = MANTISSAS.into_iter().rev().map(|m| m * power).find(|&tick| tick <= value * 1.000_001);
    fit.unwrap_or(power)
}

/// The nearest of 1, 2, 5 × 10ⁿ that is not below.
fn ceil_log(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    MANTISSAS.into_iter().map(|m| m * power).find(|&tick| tick >= value * 0.999_999).unwrap_or(10.0 * power)
}

/// Powers of ten; with 2 and 5 between them as long as that is not too many.
fn log_ticks(low: f64, high: f64, zero: bool) -> Vec<Tick> {
    const MOST: usize = 10;
    let exponents = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let inside = |mantissas: &[f64]| -> Vec<f64> {
        let all = exponents.clone().flat_map(|e| mantissas.iter().map(move |m| m * 10f64.powi(e)));
        all.filter(|&v| v >= low * 0.999_999 && v <= high * 1.000_001).collect()
    };
    let fine = inside(&MANTISSAS);
    let values = if fine.len() <= MOST { fine } else { inside(&[1.0]) };
    let zero = zero.then(|| Tick { value: 0.0, label: String::from("0") });
    zero.into_iter().chain(values.into_iter().map(|value| Tick { value, label: short(value) })).collect()
}

/// A number in few characters: three significant digits, an exponent below 0.0001 and from a million on.
pub(in crate::report) fn short(value: f64) -> String {
    let text = three_digits(value);
    match text.split_once('e') {
        Some((mantissa, exponent)) => format!("{}e{exponent}", trimmed(mantissa)),
        None => trimmed(&text).to_owned(),
    }
}

/// The same with its zeros kept, so that numbers in a column look alike.
pub(super) fn three_digits(value: f64) -> String {
    let text = match value.abs() {
        0.0 => String::from("0"),
        size if !(1e-4..1e6).contains(&size) => format!("{value:.2e}"),
        size => {
            let decimals = (2.0 - size.log10().floor()).clamp(0.0, 6.0) as usize;
            format!("{value:.decimals$}")
        }
    };
    text.replace('-', "−")
}

/// Without zeros at the end of a fraction.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn two_decades_or_less_are_linear() {
        let scale = Scale::fit([0.01, 0.9].into_iter());
        assert!(matches!(scale, Scale::Linear { .. }));
        assert_eq!(labels(scale), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    }

    #[test]
    fn more_than_two_decades_are_logarithmic_with_a_place_for_zero() {
        let scale = Scale::fit([0.0, 0.003, 0.9].into_iter());
        assert_eq!(labels(scale), ["0", "0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"]);
        assert!(scale.share(0.0) < scale.share(0.002) && scale.share(0.002) > 0.0);
        assert!((scale.share(1.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn many_decades_are_labeled_at_powers_of_ten() {
        let scale = Scale::fit([2e-7, 0.9].into_iter());
        assert_eq!(labels(scale), ["1e−6", "1e−5", "0.0001", "0.001", "0.01", "0.1", "1"]);
    }

    #[test]
    fn negative_values_keep_the_axis_linear() {
        let scale = Scale::fit([-0.01, 3.0].into_iter());
        assert!(matches!(scale, Scale::Linear { .. }));
        assert_eq!(labels(Scale::linear(-1.0, 1.0)), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
    }

    #[test]
    fn ticks_of_an_axis_that_ends_anywhere_are_round() {
        assert_eq!(labels(Scale::between(1.6, 8.4)), ["2", "4", "6", "8"]);
        assert_eq!(labels(Scale::between(1.75, 4.25)), ["2.0", "2.5", "3.0", "3.5", "4.0"]);
    }

    #[test]
    fn one_value_alone_has_an_axis() {
        let scale = Scale::fit([3.0].into_iter());
        assert!((scale.share(3.0) - 0.5).abs() < 0.2 && scale.ticks().len() > 2, "{scale:?}");
        assert!(Scale::fit([0.0].into_iter()).share(0.0).is_finite());
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (0.5, "0.5"),
            (3.25, "3.25"),
            (123.4, "123"),
            (1.2e-7, "1.2e−7"),
            (2e6, "2e6"),
            (-0.25, "−0.25"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
        assert_eq!([three_digits(0.5), three_digits(0.0012)], ["0.500", "0.00120"]);
    }

    proptest::proptest! {
        #[test]
        fn every_value_lies_on_its_axis(values in proptest::collection::vec(0.0..1e6f64, 1..10)) {
            let scale = Scale::fit(values.iter().copied());
            for value in values {
                proptest::prop_assert!((-1e-6..=1.0 + 1e-6).contains(&scale.share(value)), "{value} {scale:?}");
            }
            proptest::prop_assert!((2..=12).contains(&scale.ticks().len()), "{:?}", scale.ticks());
        }
    }
}
