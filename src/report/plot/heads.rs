//! `heads.csv`: error of each head against how concentrated its attention is.

use crate::analysis::HeadClass;
use crate::report::analysis_rows::PatternRow;
use crate::sensitivity::correlation::spearman;

use super::Context;
use super::figure::{Align, Figure, Frame, Point, Text};
use super::labels::Labels;
use super::palette::{BLUE, GRID, INK, MUTED, VERMILION, WHITE};
use super::scale::Scale;

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 600.0;
const PLOT: Frame = Frame { left: 88.0, top: 92.0, right: 896.0, bottom: 530.0 };
/// Heads of largest error that are named.
const NAMED: usize = 6;

/// A point a head, at the pair that says most of noise on keys; rows without a finite error are left out.
pub(super) fn figure(rows: &[PatternRow], context: &Context) -> Figure {
    let pair = PatternRow::shown_pair(rows.iter().map(|row| row.pair));
    let heads = rows.iter().filter(|row| Some(row.pair) == pair && row.e_o_l1.is_finite()).collect();
    let chart = Chart::new(heads);
    let mut figure = Figure::new(WIDTH, HEIGHT);
    let title = context.title("Head error and attention");
    figure.text(Text::new(title, (PLOT.left, 28.0), Align::Left, 17.0, INK).bold());
    let pair = pair.map_or(String::new(), |pair| pair.to_string());
    chart.axes(&mut figure, &pair);
    chart.points(&mut figure);
    chart.names(&mut figure);
    chart.legend(&mut figure);
    figure
}

struct Chart<'a> {
    heads: Vec<&'a PatternRow>,
    x: Scale,
    y: Scale,
}

impl<'a> Chart<'a> {
    fn new(heads: Vec<&'a PatternRow>) -> Self {
        let concentration = || heads.iter().map(|row| row.concentration);
        let (low, high) = concentration().fold((1.0_f64, 0.0_f64), |(l, h), c| (l.min(c), h.max(c)));
        let x = Scale::linear(low, high);
        let y = if heads.is_empty() {
            Scale::linear(0.0, 1.0)
        } else {
            Scale::fit(heads.iter().map(|row| row.e_o_l1))
        };
        Self { heads, x, y }
    }

    fn at(&self, row: &PatternRow) -> Point {
        let x = PLOT.left + (PLOT.right - PLOT.left) * self.x.share(row.concentration);
        (x, PLOT.bottom - (PLOT.bottom - PLOT.top) * self.y.share(row.e_o_l1))
    }

    fn axes(&self, figure: &mut Figure, pair: &str) {
        for tick in self.y.ticks() {
            let y = PLOT.bottom - (PLOT.bottom - PLOT.top) * self.y.share(tick.value);
            figure.line(vec![(PLOT.left, y), (PLOT.right, y)], GRID, 1.0);
            figure.text(Text::new(tick.label, (PLOT.left - 10.0, y), Align::Right, 12.0, MUTED));
        }
        for tick in self.x.ticks() {
            let x = PLOT.left + (PLOT.right - PLOT.left) * self.x.share(tick.value);
            figure.line(vec![(x, PLOT.top), (x, PLOT.bottom)], GRID, 1.0);
            figure.text(Text::new(tick.label, (x, PLOT.bottom + 18.0), Align::Middle, 12.0, MUTED));
        }
        let frame = vec![(PLOT.left, PLOT.top), (PLOT.left, PLOT.bottom), (PLOT.right, PLOT.bottom)];
        figure.line(frame, MUTED, 1.0);
        let middle = ((PLOT.left + PLOT.right) / 2.0, (PLOT.top + PLOT.bottom) / 2.0);
        let concentration = "concentration of attention (1 − entropy / ln of tokens seen)";
        figure.text(Text::new(concentration, (middle.0, HEIGHT - 28.0), Align::Middle, 13.0, INK));
        let error = format!("e_o at {pair} (l1)");
        figure.text(Text::new(error, (24.0, middle.1), Align::Middle, 13.0, INK).upright());
    }

    fn points(&self, figure: &mut Figure) {
        for row in &self.heads {
            mark(figure, self.at(row), row.class);
        }
    }

    /// The heads of largest error, as far as there is room.
    fn names(&self, figure: &mut Figure) {
        let mut labels = Labels::new(PLOT);
        self.heads.iter().for_each(|row| labels.block(Frame::around(self.at(row), 5.0, 5.0)));
        let mut worst = self.heads.clone();
        worst.sort_by(|a, b| b.e_o_l1.total_cmp(&a.e_o_l1));
        for row in worst.into_iter().take(NAMED) {
            let name = format!("{}.{}", row.layer, row.head);
            let Some(placed) = labels.place(&name, self.at(row), 11.0, INK) else { continue };
            placed.draw(figure);
        }
    }

    fn legend(&self, figure: &mut Figure) {
        const Y: f64 = 62.0;
        let mut x = PLOT.left;
        for (class, name) in [(HeadClass::Streaming, "streaming"), (HeadClass::Retrieval, "retrieval")] {
            mark(figure, (x + 9.0, Y), class);
            let count = self.heads.iter().filter(|row| row.class == class).count();
            let text = Text::new(format!("{name}, {count} heads"), (x + 22.0, Y), Align::Left, 12.0, INK);
            x = text.frame().right + 22.0;
            figure.text(text);
        }
        let of = |value: fn(&PatternRow) -> f64| self.heads.iter().map(|row| value(row)).collect::<Vec<_>>();
        if let Some(found) = spearman(&of(|row| row.concentration), &of(|row| row.e_o_l1)) {
            let text =
                format!("rank correlation {found:.2}, named layer.head: largest errors").replace('-', "−");
            figure.text(Text::new(text, (x, Y), Align::Left, 12.0, MUTED));
        }
    }
}

/// Told apart by shape as well as by color.
fn mark(figure: &mut Figure, (x, y): Point, class: HeadClass) {
    match class {
        HeadClass::Streaming => {
            figure.disk((x, y), 4.2, WHITE);
            figure.disk((x, y), 3.5, BLUE);
        }
        HeadClass::Retrieval => {
            let corners = |r: f64| vec![(x, y - r), (x + r, y), (x, y + r), (x - r, y)];
            figure.fill(corners(5.4), WHITE);
            figure.fill(corners(4.6), VERMILION);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Shape;
    use super::*;

    fn row(head: usize, pair: &str, concentration: f64, e_o_l1: f64) -> PatternRow {
        PatternRow {
            layer: 3,
            head,
            kv_head: 0,
            entropy: 1.0,
            concentration,
            first_mass: 0.5,
            recent_mass: 0.3,
            top_mass: 0.5,
            class: if concentration > 0.5 { HeadClass::Streaming } else { HeadClass::Retrieval },
            pair: pair.parse().expect("a pair"),
            e_a: e_o_l1,
            e_o_l1,
            e_o_elementwise: e_o_l1,
        }
    }

    fn texts(rows: &[PatternRow]) -> Vec<String> {
        let figure = figure(rows, &Context::default());
        let text = |shape: &Shape| if let Shape::Text(text) = shape { Some(text.text.clone()) } else { None };
        figure.shapes.iter().filter_map(text).collect()
    }

    #[test]
    fn heads_stand_at_the_pair_of_narrowest_keys_and_widest_values() {
        let rows = [
            row(0, "K2V8", 0.9, 0.1),
            row(0, "KV2", 0.9, 0.5),
            row(1, "K2V8", 0.2, 0.4),
            row(1, "KV8", 0.2, 0.001),
            row(2, "K2V8", 0.3, f64::INFINITY),
        ];
        let texts = texts(&rows);
        for text in ["e_o at K2V8 (l1)", "streaming, 1 heads", "retrieval, 1 heads", "3.0", "3.1"] {
            assert!(texts.iter().any(|found| found == text), "{text} is missing from {texts:?}");
        }
        assert!(texts.iter().any(|text| text.starts_with("rank correlation −1.00")), "{texts:?}");
    }

    #[test]
    fn heads_of_one_place_have_axes_too() {
        for rows in [vec![row(0, "KV4", 0.5, 0.1)], vec![row(0, "KV4", 0.5, f64::NAN)]] {
            assert!(texts(&rows).contains(&String::from("e_o at KV4 (l1)")));
        }
    }
}
