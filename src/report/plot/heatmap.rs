//! `sensitivity.csv`: the attention-output error of each layer at each pair.

use std::collections::BTreeMap;

use crate::precision::PrecisionPair;
use crate::report::rows::SensitivityRow;

use super::Context;
use super::figure::{Align, Figure, Frame, Size, Text};
use super::palette::{Color, GRID, INK, MUTED, sequential};
use super::scale::{Scale, short, three_digits};

/// Where things stand, in pixels.
#[derive(Clone, Copy)]
struct Layout {
    left: f64,
    top: f64,
    /// Room below the cells.
    below: f64,
    /// Room to the right of the cells.
    beside: f64,
    /// Cells together are at least so wide, so that what stands above few pairs fits.
    least_width: f64,
    /// Cells together are at most so wide.
    most_width: f64,
    /// Size of the numbers in the cells.
    value: f64,
    /// Size of the pairs above them.
    pair: f64,
}

const CELL_WIDTH: f64 = 62.0;
/// With a color bar to the right of the cells.
const WIDE: Layout = Layout {
    left: 84.0,
    top: 84.0,
    below: 30.0,
    beside: 118.0,
    least_width: 5.0 * CELL_WIDTH,
    most_width: f64::INFINITY,
    value: 10.5,
    pair: 12.0,
};
/// As wide as a page's column, which names the figure above it.
const PAGE: Layout = Layout { top: 60.0, most_width: 718.0, ..WIDE };
/// As wide as a phone, with the color bar below the cells.
const NARROW: Layout = Layout {
    left: 34.0,
    top: 46.0,
    below: 62.0,
    beside: 6.0,
    least_width: 320.0,
    most_width: 320.0,
    value: 8.0,
    pair: 10.0,
};
const BAR_WIDTH: f64 = 16.0;
/// How far a step of the color bar reaches under the next one, so that no line shows between them.
const SEAM: f64 = 0.6;

/// Layer by pair, color by e_o, with a color bar.
pub(super) fn figure(rows: &[SensitivityRow], context: &Context) -> Figure {
    let mut figure = draw(&Grid::new(rows, WIDE));
    let title = Text::new(context.title("Layer error"), (WIDE.left, 26.0), Align::Left, 16.0, INK);
    figure.text(title.bold());
    figure
}

/// The same for a page: without a title, each cell with its error.
pub(super) fn on_page(rows: &[SensitivityRow], size: Size) -> Figure {
    let grid = Grid::new(rows, if size == Size::Wide { PAGE } else { NARROW });
    let mut figure = draw(&grid);
    for (row, layer) in grid.layers.iter().enumerate() {
        for (column, pair) in grid.pairs.iter().enumerate() {
            let error = grid.errors.get(&(*layer, *pair));
            let error = error.map_or(String::from("not measured"), |error| format!("e_o {}", short(*error)));
            figure.hover(grid.frame(row, column), format!("layer {layer}, {pair}: {error}"));
        }
    }
    figure
}

fn draw(grid: &Grid) -> Figure {
    let mut figure = Figure::new(grid.right() + grid.layout.beside, grid.bottom() + grid.layout.below);
    grid.titles(&mut figure);
    grid.cells(&mut figure);
    match grid.layout.beside > grid.layout.below {
        true => grid.bar(&mut figure),
        false => grid.flat_bar(&mut figure),
    }
    figure
}

struct Grid {
    pairs: Vec<PrecisionPair>,
    layers: Vec<usize>,
    errors: BTreeMap<(usize, PrecisionPair), f64>,
    scale: Scale,
    cell_width: f64,
    cell_height: f64,
    layout: Layout,
}

impl Grid {
    fn new(rows: &[SensitivityRow], layout: Layout) -> Self {
        let mut pairs: Vec<_> = rows.iter().map(|row| row.pair).collect();
        pairs.sort_by(|a, b| b.mean_bits().total_cmp(&a.mean_bits()).then(b.key.cmp(&a.key)));
        pairs.dedup();
        let mut layers: Vec<_> = rows.iter().map(|row| row.layer).collect();
        layers.sort_unstable();
        layers.dedup();
        let cell_height = if layers.len() <= 40 { 20.0 } else { (800.0 / layers.len() as f64).max(4.0) };
        Self {
            cell_width: CELL_WIDTH
                .max(layout.least_width / pairs.len() as f64)
                .min(layout.most_width / pairs.len() as f64),
            cell_height,
            errors: rows.iter().map(|row| ((row.layer, row.pair), row.e_o_l1)).collect(),
            scale: Scale::fit(rows.iter().map(|row| row.e_o_l1)),
            pairs,
            layers,
            layout,
        }
    }

    fn right(&self) -> f64 {
        self.layout.left + self.cell_width * self.pairs.len() as f64
    }

    fn bottom(&self) -> f64 {
        self.layout.top + self.cell_height * self.layers.len() as f64
    }

    fn titles(&self, figure: &mut Figure) {
        let middle = ((self.layout.left + self.right()) / 2.0, (self.layout.top + self.bottom()) / 2.0);
        let pairs = "precision pair, widest first";
        figure.text(Text::new(pairs, (middle.0, self.layout.top - 34.0), Align::Middle, 12.5, INK));
        figure.text(self.layer_title(middle.1));
        for (column, pair) in self.pairs.iter().enumerate() {
            let x = self.layout.left + self.cell_width * (column as f64 + 0.5);
            figure.text(Text::new(
                pair.to_string(),
                (x, self.layout.top - 13.0),
                Align::Middle,
                self.layout.pair,
                MUTED,
            ));
        }
        let every = (13.0 / self.cell_height).ceil() as usize;
        for (row, layer) in self.layers.iter().enumerate().step_by(every) {
            let y = self.layout.top + self.cell_height * (row as f64 + 0.5);
            figure.text(Text::new(
                layer.to_string(),
                (self.layout.left - 10.0, y),
                Align::Right,
                11.5,
                MUTED,
            ));
        }
    }

    /// Beside the layers' numbers, or above them where there is no room.
    fn layer_title(&self, middle: f64) -> Text {
        let Layout { left, top, pair, .. } = self.layout;
        if left >= WIDE.left {
            return Text::new("layer", (left - 50.0, middle), Align::Middle, 12.5, INK).upright();
        }
        Text::new("layer", (left - 6.0, top - 13.0), Align::Right, pair, INK)
    }

    fn cells(&self, figure: &mut Figure) {
        for (row, &layer) in self.layers.iter().enumerate() {
            for (column, &pair) in self.pairs.iter().enumerate() {
                self.cell(figure, self.frame(row, column), self.errors.get(&(layer, pair)).copied());
            }
        }
    }

    fn frame(&self, row: usize, column: usize) -> Frame {
        let (left, top) = (
            self.layout.left + self.cell_width * column as f64,
            self.layout.top + self.cell_height * row as f64,
        );
        Frame { left, top, right: left + self.cell_width, bottom: top + self.cell_height }
    }

    /// One cell; gray where the pair was not measured.
    fn cell(&self, figure: &mut Figure, frame: Frame, error: Option<f64>) {
        let color = error.map_or(GRID, |error| self.color(error));
        figure.fill(frame.corners(), color);
        let Some(error) = error.filter(|_| self.cell_height >= self.layout.value + 3.0) else { return };
        let middle = ((frame.left + frame.right) / 2.0, (frame.top + frame.bottom) / 2.0);
        let text = Text::new(three_digits(error), middle, Align::Middle, self.layout.value, color.ink_on());
        if frame.holds(&text.frame()) {
            figure.text(text);
        }
    }

    fn color(&self, error: f64) -> Color {
        sequential(self.scale.share(error))
    }

    /// The color bar below the cells, from small to large.
    fn flat_bar(&self, figure: &mut Figure) {
        const STEPS: usize = 128;
        const HEIGHT: f64 = 12.0;
        let (top, width) = (self.bottom() + 14.0, self.right() - self.layout.left - 70.0);
        let x = |share: f64| self.layout.left + 62.0 + width * share;
        for step in 0..STEPS {
            let (low, high) = (step as f64 / STEPS as f64, (step + 1) as f64 / STEPS as f64);
            let frame = Frame { left: x(low), top, right: x(high) + SEAM, bottom: top + HEIGHT };
            figure.fill(frame.corners(), sequential((low + high) / 2.0));
        }
        let middle = (self.layout.left, top + HEIGHT / 2.0);
        figure.text(Text::new("e_o (l1)", middle, Align::Left, 11.5, INK));
        let mut free_from = f64::NEG_INFINITY;
        for tick in self.scale.ticks() {
            let at = (x(self.scale.share(tick.value)), top + HEIGHT + 14.0);
            let text = Text::new(tick.label, at, Align::Middle, 10.5, MUTED);
            let frame = text.frame();
            if frame.left >= free_from && frame.right <= self.right() + self.layout.beside {
                free_from = frame.right + 6.0;
                figure.line(vec![(at.0, top + HEIGHT), (at.0, top + HEIGHT + 4.0)], MUTED, 1.0);
                figure.text(text);
            }
        }
    }

    fn bar(&self, figure: &mut Figure) {
        const STEPS: usize = 128;
        let (left, bottom) = (self.right() + 24.0, self.bottom());
        let height = (bottom - self.layout.top).min(420.0);
        let y = |share: f64| self.layout.top + height * (1.0 - share);
        for step in 0..STEPS {
            let (low, high) = (step as f64 / STEPS as f64, (step + 1) as f64 / STEPS as f64);
            let frame = Frame { left, top: y(high), right: left + BAR_WIDTH, bottom: y(low) + SEAM };
            figure.fill(frame.corners(), sequential((low + high) / 2.0));
        }
        figure.text(Text::new("e_o (l1)", (left, self.layout.top - 13.0), Align::Left, 12.0, INK));
        let mut free_below = f64::INFINITY;
        for tick in self.scale.ticks() {
            let at = y(self.scale.share(tick.value));
            if at > free_below {
                continue;
            }
            free_below = at - 14.0;
            figure.line(vec![(left + BAR_WIDTH, at), (left + BAR_WIDTH + 4.0, at)], MUTED, 1.0);
            let text = Text::new(tick.label, (left + BAR_WIDTH + 8.0, at), Align::Left, 11.5, MUTED);
            figure.text(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Shape;
    use super::*;

    fn rows(layers: usize) -> Vec<SensitivityRow> {
        let pairs = [("KV8", 0.004), ("KV4", 0.08), ("KV2", 0.9)];
        let row = |layer: usize, (pair, error): (&str, f64)| {
            let pair: PrecisionPair = pair.parse().expect("a pair");
            let e = error * (1.0 + layer as f64 / 100.0);
            SensitivityRow {
                layer,
                pair,
                equivalent_bits: pair.mean_bits(),
                e_k_l1: e,
                e_k_elementwise: e,
                e_v_l1: e,
                e_v_elementwise: e,
                e_a: e,
                e_o_l1: e,
                e_o_elementwise: e,
            }
        };
        (0..layers).flat_map(|layer| pairs.map(|pair| row(layer, pair))).collect()
    }

    fn texts(figure: &Figure) -> Vec<String> {
        let text = |shape: &Shape| if let Shape::Text(text) = shape { Some(text.text.clone()) } else { None };
        figure.shapes.iter().filter_map(text).collect()
    }

    #[test]
    fn each_cell_shows_its_error() {
        let texts = texts(&figure(&rows(2), &Context::default()));
        for text in ["KV8", "KV4", "KV2", "0", "1", "0.00400", "0.0808", "0.909", "layer", "e_o (l1)"] {
            assert!(texts.iter().any(|t| t == text), "{text} is missing from {texts:?}");
        }
    }

    #[test]
    fn a_deep_model_gets_thin_cells_without_text_and_fewer_layer_numbers() {
        let deep = figure(&rows(126), &Context::default());
        assert!(deep.height < 1100.0, "{}", deep.height);
        let texts = texts(&deep);
        assert!(!texts.contains(&String::from("0.0808")));
        assert!(texts.contains(&String::from("0")) && !texts.contains(&String::from("2")), "{texts:?}");
    }

    #[test]
    fn a_pair_that_was_not_measured_is_gray() {
        let mut rows = rows(2);
        rows.remove(0);
        let figure = figure(&rows, &Context::default());
        let gray = |shape: &&Shape| matches!(shape, Shape::Fill { color, .. } if *color == GRID);
        assert_eq!(figure.shapes.iter().filter(gray).count(), 1);
    }
}
