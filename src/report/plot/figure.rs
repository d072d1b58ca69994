use super::font;
use super::palette::Color;

/// A figure in pixels, the origin top left; shapes drawn in order.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) shapes: Vec<Shape>,
    /// What a reader is told who points at a place; pages only.
    pub(super) hovers: Vec<(Frame, String)>,
}

/// How much room a page gives a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Size {
    /// A column of a page.
    Wide,
    /// A phone.
    Narrow,
}

#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// Corners joined by straight lines.
    Line { points: Vec<Point>, color: Color, width: f64, alpha: f64 },
    /// A filled polygon.
    Fill { points: Vec<Point>, color: Color },
    /// A filled disk.
    Disk { center: Point, radius: f64, color: Color },
    /// One line of text.
    Text(Text),
}

pub(super) type Point = (f64, f64);

#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) text: String,
    /// Left, middle or right end, by `align`, of the middle of the capitals' height.
    pub(super) at: Point,
    pub(super) align: Align,
    /// Em.
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) color: Color,
    /// Reads from bottom to top.
    pub(super) upright: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Middle,
    Right,
}

/// Left, top, right, bottom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Frame {
    pub(super) fn around((x, y): Point, half_width: f64, half_height: f64) -> Self {
        Self { left: x - half_width, top: y - half_height, right: x + half_width, bottom: y + half_height }
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    pub(super) fn holds(&self, inner: &Self) -> bool {
        self.left <= inner.left
            && inner.right <= self.right
            && self.top <= inner.top
            && inner.bottom <= self.bottom
    }

    pub(super) fn corners(&self) -> Vec<Point> {
        vec![
            (self.left, self.top),
            (self.right, self.top),
            (self.right, self.bottom),
            (self.left, self.bottom),
        ]
    }
}

impl Text {
    pub(super) fn new(text: impl Into<String>, at: Point, align: Align, size: f64, color: Color) -> Self {
        Self { text: text.into(), at, align, size, bold: false, color, upright: false }
    }

    pub(super) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(super) fn upright(self) -> Self {
        Self { upright: true, ..self }
    }

    pub(super) fn width(&self) -> f64 {
        font::width(&self.text, self.size, self.bold)
    }

    /// What a text that lies flat covers.
    pub(super) fn frame(&self) -> Frame {
        let (width, (x, y)) = (self.width(), self.at);
        let left = match self.align {
            Align::Left => x,
            Align::Middle => x - width / 2.0,
            Align::Right => x - width,
        };
        let half = self.size * 0.5;
        Frame { left, top: y - half, right: left + width, bottom: y + half }
    }
}

impl Figure {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height, shapes: Vec::new(), hovers: Vec::new() }
    }

    pub(super) fn line(&mut self, points: Vec<Point>, color: Color, width: f64) {
        self.shapes.push(Shape::Line { points, color, width, alpha: 1.0 });
    }

    pub(super) fn faint_line(&mut self, points: Vec<Point>, color: Color, width: f64, alpha: f64) {
        self.shapes.push(Shape::Line { points, color, width, alpha });
    }

    /// A line of dashes between two points.
    pub(super) fn dashes(&mut self, from: Point, to: Point, color: Color, width: f64) {
        const DASH: f64 = 6.0;
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy);
        let at = |distance: f64| {
            let share = (distance / length).min(1.0);
            (from.0 + dx * share, from.1 + dy * share)
        };
        let count = (length / (2.0 * DASH)).ceil() as usize;
        for start in (0..count).map(|i| i as f64 * 2.0 * DASH) {
            self.line(vec![at(start), at(start + DASH)], color, width);
        }
    }

    pub(super) fn fill(&mut self, points: Vec<Point>, color: Color) {
        self.shapes.push(Shape::Fill { points, color });
    }

    pub(super) fn disk(&mut self, center: Point, radius: f64, color: Color) {
        self.shapes.push(Shape::Disk { center, radius, color });
    }

    /// Says `text` to who points at `frame`.
    pub(super) fn hover(&mut self, frame: Frame, text: String) {
        self.hovers.push((frame, text));
    }

    pub(super) fn text(&mut self, text: Text) {
        self.shapes.push(Shape::Text(text));
    }
}
