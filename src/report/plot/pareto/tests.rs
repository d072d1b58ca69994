use super::super::figure::Shape;
use super::*;
use crate::precision::{PrecisionMap, PrecisionPair};

fn row(role: Role, pair: &str, bits: f64, loss: f64) -> ParetoRow {
    let pair: PrecisionPair = pair.parse().expect("a pair");
    ParetoRow {
        map: PrecisionMap::uniform(30, pair),
        role,
        equivalent_bits: bits,
        storage_bits: bits + 1.0,
        cache_bytes: 1,
        search_loss: loss,
        select_loss: Some(loss * 1.1),
        select_upper: Some(loss * 1.5),
        test_loss: (role == Role::Chosen).then_some(loss),
        test_low: (role == Role::Chosen).then_some(loss * 0.7),
        test_high: (role == Role::Chosen).then_some(loss * 1.4),
    }
}

fn rows() -> Vec<ParetoRow> {
    let front = [(2.0, 0.4), (2.5, 0.2), (3.0, 0.08), (4.0, 0.01), (5.0, 0.004)];
    let mut rows: Vec<_> = front.map(|(bits, loss)| row(Role::Front, "KV2", bits, loss)).to_vec();
    rows[2].role = Role::Chosen;
    let uniform =
        [("KV2", 2.0, 0.4), ("K2V4", 3.0, 0.3), ("K4V2", 3.0, 0.1), ("KV4", 4.0, 0.02), ("KV8", 8.0, 0.001)];
    rows.extend(uniform.map(|(pair, bits, loss)| row(Role::Uniform, pair, bits, loss)));
    rows
}

fn texts(figure: &Figure) -> Vec<&Text> {
    fn text(shape: &Shape) -> Option<&Text> {
        if let Shape::Text(text) = shape { Some(text) } else { None }
    }
    figure.shapes.iter().filter_map(text).collect()
}

#[test]
fn every_uniform_map_and_the_chosen_one_are_labeled() {
    let figure = figure(&rows(), &Context::default());
    let texts: Vec<&str> = texts(&figure).iter().map(|text| text.text.as_str()).collect();
    for label in ["KV2", "K2V4", "K4V2", "KV4", "KV8", "chosen", "loss, select split"] {
        assert!(texts.contains(&label), "{label} is missing from {texts:?}");
    }
}

#[test]
fn no_text_lies_on_another_or_leaves_the_figure() {
    let figure = figure(&rows(), &Context { max_loss: Some(0.05), ..Context::default() });
    let whole = Frame { left: 0.0, top: 0.0, right: WIDE.width, bottom: WIDE.height };
    let frames: Vec<_> =
        texts(&figure).into_iter().filter(|t| !t.upright).map(|t| (t.text.clone(), t.frame())).collect();
    for (i, (text, frame)) in frames.iter().enumerate() {
        assert!(whole.holds(frame), "`{text}` leaves the figure");
        for (other, taken) in &frames[..i] {
            assert!(!taken.overlaps(frame), "`{text}` lies on `{other}`");
        }
    }
}

#[test]
fn a_row_without_a_select_loss_puts_all_on_the_search_split() {
    let mut rows = rows();
    rows[0].select_loss = None;
    assert!(texts(&figure(&rows, &Context::default())).iter().any(|text| text.text == "loss, search split"));
}

#[test]
fn one_row_alone_is_drawn() {
    let figure = figure(&[row(Role::Front, "KV2", 2.0, 0.0)], &Context::default());
    assert!(texts(&figure).iter().all(|text| text.at.0.is_finite() && text.at.1.is_finite()));
}
