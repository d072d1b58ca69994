//! Rows of `kvtune bench`: how long a step takes with each cache, a panel a cell.

use std::path::Path;

use crate::bench::BenchRow;

use super::Context;
use super::figure::{Align, Figure, Frame, Text};
use super::palette::{BLUE, GRID, INK, MUTED, SKY};
use super::scale::{Scale, short};

const WIDTH: f64 = 760.0;
/// Names of configurations end here, and bars begin.
const LEFT: f64 = 170.0;
/// Where the longest bar may end; figures stand to the right of each.
const RIGHT: f64 = 500.0;
const TOP: f64 = 60.0;
/// Of a cell's name, and the room below its axis.
const HEAD: f64 = 34.0;
const FOOT: f64 = 54.0;
const ROW: f64 = 24.0;
const BAR: f64 = 14.0;
/// Characters of a name that fit left of the bars.
const ROOM: usize = 20;

/// Milliseconds of a step as bars, the spread over rounds as a line, and what the cache takes beside them.
pub(super) fn figure(rows: &[BenchRow], context: &Context) -> Figure {
    let cells: Vec<&[BenchRow]> = rows.chunk_by(|a, b| a.cell == b.cell).collect();
    let height = cells.iter().map(|rows| HEAD + FOOT + ROW * rows.len() as f64).sum::<f64>();
    let mut figure = Figure::new(WIDTH, TOP + height);
    figure.text(Text::new(context.title("A step of decoding"), (24.0, 26.0), Align::Left, 16.0, INK).bold());
    let mut top = TOP;
    for rows in cells {
        let panel = Panel::new(rows, top + HEAD);
        panel.draw(&mut figure);
        top = panel.frame.bottom + FOOT;
    }
    figure
}

/// The rows of one cell, and where they are drawn.
struct Panel<'a> {
    rows: &'a [BenchRow],
    frame: Frame,
    x: Scale,
}

impl<'a> Panel<'a> {
    fn new(rows: &'a [BenchRow], top: f64) -> Self {
        let most = rows.iter().map(|row| row.step_ms_greatest.max(row.step_ms)).fold(0.0, f64::max);
        let frame = Frame { left: LEFT, top, right: RIGHT, bottom: top + ROW * rows.len() as f64 };
        Self { rows, frame, x: Scale::linear(0.0, if most > 0.0 { most } else { 1.0 }) }
    }

    fn at(&self, ms: f64) -> f64 {
        self.frame.left + (self.frame.right - self.frame.left) * self.x.share(ms)
    }

    fn draw(&self, figure: &mut Figure) {
        self.axis(figure);
        for (index, row) in self.rows.iter().enumerate() {
            self.bar(row, index == 0, self.frame.top + ROW * (index as f64 + 0.5), figure);
        }
    }

    fn axis(&self, figure: &mut Figure) {
        let Frame { left, top, bottom, right } = self.frame;
        let Some(first) = self.rows.first() else { return };
        let sequences = if first.cell.batch == 1 { "sequence" } else { "sequences" };
        let name = format!("{} {sequences} of {} tokens", first.cell.batch, first.cell.context);
        figure.text(Text::new(name, (24.0, top - 18.0), Align::Left, 13.0, INK).bold());
        for tick in self.x.ticks() {
            let x = self.at(tick.value);
            figure.line(vec![(x, top), (x, bottom)], GRID, 1.0);
            figure.text(Text::new(tick.label, (x, bottom + 12.0), Align::Middle, 11.0, MUTED));
        }
        figure.line(vec![(left, top), (left, bottom)], MUTED, 1.0);
        let middle = ((left + right) / 2.0, bottom + 29.0);
        figure.text(Text::new("milliseconds a step", middle, Align::Middle, 11.5, INK));
    }

    /// The first configuration is what the others are compared with, so it has a color of its own.
    fn bar(&self, row: &BenchRow, is_first: bool, y: f64, figure: &mut Figure) {
        let color = if is_first { SKY } else { BLUE };
        let (left, right) = (self.frame.left, self.at(row.step_ms));
        let corners = Frame { left, top: y - BAR / 2.0, right, bottom: y + BAR / 2.0 }.corners();
        figure.fill(corners, color);
        let (least, greatest) = (self.at(row.step_ms_least), self.at(row.step_ms_greatest));
        figure.line(vec![(least, y), (greatest, y)], INK, 1.2);
        figure.text(Text::new(name(&row.configuration), (left - 10.0, y), Align::Right, 12.0, INK));
        let says =
            format!("{} ms, {:.2} ×, {} MiB", short(row.step_ms), row.speedup, short(row.cache_mib.round()));
        figure.text(Text::new(says, (right.max(greatest) + 10.0, y), Align::Left, 11.5, MUTED));
    }
}

/// A configuration's name as far as there is room: of a path the file's, of a long one its end.
fn name(configuration: &str) -> String {
    let file = Path::new(configuration).file_name().and_then(|name| name.to_str()).unwrap_or(configuration);
    let count = file.chars().count();
    match count > ROOM {
        true => std::iter::once('…').chain(file.chars().skip(count - ROOM)).collect(),
        false => file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Shape;
    use super::*;
    use crate::bench::Cell;

    fn row(context: usize, configuration: &str, step_ms: f64) -> BenchRow {
        BenchRow {
            cell: Cell { batch: 8, context },
            configuration: configuration.into(),
            prefill_tokens_per_s: 1.0,
            step_ms,
            step_ms_least: step_ms - 1.0,
            step_ms_greatest: step_ms + 1.0,
            decode_tokens_per_s: 1.0,
            speedup: 1.0,
            cache_mib: 1.0,
            storage_bits: 32.0,
            floor_share: 0.5,
        }
    }

    #[test]
    fn a_name_that_is_long_or_a_path_stays_left_of_the_bars() {
        assert_eq!(name("KV8"), "KV8");
        assert_eq!(name("results/smollm2-135m/kivi/precision-4.0.yaml"), "precision-4.0.yaml");
        let long = name("a-name-that-is-far-longer-than-the-room.yaml");
        assert!(long.starts_with('…') && long.ends_with("room.yaml"), "{long}");
        assert!(Text::new(long, (LEFT - 10.0, 0.0), Align::Right, 12.0, INK).frame().left > 0.0);
    }

    #[test]
    fn a_bar_is_as_long_as_its_step_on_the_axis_of_its_own_cell() {
        let rows = [row(512, "full", 20.0), row(512, "KV8", 10.0), row(4096, "full", 200.0)];
        let figure = figure(&rows, &Context::default());
        let bars = figure.shapes.iter().filter_map(|shape| match shape {
            Shape::Fill { points, .. } => Some(points[1].0 - points[0].0),
            _ => None,
        });
        let bars: Vec<f64> = bars.collect();
        assert_eq!(bars.len(), 3);
        assert!((bars[0] - 2.0 * bars[1]).abs() < 1e-9, "{bars:?}");
        assert!((bars[2] - bars[0]).abs() < 0.2 * bars[0], "each cell has an axis of its own: {bars:?}");
    }
}
