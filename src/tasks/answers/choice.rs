//! Marks for choices among continuations.

use super::item::mark;
use super::{Ask, Gold, Grade, Item, Metric, Response};

/// Whether the likeliest continuation is the right one.
pub(super) const ACCURACY: Metric = Metric::binary("accuracy");
/// The same, by likelihood per byte, so that long continuations are not at a disadvantage.
pub(super) const ACCURACY_PER_BYTE: Metric = Metric::binary("accuracy_per_byte");

/// The first of the largest numbers; none where there are none, or no numbers.
fn likeliest(values: impl Iterator<Item = f64>) -> Option<usize> {
    let numbers = values.enumerate().filter(|(_, value)| !value.is_nan());
    numbers.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(index, _)| index)
}

/// Accuracy, and accuracy per byte where `per_byte`.
pub(super) fn grade(item: &Item, response: &Response, per_byte: bool) -> Grade {
    let (Ask::Choose { continuations }, Response::LogLikelihoods(values)) = (&item.ask, response) else {
        return Grade { extracted: None, scores: vec![0.0; 1 + usize::from(per_byte)] };
    };
    let is_right = |choice: Option<usize>| {
        mark(choice.is_some_and(|choice| match &item.gold {
            Gold::Choice(right) => choice == *right,
            Gold::Truths(truths) => truths.get(choice) == Some(&true),
            _ => false,
        }))
    };
    let chosen = likeliest(values.iter().copied());
    let mut scores = vec![is_right(chosen)];
    if per_byte {
        let lengths = continuations.iter().map(|text| text.trim_start().len().max(1) as f64);
        scores.push(is_right(likeliest(values.iter().zip(lengths).map(|(value, len)| value / len))));
    }
    let extracted = chosen.and_then(|choice| continuations.get(choice)).map(|text| text.trim().to_owned());
    Grade { extracted, scores }
}

/// The probability of the true continuations among all.
///
/// Source: TruthfulQA's MC2 (Lin et al., arXiv:2109.07958).
pub(super) fn mass(item: &Item, response: &Response) -> f64 {
    let (Gold::Truths(truths), Response::LogLikelihoods(values)) = (&item.gold, response) else { return 0.0 };
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = values.iter().map(|value| (value - largest).exp()).collect();
    let is_true = weights.iter().zip(truths).filter(|&(_, &is_true)| is_true);
    let mass = is_true.map(|(weight, _)| weight).sum::<f64>() / weights.iter().sum::<f64>();
    if mass.is_finite() { mass } else { 0.0 }
}

/// ` A`, ` B`, … as continuations.
pub(super) fn letters(count: usize) -> Ask {
    let letter = |index: usize| format!(" {}", char::from(b'A' + (index % 26) as u8));
    Ask::Choose { continuations: (0..count).map(letter).collect() }
}

/// `A. first`, `B. second`, … a line each.
pub(super) fn lettered(choices: &[String]) -> String {
    (b'A'..=b'Z').zip(choices).map(|(letter, choice)| format!("{}. {choice}\n", char::from(letter))).collect()
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "marks are 0 or 1")]
mod tests {
    use super::super::{ItemPrompt, WhenLong};
    use super::*;

    fn item(continuations: &[&str], gold: Gold) -> Item {
        Item {
            id: "i".into(),
            set: "s".into(),
            key: String::new(),
            prompt: ItemPrompt::Text { prefix: String::new(), rest: "?".into() },
            ask: Ask::Choose { continuations: continuations.iter().map(|&text| text.into()).collect() },
            gold,
            when_long: WhenLong::Skip,
        }
    }

    #[test]
    fn the_likeliest_wins_and_length_matters_only_per_byte() {
        let item = item(&[" no", " certainly"], Gold::Choice(1));
        // −2 over 2 bytes is −1; −4.5 over 9 bytes is −0.5.
        let grade = grade(&item, &Response::LogLikelihoods(vec![-2.0, -4.5]), true);
        assert_eq!(grade.scores, [0.0, 1.0]);
        assert_eq!(grade.extracted.as_deref(), Some("no"));
    }

    #[test]
    fn the_first_of_equals_is_taken_and_no_number_never() {
        assert_eq!(likeliest([f64::NAN, -1.0, -1.0].into_iter()), Some(1));
        assert_eq!(likeliest([f64::NAN].into_iter()), None);
    }

    #[test]
    fn true_mass_is_a_share_of_probability() {
        let item = item(&[" a", " b", " c"], Gold::Truths(vec![true, false, true]));
        let logs = [0.5_f64, 0.25, 0.25].map(|p| (p / 1e3).ln());
        assert!((mass(&item, &Response::LogLikelihoods(logs.to_vec())) - 0.75).abs() < 1e-12);
        assert_eq!(mass(&item, &Response::LogLikelihoods(vec![f64::NEG_INFINITY; 3])), 0.0);
        assert_eq!(mass(&item, &Response::Text("a".into())), 0.0);
    }
}
