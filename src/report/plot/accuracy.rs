//! Rows of `kvtune eval --task`: what answers score for the memory that their caches take.

use crate::report::AccuracyRow;

use super::Context;
use super::figure::{Align, Figure, Frame, Point, Text};
use super::labels::Labels;
use super::palette::{BLUE, Color, GREEN, GRID, INK, MUTED, ORANGE, PURPLE, SKY, VERMILION};
use super::scale::{Scale, short};

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 520.0;
const PLOT: Frame = Frame { left: 84.0, top: 96.0, right: 796.0, bottom: 446.0 };
/// Full precision stands first, and black.
const COLORS: [Color; 7] = [INK, BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY];
/// Normal quantile of a 95 % interval.
const Z: f64 = 1.96;
const MIB: f64 = 1024.0 * 1024.0;

/// The task's main score over the bytes of a question's cache: a line joins what one configuration scores with answers
/// of several lengths after so many worked examples.
pub(super) fn figure(rows: &[AccuracyRow], context: &Context) -> Figure {
    let metric = rows.first().map_or("", |row| &row.metric);
    let chart = Chart::new(rows.iter().filter(|row| row.metric == metric).collect());
    let mut figure = Figure::new(WIDTH, HEIGHT);
    let title = context.title("Score for memory");
    figure.text(Text::new(title, (PLOT.left, 28.0), Align::Left, 17.0, INK).bold());
    chart.legend(&mut figure);
    chart.axes(metric, &mut figure);
    let mut labels = Labels::new(PLOT);
    let lines = chart.lines();
    for line in &lines {
        chart.draw(line, &mut labels, &mut figure);
    }
    for line in &lines {
        chart.name(line, &mut labels, &mut figure);
    }
    figure
}

struct Chart<'a> {
    rows: Vec<&'a AccuracyRow>,
    /// In the order of the rows.
    configurations: Vec<&'a str>,
    x: Scale,
    y: Scale,
}

/// Rows of one configuration and number of examples, by the length of answers.
type Line<'a> = [&'a AccuracyRow];

impl<'a> Chart<'a> {
    fn new(rows: Vec<&'a AccuracyRow>) -> Self {
        let mut configurations: Vec<&str> = Vec::new();
        for row in &rows {
            if !configurations.contains(&&*row.configuration) {
                configurations.push(&row.configuration);
            }
        }
        let sizes = || rows.iter().map(|row| row.cache_bytes / MIB);
        let (low, high) = sizes().fold((f64::INFINITY, 0.0_f64), |(l, h), size| (l.min(size), h.max(size)));
        let most = rows.iter().map(|row| row.score + Z * row.standard_error).fold(0.0, f64::max);
        let y = Scale::linear(0.0, if most > 0.0 { most.min(1.0) } else { 1.0 });
        Self { configurations, x: Scale::log(low, high), y, rows }
    }

    fn lines(&self) -> Vec<Vec<&'a AccuracyRow>> {
        let mut rows = self.rows.clone();
        // Stable, so that the ladder's order is kept.
        rows.sort_by_key(|row| (self.number(row), row.shots));
        let lines = rows.chunk_by(|a, b| a.configuration == b.configuration && a.shots == b.shots);
        lines.map(<[_]>::to_vec).collect()
    }

    fn number(&self, row: &AccuracyRow) -> usize {
        self.configurations.iter().position(|name| *name == row.configuration).unwrap_or(0)
    }

    fn color(&self, row: &AccuracyRow) -> Color {
        COLORS[self.number(row) % COLORS.len()]
    }

    fn at(&self, bytes: f64, score: f64) -> Point {
        let x = PLOT.left + (PLOT.right - PLOT.left) * self.x.share(bytes / MIB);
        (x, PLOT.bottom - (PLOT.bottom - PLOT.top) * self.y.share(score.clamp(0.0, 1.0)))
    }

    fn axes(&self, metric: &str, figure: &mut Figure) {
        let Frame { left, top, right, bottom } = PLOT;
        for tick in self.y.ticks() {
            let (_, y) = self.at(1.0, tick.value);
            figure.line(vec![(left, y), (right, y)], GRID, 1.0);
            figure.text(Text::new(tick.label, (left - 10.0, y), Align::Right, 12.0, MUTED));
        }
        for tick in self.x.ticks() {
            let (x, _) = self.at(tick.value * MIB, 0.0);
            figure.line(vec![(x, top), (x, bottom)], GRID, 1.0);
            figure.text(Text::new(tick.label, (x, bottom + 18.0), Align::Middle, 12.0, MUTED));
        }
        figure.line(vec![(left, top), (left, bottom), (right, bottom)], MUTED, 1.0);
        let middle = ((left + right) / 2.0, (top + bottom) / 2.0);
        let x = "MiB of cache when the answer ends, mean over the questions";
        figure.text(Text::new(x, (middle.0, bottom + 42.0), Align::Middle, 13.0, INK));
        let y = format!("{metric} (bars: 95 %)");
        figure.text(Text::new(y, (26.0, middle.1), Align::Middle, 13.0, INK).upright());
    }

    fn draw(&self, line: &Line<'_>, labels: &mut Labels, figure: &mut Figure) {
        let color = self.color(line[0]);
        let points: Vec<Point> = line.iter().map(|row| self.at(row.cache_bytes, row.score)).collect();
        for (row, &point) in line.iter().zip(&points) {
            let end = |sign: f64| self.at(row.cache_bytes, row.score + sign * Z * row.standard_error);
            figure.faint_line(vec![end(-1.0), end(1.0)], color, 1.2, 0.4);
            figure.disk(point, 3.5, color);
            let says = format!(
                "{}: {} {} at {} MiB",
                row.configuration,
                row.metric,
                short(row.score),
                short(row.cache_bytes / MIB)
            );
            figure.hover(Frame::around(point, 5.0, 5.0), says);
            labels.block(Frame::around(point, 4.0, 4.0));
        }
        labels.block_line(&points);
        figure.line(points, color, 1.6);
    }

    /// How many worked examples stand before a line's questions, where that differs.
    fn name(&self, line: &Line<'_>, labels: &mut Labels, figure: &mut Figure) {
        let differs = self.rows.iter().any(|row| row.shots != self.rows[0].shots);
        let (Some(shots), Some(last)) = (line[0].shots.filter(|_| differs), line.last()) else { return };
        let (point, color) = (self.at(last.cache_bytes, last.score), self.color(last));
        if let Some(placed) = labels.place(&format!("{shots}-shot"), point, 11.0, color) {
            placed.draw(figure);
        }
    }

    fn legend(&self, figure: &mut Figure) {
        const Y: f64 = 62.0;
        let mut x = PLOT.left;
        for (index, name) in self.configurations.iter().enumerate() {
            figure.disk((x + 5.0, Y), 4.5, COLORS[index % COLORS.len()]);
            let file = std::path::Path::new(name).file_name().and_then(|name| name.to_str()).unwrap_or(name);
            let text = Text::new(file, (x + 16.0, Y), Align::Left, 12.0, INK);
            x = text.frame().right + 22.0;
            figure.text(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Shape;
    use super::*;

    fn row(configuration: &str, shots: usize, mib: f64, score: f64) -> AccuracyRow {
        AccuracyRow {
            configuration: configuration.into(),
            metric: "exact".into(),
            shots: Some(shots),
            cache_bytes: mib * MIB,
            score,
            ..AccuracyRow::default()
        }
    }

    #[test]
    fn a_line_joins_the_lengths_of_one_configuration_and_number_of_examples() {
        let rows = [
            row("full", 0, 4.0, 0.1),
            row("KV8", 0, 2.0, 0.1),
            row("full", 0, 8.0, 0.3),
            row("KV8", 0, 4.0, 0.3),
            row("full", 4, 16.0, 0.3),
            row("KV8", 4, 8.0, 0.4),
            AccuracyRow { metric: "other".into(), ..row("KV8", 4, 8.0, 0.9) },
        ];
        let figure = figure(&rows, &Context::default());
        let joined = |of: Color| -> Vec<usize> {
            let lines = figure.shapes.iter().filter_map(|shape| match shape {
                Shape::Line { points, color, width: 1.6, .. } if *color == of => Some(points.len()),
                _ => None,
            });
            lines.collect()
        };
        assert_eq!((joined(INK), joined(BLUE)), (vec![2, 1], vec![2, 1]));
        let texts: Vec<&str> = figure
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Text(text) => Some(&*text.text),
                _ => None,
            })
            .collect();
        assert_eq!(texts.iter().filter(|text| **text == "4-shot").count(), 2, "{texts:?}");
    }

    #[test]
    fn half_the_memory_is_as_far_left_wherever_it_is() {
        let rows = [row("full", 0, 2.0, 0.5), row("full", 0, 4.0, 0.5), row("full", 0, 8.0, 0.5)];
        let chart = Chart::new(rows.iter().collect());
        let x = |mib: f64| chart.at(mib * MIB, 0.5).0;
        assert!(((x(4.0) - x(2.0)) - (x(8.0) - x(4.0))).abs() < 1e-9);
    }
}
