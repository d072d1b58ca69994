//! The chosen map: bits of each layer's keys above those of its values, with the group that the layer is in.

use crate::precision::{Bits, PrecisionMap};

use super::Context;
use super::figure::{Align, Figure, Frame, Size, Text};
use super::palette::{Color, INK, MUTED, WHITE, sequential};

/// Left of the cells, where rows are named.
const LEFT: f64 = 56.0;
const CELL_HEIGHT: f64 = 24.0;
/// From one band of layers to the next: layer numbers, keys, values, groups, and air.
const BAND: f64 = 20.0 + 2.0 * CELL_HEIGHT + 20.0 + 16.0;
/// A cell narrower than this has no room for a number of two digits.
const LEAST_CELL: f64 = 19.0;
const MOST_CELL: f64 = 30.0;

/// Above the strip, for the title.
const HEAD: f64 = 40.0;

/// The strip under a title.
pub(super) fn figure(map: &PrecisionMap, groups: &[String], context: &Context) -> Figure {
    let mut figure = draw(map, groups, Size::Wide, HEAD);
    let title = Text::new(context.title("Bits of each layer"), (8.0, 20.0), Align::Left, 16.0, INK);
    figure.text(title.bold());
    figure
}

/// The strip; `groups` has the letter of each layer's group, or nothing where groups are not known.
pub(super) fn on_page(map: &PrecisionMap, groups: &[String], size: Size) -> Figure {
    draw(map, groups, size, 0.0)
}

fn draw(map: &PrecisionMap, groups: &[String], size: Size, head: f64) -> Figure {
    let width = if size == Size::Wide { 920.0 } else { 360.0 };
    let room = width - LEFT - 8.0;
    let per_band = ((room / LEAST_CELL) as usize).min(map.n_layers()).max(1);
    let bands = map.n_layers().div_ceil(per_band);
    let strip = Strip { map, groups, per_band, cell: (room / per_band as f64).min(MOST_CELL) };
    let mut figure = Figure::new(width, head + BAND * bands as f64);
    (0..bands).for_each(|band| strip.band(&mut figure, band, head + BAND * band as f64));
    figure
}

struct Strip<'a> {
    map: &'a PrecisionMap,
    groups: &'a [String],
    per_band: usize,
    cell: f64,
}

impl Strip<'_> {
    fn band(&self, figure: &mut Figure, band: usize, top: f64) {
        let names = [("layer", 10.0, MUTED), ("keys", 32.0, INK), ("values", 56.0, INK)];
        let groups = (!self.groups.is_empty()).then_some(("group", 78.0, MUTED));
        for (name, y, color) in names.into_iter().chain(groups) {
            figure.text(Text::new(name, (LEFT - 8.0, top + y), Align::Right, 12.0, color));
        }
        let first = band * self.per_band;
        for layer in first..(first + self.per_band).min(self.map.n_layers()) {
            self.layer(figure, layer, LEFT + self.cell * (layer - first) as f64, top);
        }
    }

    fn layer(&self, figure: &mut Figure, layer: usize, left: f64, top: f64) {
        let Some(pair) = self.map.pairs().get(layer) else { return };
        let middle = left + self.cell / 2.0;
        figure.text(Text::new(layer.to_string(), (middle, top + 10.0), Align::Middle, 10.0, MUTED));
        self.side(figure, pair.key, (left, top + 20.0));
        self.side(figure, pair.value, (left, top + 20.0 + CELL_HEIGHT));
        let group = self.groups.get(layer).map_or("", String::as_str);
        figure.text(Text::new(group, (middle, top + 78.0), Align::Middle, 11.0, INK));
        let frame = Frame { left, top, right: left + self.cell, bottom: top + BAND - 16.0 };
        let of_group = if group.is_empty() { String::new() } else { format!(", group {group}") };
        figure.hover(
            frame,
            format!("layer {layer}: keys {} bits, values {} bits{of_group}", pair.key, pair.value),
        );
    }

    /// One side of one layer; more bits are darker.
    fn side(&self, figure: &mut Figure, bits: Bits, (left, top): (f64, f64)) {
        let frame = Frame { left, top, right: left + self.cell, bottom: top + CELL_HEIGHT };
        let color = color(bits);
        figure.fill(frame.corners(), WHITE);
        let inner = Frame {
            left: left + 0.75,
            top: top + 0.75,
            right: frame.right - 0.75,
            bottom: frame.bottom - 0.75,
        };
        figure.fill(inner.corners(), color);
        let at = ((frame.left + frame.right) / 2.0, (frame.top + frame.bottom) / 2.0);
        figure.text(Text::new(bits.to_string(), at, Align::Middle, 12.0, color.ink_on()).bold());
    }
}

/// The place of a width among all widths there are.
fn color(bits: Bits) -> Color {
    let last = Bits::ALL.len() - 1;
    let at = Bits::ALL.iter().position(|&known| known == bits).unwrap_or(last);
    sequential(at as f64 / last as f64)
}

#[cfg(test)]
mod tests {
    use super::super::figure::Shape;
    use super::*;
    use crate::report::parse_map;

    #[test]
    fn every_layer_shows_both_widths_inside_the_figure() {
        let map = parse_map("0-9 K8V4, 10-125 KV2").expect("a map");
        for size in [Size::Wide, Size::Narrow] {
            let figure = on_page(&map, &[], size);
            let whole = Frame { left: 0.0, top: 0.0, right: figure.width, bottom: figure.height };
            let texts: Vec<&Text> = figure
                .shapes
                .iter()
                .filter_map(|shape| if let Shape::Text(text) = shape { Some(text) } else { None })
                .collect();
            assert!(texts.iter().all(|text| whole.holds(&text.frame())), "{size:?}");
            assert_eq!(texts.iter().filter(|text| text.bold).count(), 2 * 126);
            assert_eq!(figure.hovers.len(), 126);
            assert_eq!(figure.hovers[3].1, "layer 3: keys 8 bits, values 4 bits");
        }
    }
}
