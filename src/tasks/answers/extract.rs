//! What of a written answer is taken for the answer.

/// What GSM8K's solutions put before their result.
pub(super) const MARKER: &str = "#### ";

/// The number behind the first `#### ` that has one: `#### (-?[0-9.,]+)`.
///
/// Source: the filter `strict-match` of lm-evaluation-harness's `gsm8k`.
pub(super) fn marked_number(text: &str) -> Option<&str> {
    text.match_indices(MARKER).find_map(|(at, _)| {
        let rest = &text[at + MARKER.len()..];
        let sign = usize::from(rest.starts_with('-'));
        let digits = run(&rest[sign..], |byte| byte.is_ascii_digit() || matches!(byte, b'.' | b','));
        (digits > 0).then(|| &rest[..sign + digits])
    })
}

/// The last number of a text: the last match of `(-?[$0-9.,]{2,})|(-?[0-9]+)`.
///
/// Like its source, two full stops in a row are a number to it.
///
/// Source: the filter `flexible-extract` of lm-evaluation-harness's `gsm8k`.
pub(super) fn last_number(text: &str) -> Option<&str> {
    let (mut at, mut last) = (0, None);
    while at < text.len() {
        let len = number_len(&text.as_bytes()[at..]);
        if len > 0 {
            // Every byte of a number is ASCII, so that both ends are ends of characters.
            last = text.get(at..at + len);
        }
        at += len.max(1);
    }
    last
}

/// Bytes of the number that a text begins with, 0 where it begins with none.
fn number_len(bytes: &[u8]) -> usize {
    let sign = usize::from(bytes.first() == Some(&b'-'));
    let rest = &bytes[sign.min(bytes.len())..];
    let count = |is_part: fn(u8) -> bool| rest.iter().take_while(|&&byte| is_part(byte)).count();
    match count(|byte| byte.is_ascii_digit() || matches!(byte, b'$' | b'.' | b',')) {
        0 => 0,
        1 if !rest[0].is_ascii_digit() => 0,
        len => sign + len,
    }
}

fn run(text: &str, is_part: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|&byte| is_part(byte)).count()
}

/// A number as two of them are compared: without commas, dollar signs, anything up to the marker, and a full stop
/// at the end.
///
/// Source: `regexes_to_ignore` of lm-evaluation-harness's `gsm8k`.
pub(super) fn plain_number(text: &str) -> String {
    let text = text.replace([',', '$'], "");
    let number = text.rsplit_once(MARKER).map_or(text.as_str(), |(_, number)| number).trim();
    number.strip_suffix('.').unwrap_or(number).to_lowercase()
}

/// All runs of digits of a text, in order.
pub(super) fn digit_runs(text: &str) -> Vec<&str> {
    text.split(|letter: char| !letter.is_ascii_digit()).filter(|run| !run.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marked_number_is_the_first_behind_a_marker() {
        assert_eq!(marked_number("so 7\n#### 18\n\n#### 19"), Some("18"));
        assert_eq!(marked_number("#### -1,200.50 apples"), Some("-1,200.50"));
        assert_eq!(marked_number("#### $18"), None);
        assert_eq!(marked_number("#### x #### 3"), Some("3"));
        assert_eq!(marked_number("18"), None);
    }

    #[test]
    fn the_last_number_is_found_wherever_it_stands() {
        assert_eq!(last_number("16 - 3 = 13, so she makes $26."), Some("$26."));
        assert_eq!(last_number("he has -5"), Some("-5"));
        assert_eq!(last_number("from 3 to 7 – ünd"), Some("7"));
        assert_eq!(last_number("3 apples, $ or -"), Some("3"));
        assert_eq!(last_number("none at all"), None);
        assert_eq!(last_number(""), None);
        // A quirk of the source.
        assert_eq!(last_number("it is 5.. "), Some("5.."));
        assert_eq!(last_number("it is 5 .."), Some(".."));
    }

    #[test]
    fn numbers_are_compared_without_ornament() {
        assert_eq!(plain_number("$1,200."), "1200");
        assert_eq!(plain_number("work\n#### 18"), "18");
        assert_eq!(plain_number("18.00"), "18.00");
    }
}
