//! `dgap.csv`: what is left of the drift by the share of steps that are corrected, a panel a setting.

use crate::report::dgap_rows::{DgapGate, DgapRow, DgapText};

use super::Context;
use super::figure::{Align, Figure, Frame, Point, Text};
use super::palette::{BLUE, Color, GREEN, GRID, INK, MUTED, ORANGE, PURPLE, SKY, VERMILION};
use super::scale::Scale;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 84.0;
/// Where lines end; their names stand to the right.
const RIGHT: f64 = 610.0;
const TOP: f64 = 76.0;
const HEIGHT: f64 = 250.0;
const GAP: f64 = 74.0;
/// Names of lines are at least so far apart.
const LINE: f64 = 15.0;

const COLORS: [Color; 6] = [SKY, ORANGE, PURPLE, GREEN, BLUE, VERMILION];

/// Drift over the share of corrected steps, for each corrector, between no correction and the oracles.
pub(super) fn figure(rows: &[DgapRow], context: &Context) -> Figure {
    let panel = |row: &DgapRow| (row.setting.clone(), row.trained_on.clone(), row.text);
    let mut settings = Vec::new();
    for row in rows {
        let setting = panel(row);
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    let height = TOP + settings.len() as f64 * (HEIGHT + GAP);
    let mut figure = Figure::new(WIDTH, height);
    figure.text(Text::new(context.title("Drift with DGAP"), (LEFT, 26.0), Align::Left, 16.0, INK).bold());
    for (index, setting) in settings.iter().enumerate() {
        let of_panel = |row: &&DgapRow| panel(row) == *setting;
        let top = TOP + index as f64 * (HEIGHT + GAP);
        let frame = Frame { left: LEFT, top, right: RIGHT, bottom: top + HEIGHT };
        let name = title(setting);
        Panel::new(rows.iter().filter(of_panel).collect(), frame).draw(&name, &mut figure);
    }
    figure
}

fn title((setting, trained_on, text): &(String, String, DgapText)) -> String {
    let heads =
        if setting == trained_on { String::new() } else { format!(", heads trained on {trained_on}") };
    let on = match text {
        DgapText::Continuation => "",
        DgapText::Prompt => ", on the prompts",
    };
    format!("{setting}{heads}{on}")
}

/// The rows of one setting, and where they are drawn.
struct Panel<'a> {
    rows: Vec<&'a DgapRow>,
    frame: Frame,
    y: Scale,
}

impl<'a> Panel<'a> {
    fn new(rows: Vec<&'a DgapRow>, frame: Frame) -> Self {
        let most = rows.iter().map(|row| row.js).fold(0.0, f64::max);
        Self { rows, frame, y: Scale::linear(0.0, if most > 0.0 { most } else { 1.0 }) }
    }

    fn point(&self, rate: f64, js: f64) -> Point {
        let Frame { left, right, top, bottom } = self.frame;
        (left + (right - left) * rate, bottom - (bottom - top) * self.y.share(js))
    }

    fn draw(&self, name: &str, figure: &mut Figure) {
        self.axes(name, figure);
        let mut labels = self.bounds(figure);
        labels.extend(self.curves(figure));
        labels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut lowest = f64::NEG_INFINITY;
        for (y, text, color) in labels {
            lowest = y.max(lowest + LINE);
            figure.text(Text::new(text, (RIGHT + 10.0, lowest), Align::Left, 11.5, color));
        }
    }

    fn axes(&self, name: &str, figure: &mut Figure) {
        let Frame { left, right, top, bottom } = self.frame;
        figure.text(Text::new(name, (left, top - 16.0), Align::Left, 13.0, INK).bold());
        for tick in self.y.ticks() {
            let (_, y) = self.point(0.0, tick.value);
            figure.line(vec![(left, y), (right, y)], GRID, 1.0);
            figure.text(Text::new(tick.label, (left - 10.0, y), Align::Right, 11.5, MUTED));
        }
        for tick in Scale::linear(0.0, 1.0).ticks() {
            let (x, _) = self.point(tick.value, 0.0);
            figure.text(Text::new(tick.label, (x, bottom + 16.0), Align::Middle, 11.5, MUTED));
        }
        figure.line(vec![(left, top), (left, bottom), (right, bottom)], MUTED, 1.0);
        let middle = ((left + right) / 2.0, (top + bottom) / 2.0);
        let x = "share of steps that are corrected, riskiest first";
        figure.text(Text::new(x, (middle.0, bottom + 36.0), Align::Middle, 12.0, INK));
        figure.text(Text::new("JS drift (bits)", (26.0, middle.1), Align::Middle, 12.0, INK).upright());
    }

    /// No correction above, the oracles below.
    fn bounds(&self, figure: &mut Figure) -> Vec<(f64, String, Color)> {
        let bounds = self.rows.iter().filter(|row| row.head == "none" || row.head.starts_with("oracle-"));
        let draw = |row: &&DgapRow| {
            let (from, to) = (self.point(0.0, row.js), self.point(1.0, row.js));
            figure.dashes(from, to, MUTED, 1.2);
            (to.1, row.head.clone(), MUTED)
        };
        bounds.map(draw).collect()
    }

    /// A line a corrector, a dot where its threshold is.
    fn curves(&self, figure: &mut Figure) -> Vec<(f64, String, Color)> {
        let none = self.rows.iter().find(|row| row.head == "none").map(|row| row.js);
        let always =
            self.rows.iter().filter(|row| row.gate == DgapGate::Always && !row.head.starts_with("oracle-"));
        let mut labels = Vec::new();
        for (index, last) in always.enumerate() {
            let color = COLORS[index % COLORS.len()];
            let of_head = |row: &&&DgapRow| row.head == last.head;
            let curve = self.rows.iter().filter(of_head).filter(|row| row.gate != DgapGate::Gated);
            let mut points: Vec<(f64, f64)> = curve.map(|row| (row.trigger_rate, row.js)).collect();
            points.extend(none.map(|js| (0.0, js)));
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            figure.line(points.iter().map(|&(rate, js)| self.point(rate, js)).collect(), color, 1.8);
            for row in self.rows.iter().filter(of_head).filter(|row| row.gate == DgapGate::Gated) {
                figure.disk(self.point(row.trigger_rate, row.js), 3.5, color);
            }
            labels.push((self.point(1.0, last.js).1, last.head.clone(), color));
        }
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Shape;
    use super::*;

    fn row(head: &str, gate: DgapGate, trigger_rate: f64, js: f64) -> DgapRow {
        let name = || String::from("KV1");
        DgapRow {
            setting: name(),
            trained_on: name(),
            head: head.into(),
            gate,
            trigger_rate,
            js,
            ..DgapRow::default()
        }
    }

    #[test]
    fn a_corrector_is_a_line_between_no_correction_and_always_with_a_dot_at_its_threshold() {
        let rows = [
            row("none", DgapGate::Never, 0.0, 0.4),
            row("oracle-order", DgapGate::Always, 1.0, 0.1),
            row("c3", DgapGate::Always, 1.0, 0.2),
            row("c3", DgapGate::Curve, 0.5, 0.25),
            row("c3", DgapGate::Gated, 0.6, 0.22),
        ];
        let figure = figure(&rows, &Context::default());
        let lines = figure.shapes.iter().filter_map(|shape| match shape {
            Shape::Line { points, color, .. } if *color == SKY => Some(points),
            _ => None,
        });
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.len(), 1);
        let falls = lines[0].windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
        assert!(lines[0].len() == 3 && falls, "{lines:?}");
        let dots = figure.shapes.iter().filter(|shape| matches!(shape, Shape::Disk { .. })).count();
        assert_eq!(dots, 1);
    }
}
