//! The figure's marks.

use super::super::figure::{Figure, Frame, Point};
use super::super::palette::{BLUE, Color, MUTED, ORANGE, VERMILION, WHITE};

/// Draws a marker.
pub(super) type Mark = fn(&mut Figure, Point);

pub(super) fn front_mark(figure: &mut Figure, at: Point) {
    figure.line(vec![(at.0 - 11.0, at.1), (at.0 + 11.0, at.1)], BLUE, 2.0);
    dot(figure, at);
}

pub(super) fn test_mark(figure: &mut Figure, at: Point) {
    bar(figure, at.0, (at.1 - 9.0, at.1 + 9.0), true, VERMILION);
    ring(figure, at);
}

pub(super) fn limit_mark(figure: &mut Figure, at: Point) {
    figure.dashes((at.0 - 12.0, at.1), (at.0 + 12.0, at.1), MUTED, 1.2);
}

pub(super) fn dot(figure: &mut Figure, at: Point) {
    figure.disk(at, 5.0, WHITE);
    figure.disk(at, 4.0, BLUE);
}

pub(super) fn ring(figure: &mut Figure, at: Point) {
    figure.disk(at, 4.5, VERMILION);
    figure.disk(at, 2.5, WHITE);
}

/// An outline, so that a point of the front shows inside it.
pub(super) fn square(figure: &mut Figure, (x, y): Point) {
    const OUTER: f64 = 6.5;
    const MIDDLE: f64 = 5.5;
    const HALF_WIDTH: f64 = 1.0;
    for side in [-MIDDLE, MIDDLE] {
        figure.fill(Frame::around((x, y + side), OUTER, HALF_WIDTH).corners(), ORANGE);
        figure.fill(Frame::around((x + side, y), HALF_WIDTH, OUTER).corners(), ORANGE);
    }
}

pub(super) fn diamond(figure: &mut Figure, (x, y): Point) {
    let corners = |r: f64| vec![(x, y - r), (x + r, y), (x, y + r), (x - r, y)];
    figure.fill(corners(9.5), WHITE);
    figure.fill(corners(8.0), VERMILION);
}

/// An error bar with a cap at its far end, or at both.
pub(super) fn bar(figure: &mut Figure, x: f64, (from, to): (f64, f64), both: bool, color: Color) {
    figure.faint_line(vec![(x, from), (x, to)], color, 1.4, 0.75);
    figure.faint_line(vec![(x - 4.0, to), (x + 4.0, to)], color, 1.4, 0.75);
    if both {
        figure.faint_line(vec![(x - 4.0, from), (x + 4.0, from)], color, 1.4, 0.75);
    }
}
