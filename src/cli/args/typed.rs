//! Numbers as they are typed, with the range that makes sense.

/// More threads than any one machine has cores are a typing error.
pub(super) fn threads(typed: &str) -> Result<usize, String> {
    within(typed, 0..=1024)
}

pub(super) fn new_tokens(typed: &str) -> Result<usize, String> {
    within(typed, 1..=1 << 24)
}

pub(super) fn lanes(typed: &str) -> Result<usize, String> {
    within(typed, 1..=1024)
}

pub(super) fn temperature(typed: &str) -> Result<f64, String> {
    let found = typed.parse().ok().filter(|found: &f64| found.is_finite() && *found >= 0.0);
    found.ok_or_else(|| String::from("expected a number of at least 0"))
}

/// A share of something.
pub(super) fn share(typed: &str) -> Result<f64, String> {
    let found = typed.parse().ok().filter(|found: &f64| (0.0..=1.0).contains(found));
    found.ok_or_else(|| String::from("expected a number from 0 to 1"))
}

pub(super) fn positive(typed: &str) -> Result<f64, String> {
    let found = typed.parse().ok().filter(|found: &f64| found.is_finite() && *found > 0.0);
    found.ok_or_else(|| String::from("expected a number above 0"))
}

/// More steps than these are not waited for.
pub(super) fn repeats(typed: &str) -> Result<usize, String> {
    within(typed, 1..=1 << 20)
}

pub(super) fn top_p(typed: &str) -> Result<f64, String> {
    let found = typed.parse().ok().filter(|&found: &f64| found > 0.0 && found <= 1.0);
    found.ok_or_else(|| String::from("expected a number above 0, and 1 at most"))
}

/// A window of one token has no token to predict.
pub(super) fn window(typed: &str) -> Result<usize, String> {
    within(typed, 2..=1 << 20)
}

/// Widths of heads: wider ones than these have more weights than any model that they repair.
pub(super) fn head_width(typed: &str) -> Result<usize, String> {
    within(typed, 1..=1 << 16)
}

pub(super) fn at_least_one(typed: &str) -> Result<usize, String> {
    within(typed, 1..=usize::MAX)
}

fn within(typed: &str, range: std::ops::RangeInclusive<usize>) -> Result<usize, String> {
    let found = typed.parse().ok().filter(|found| range.contains(found));
    found.ok_or_else(|| match *range.end() {
        usize::MAX => format!("expected a whole number of at least {}", range.start()),
        most => format!("expected a whole number from {} to {most}", range.start()),
    })
}
