//! The name that somebody may have meant.

/// The name most like `found`, the first of equals, if any is like it at all.
pub(crate) fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.7;
    let mut best = None;
    for name in known {
        let likeness = strsim::jaro_winkler(found, name);
        if likeness > best.map_or(ALIKE, |(likeness, _)| likeness) {
            best = Some((likeness, name));
        }
    }
    best.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_answered_and_nonsense_is_not() {
        let known = ["moead", "nsga2", "random"];
        assert_eq!(nearest("moed", known), Some("moead"));
        assert_eq!(nearest("xyz", known), None);
    }
}
