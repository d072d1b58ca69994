//! `pareto.csv`: loss against bits.

mod marks;

use crate::report::rows::{ParetoRow, Role};

use super::Context;
use super::figure::{Align, Figure, Frame, Point, Size, Text};
use super::labels::{Labels, Placed};
use super::palette::{BLUE, GRID, INK, MUTED, VERMILION};
use super::scale::{Scale, short};
use marks::{Mark, bar, diamond, dot, front_mark, limit_mark, ring, square, test_mark};

/// Where things stand, in pixels.
#[derive(Clone, Copy)]
struct Layout {
    width: f64,
    height: f64,
    plot: Frame,
    /// Height of the line of the legend that comes first.
    legend: f64,
    /// What the horizontal axis is called.
    bits: &'static str,
}

const WIDE: Layout = Layout {
    width: 920.0,
    height: 600.0,
    plot: Frame { left: 88.0, top: 92.0, right: 896.0, bottom: 530.0 },
    legend: 62.0,
    bits: "equivalent bits (mean of key and value bits, scales excluded)",
};
/// As wide as a page's column, which names the figure above it.
const PAGE: Layout =
    Layout { height: 560.0, plot: Frame { top: 52.0, bottom: 490.0, ..WIDE.plot }, legend: 22.0, ..WIDE };
/// As wide as a phone.
const NARROW: Layout = Layout {
    width: 360.0,
    height: 462.0,
    plot: Frame { left: 56.0, top: 96.0, right: 352.0, bottom: 392.0 },
    legend: 14.0,
    bits: "equivalent bits",
};
const LABEL: f64 = 11.5;
/// From one line of the legend to the next.
const LEGEND_LINE: f64 = 21.0;
/// Bits to the left and right of all points.
const X_MARGIN: f64 = 0.5;
/// How far right of the chosen point its test figure stands, so that the two bars do not lie on each other.
const TEST_OFFSET: f64 = 9.0;

/// The front, the chosen map and the uniform maps.
pub(super) fn figure(rows: &[ParetoRow], context: &Context) -> Figure {
    let mut figure = draw(rows, context, WIDE);
    let title = Text::new(context.title("Pareto front"), (WIDE.plot.left, 28.0), Align::Left, 17.0, INK);
    figure.text(title.bold());
    figure
}

/// The same for a page: without a title, each point with the map that it stands for.
pub(super) fn on_page(rows: &[ParetoRow], context: &Context, size: Size) -> Figure {
    let layout = if size == Size::Wide { PAGE } else { NARROW };
    let mut figure = draw(rows, context, layout);
    let chart = Chart::new(rows, context, layout);
    for row in chart.front.iter().chain(&chart.uniform) {
        figure.hover(Frame::around(chart.point(row), 8.0, 8.0), chart.spoken(row));
    }
    figure
}

fn draw(rows: &[ParetoRow], context: &Context, layout: Layout) -> Figure {
    let chart = Chart::new(rows, context, layout);
    let mut figure = Figure::new(layout.width, layout.height);
    chart.axes(&mut figure, context);
    chart.limit(&mut figure);
    chart.front(&mut figure);
    chart.uniform(&mut figure);
    chart.chosen(&mut figure);
    chart.labels(&mut figure);
    chart.legend(&mut figure);
    figure
}

/// Rows by role, and where values lie.
struct Chart<'a> {
    /// The chosen one included, fewest bits first.
    front: Vec<&'a ParetoRow>,
    uniform: Vec<&'a ParetoRow>,
    chosen: Option<&'a ParetoRow>,
    split: Split,
    x: Scale,
    y: Scale,
    max_loss: Option<f64>,
    layout: Layout,
}

/// Whose losses are drawn: one split for all, since losses of two do not compare.
#[derive(Clone, Copy, PartialEq)]
enum Split {
    Search,
    Select,
}

impl Split {
    fn of(rows: &[ParetoRow]) -> Self {
        if rows.iter().all(|row| row.select_loss.is_some()) { Self::Select } else { Self::Search }
    }

    fn loss(self, row: &ParetoRow) -> f64 {
        match self {
            Self::Search => row.search_loss,
            Self::Select => row.select_loss.unwrap_or(row.search_loss),
        }
    }

    fn upper(self, row: &ParetoRow) -> Option<f64> {
        row.select_upper.filter(|_| self == Self::Select)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Search => "search split",
            Self::Select => "select split",
        }
    }
}

impl<'a> Chart<'a> {
    fn new(rows: &'a [ParetoRow], context: &Context, layout: Layout) -> Self {
        let split = Split::of(rows);
        let mut front: Vec<_> = rows.iter().filter(|row| row.role != Role::Uniform).collect();
        front.sort_by(|a, b| a.equivalent_bits.total_cmp(&b.equivalent_bits));
        let losses: Vec<f64> = rows
            .iter()
            .flat_map(|row| {
                [Some(split.loss(row)), split.upper(row), row.test_loss, row.test_low, row.test_high]
            })
            .chain([context.max_loss])
            .flatten()
            .collect();
        let bits = || rows.iter().map(|row| row.equivalent_bits);
        let (low, high) = (bits().fold(f64::INFINITY, f64::min), bits().fold(f64::NEG_INFINITY, f64::max));
        Self {
            front,
            uniform: rows.iter().filter(|row| row.role == Role::Uniform).collect(),
            chosen: rows.iter().find(|row| row.role == Role::Chosen),
            split,
            x: Scale::between(low - X_MARGIN, high + X_MARGIN),
            y: Scale::fit(losses.iter().copied()),
            max_loss: context.max_loss,
            layout,
        }
    }

    fn x(&self, bits: f64) -> f64 {
        self.layout.plot.left + (self.layout.plot.right - self.layout.plot.left) * self.x.share(bits)
    }

    fn y(&self, loss: f64) -> f64 {
        self.layout.plot.bottom - (self.layout.plot.bottom - self.layout.plot.top) * self.y.share(loss)
    }

    fn point(&self, row: &ParetoRow) -> Point {
        (self.x(row.equivalent_bits), self.y(self.split.loss(row)))
    }

    fn axes(&self, figure: &mut Figure, context: &Context) {
        let Layout { plot, height, bits, .. } = self.layout;
        for tick in self.y.ticks() {
            let y = self.y(tick.value);
            figure.line(vec![(plot.left, y), (plot.right, y)], GRID, 1.0);
            figure.text(Text::new(tick.label, (plot.left - 10.0, y), Align::Right, 12.0, MUTED));
        }
        for tick in self.x.ticks() {
            let x = self.x(tick.value);
            figure.line(vec![(x, plot.top), (x, plot.bottom)], GRID, 1.0);
            figure.text(Text::new(tick.label, (x, plot.bottom + 18.0), Align::Middle, 12.0, MUTED));
        }
        figure.line(
            vec![(plot.left, plot.top), (plot.left, plot.bottom), (plot.right, plot.bottom)],
            MUTED,
            1.0,
        );
        let middle = ((plot.left + plot.right) / 2.0, (plot.top + plot.bottom) / 2.0);
        figure.text(Text::new(bits, (middle.0, height - 28.0), Align::Middle, 13.0, INK));
        let loss = format!("{}, {}", context.objective.as_deref().unwrap_or("loss"), self.split.name());
        figure.text(
            Text::new(loss, (plot.left - 64.0_f64.min(plot.left - 8.0), middle.1), Align::Middle, 13.0, INK)
                .upright(),
        );
    }

    fn limit(&self, figure: &mut Figure) {
        if let Some(max_loss) = self.max_loss {
            let y = self.y(max_loss);
            figure.dashes((self.layout.plot.left, y), (self.layout.plot.right, y), MUTED, 1.2);
        }
    }

    fn uniform(&self, figure: &mut Figure) {
        for row in &self.uniform {
            square(figure, self.point(row));
        }
    }

    fn front(&self, figure: &mut Figure) {
        for row in &self.front {
            if let Some(upper) = self.split.upper(row) {
                let (x, y) = self.point(row);
                bar(figure, x, (y, self.y(upper)), false, BLUE);
            }
        }
        figure.line(self.front.iter().map(|row| self.point(row)).collect(), BLUE, 2.0);
        for row in &self.front {
            dot(figure, self.point(row));
        }
    }

    fn chosen(&self, figure: &mut Figure) {
        let Some(row) = self.chosen else { return };
        diamond(figure, self.point(row));
        if let Some((at, low, high)) = self.test(row) {
            bar(figure, at.0, (low, high), true, VERMILION);
            ring(figure, at);
        }
    }

    /// Where the test figure stands, and the ends of its interval.
    fn test(&self, row: &ParetoRow) -> Option<(Point, f64, f64)> {
        let (loss, low, high) = (row.test_loss?, row.test_low?, row.test_high?);
        let x = self.x(row.equivalent_bits) + TEST_OFFSET;
        Some(((x, self.y(loss)), self.y(low), self.y(high)))
    }

    fn labels(&self, figure: &mut Figure) {
        let mut labels = self.obstacles();
        if let Some(row) = self.chosen {
            let texts = chosen_texts(row);
            let placed =
                texts.iter().find_map(|text| labels.place(text, self.point(row), LABEL + 0.5, VERMILION));
            if let Some(placed) = placed {
                Placed { text: placed.text.bold(), ..placed }.draw(figure);
            }
        }
        // From the top down, so that of two markers that almost touch the upper one has the upper label.
        let mut uniform = self.uniform.clone();
        uniform.sort_by(|a, b| self.point(a).1.total_cmp(&self.point(b).1));
        for row in uniform {
            let name = row.map.pairs().first().map(ToString::to_string).unwrap_or_default();
            if let Some(placed) = labels.place(&name, self.point(row), LABEL, INK) {
                placed.draw(figure);
            }
        }
    }

    /// All that a label must not cover.
    fn obstacles(&self) -> Labels {
        let mut labels = Labels::new(self.layout.plot);
        let points: Vec<Point> = self.front.iter().map(|row| self.point(row)).collect();
        labels.block_line(&points);
        for row in self.front.iter().chain(&self.uniform) {
            let (x, y) = self.point(row);
            labels.block(Frame::around((x, y), 7.0, 7.0));
            if let Some(upper) = self.split.upper(row).filter(|_| row.role != Role::Uniform) {
                labels.block(Frame { left: x - 4.0, top: self.y(upper) - 2.0, right: x + 4.0, bottom: y });
            }
        }
        if let Some((at, low, high)) = self.chosen.and_then(|row| self.test(row)) {
            labels.block(Frame { left: at.0 - 6.0, top: high - 2.0, right: at.0 + 6.0, bottom: low + 2.0 });
        }
        if let Some(max_loss) = self.max_loss {
            labels.block_line(&[
                (self.layout.plot.left, self.y(max_loss)),
                (self.layout.plot.right, self.y(max_loss)),
            ]);
        }
        labels
    }

    fn legend(&self, figure: &mut Figure) {
        let left = if self.layout.width < WIDE.width { 12.0 } else { self.layout.plot.left };
        let (mut x, mut y) = (left, self.layout.legend);
        for (mark, text) in self.legend_entries() {
            let width = Text::new(text.as_str(), (0.0, 0.0), Align::Left, 12.0, INK).width();
            if x > left && x + 26.0 + width > self.layout.width {
                (x, y) = (left, y + LEGEND_LINE);
            }
            mark(figure, (x + 9.0, y));
            figure.text(Text::new(text, (x + 26.0, y), Align::Left, 12.0, INK));
            x += 26.0 + width + 24.0;
        }
    }

    fn legend_entries(&self) -> Vec<(Mark, String)> {
        let bars = self.front.iter().any(|row| self.split.upper(row).is_some());
        let front = if bars { "front, bar to its 95 % upper bound" } else { "front" };
        let mut entries: Vec<(Mark, String)> = vec![(front_mark, front.to_owned())];
        if !self.uniform.is_empty() {
            entries.push((square, String::from("one pair for all layers")));
        }
        if let Some(row) = self.chosen {
            entries.push((diamond, String::from("chosen")));
            if self.test(row).is_some() {
                entries.push((test_mark, String::from("on the test split, 95 % interval")));
            }
        }
        if let Some(max_loss) = self.max_loss {
            entries.push((limit_mark, format!("limit {}", short(max_loss))));
        }
        entries
    }

    /// What a row says when it is pointed at.
    fn spoken(&self, row: &ParetoRow) -> String {
        let role = match row.role {
            Role::Front => "front",
            Role::Uniform => "one pair for all layers",
            Role::Chosen => "chosen",
        };
        let loss = short(self.split.loss(row));
        format!(
            "{role}: {} bits, loss {loss} on the {}\n{}",
            short(row.equivalent_bits),
            self.split.name(),
            row.map
        )
    }
}

/// The chosen map's label, the fullest form first.
fn chosen_texts(row: &ParetoRow) -> Vec<String> {
    let bits = format!("{} bits", short(row.equivalent_bits));
    match (row.test_loss, row.test_low, row.test_high) {
        (Some(loss), Some(low), Some(high)) => {
            let test = format!("{bits}, test {} [{}, {}]", short(loss), short(low), short(high));
            vec![test, bits]
        }
        _ => vec![bits],
    }
}

#[cfg(test)]
mod tests;
