//! How far a search came: the hypervolume of what was found, evaluation by evaluation.

use super::figure::{Align, Figure, Frame, Size, Text};
use super::palette::{BLUE, GRID, INK, MUTED, ORANGE};
use super::scale::Scale;

/// Share of the final hypervolume after each evaluation, and what the uniform maps alone have.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct Progress {
    /// One value an evaluation.
    pub(in crate::report) shares: Vec<f64>,
    /// The uniform maps' share, for comparison.
    pub(in crate::report) uniform: Option<f64>,
}

/// The curve, with the uniform maps as a dashed line.
pub(super) fn on_page(progress: &Progress, size: Size) -> Figure {
    let (width, height, left) = if size == Size::Wide { (920.0, 340.0, 88.0) } else { (360.0, 300.0, 56.0) };
    let plot = Frame { left, top: 40.0, right: width - 10.0, bottom: height - 56.0 };
    let chart = Chart::new(progress, plot);
    let mut figure = Figure::new(width, height);
    chart.axes(&mut figure, height);
    chart.curve(&mut figure);
    chart.legend(&mut figure);
    figure
}

struct Chart<'a> {
    progress: &'a Progress,
    plot: Frame,
    x: Scale,
    y: Scale,
}

impl<'a> Chart<'a> {
    fn new(progress: &'a Progress, plot: Frame) -> Self {
        let values = || progress.shares.iter().copied().chain(progress.uniform);
        let low = values().fold(1.0, f64::min);
        Self {
            progress,
            plot,
            x: Scale::between(1.0, progress.shares.len().max(2) as f64),
            y: Scale::linear(low, values().fold(1.0, f64::max)),
        }
    }

    fn at(&self, evaluation: f64, share: f64) -> (f64, f64) {
        let plot = self.plot;
        let x = plot.left + (plot.right - plot.left) * self.x.share(evaluation);
        (x, plot.bottom - (plot.bottom - plot.top) * self.y.share(share))
    }

    fn axes(&self, figure: &mut Figure, height: f64) {
        let plot = self.plot;
        for tick in self.y.ticks() {
            let (_, y) = self.at(1.0, tick.value);
            figure.line(vec![(plot.left, y), (plot.right, y)], GRID, 1.0);
            figure.text(Text::new(tick.label, (plot.left - 10.0, y), Align::Right, 12.0, MUTED));
        }
        let whole = |value: f64| (value - value.round()).abs() < 1e-9;
        for tick in self.x.ticks().into_iter().filter(|tick| whole(tick.value)) {
            let (x, _) = self.at(tick.value, 1.0);
            let label = format!("{:.0}", tick.value);
            figure.text(Text::new(
                label,
                (x.min(plot.right - 6.0), plot.bottom + 18.0),
                Align::Middle,
                12.0,
                MUTED,
            ));
        }
        figure.line(
            vec![(plot.left, plot.top), (plot.left, plot.bottom), (plot.right, plot.bottom)],
            MUTED,
            1.0,
        );
        let middle = ((plot.left + plot.right) / 2.0, (plot.top + plot.bottom) / 2.0);
        figure.text(Text::new("evaluations", (middle.0, height - 16.0), Align::Middle, 13.0, INK));
        let title = Text::new(
            "share of hypervolume",
            (plot.left.min(72.0) - 48.0, middle.1),
            Align::Middle,
            13.0,
            INK,
        );
        figure.text(title.upright());
    }

    /// A staircase: what is found stays found.
    fn curve(&self, figure: &mut Figure) {
        if let Some(uniform) = self.progress.uniform {
            let (_, y) = self.at(1.0, uniform);
            figure.dashes((self.plot.left, y), (self.plot.right, y), ORANGE, 1.6);
        }
        let mut points = Vec::new();
        for (index, &share) in self.progress.shares.iter().enumerate() {
            let point = self.at((index + 1) as f64, share);
            points.extend(points.last().map(|&(_, y)| (point.0, y)));
            points.push(point);
            figure.hover(
                Frame::around(point, 6.0, 10.0),
                format!("after {} evaluations: {share:.4}", index + 1),
            );
        }
        figure.line(points, BLUE, 2.0);
    }

    fn legend(&self, figure: &mut Figure) {
        let entries =
            [(Some(()), BLUE, "search"), (self.progress.uniform.map(|_| ()), ORANGE, "uniform maps alone")];
        let mut x = self.plot.left;
        for (_, color, text) in entries.into_iter().filter(|(there, ..)| there.is_some()) {
            figure.line(vec![(x, 16.0), (x + 22.0, 16.0)], color, 2.0);
            let text = Text::new(text, (x + 30.0, 16.0), Align::Left, 12.0, INK);
            x = text.frame().right + 20.0;
            figure.text(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Shape;
    use super::*;

    #[test]
    fn the_curve_stays_inside_its_axes() {
        for size in [Size::Wide, Size::Narrow] {
            let figure = on_page(&Progress { shares: vec![0.2, 0.9, 1.0], uniform: Some(0.7) }, size);
            let inside = |&(x, y): &(f64, f64)| {
                (0.0..=figure.width).contains(&x) && (0.0..=figure.height).contains(&y)
            };
            for shape in &figure.shapes {
                match shape {
                    Shape::Line { points, .. } => assert!(points.iter().all(inside)),
                    Shape::Text(text) if !text.upright => {
                        let frame = text.frame();
                        assert!(
                            inside(&(frame.left, frame.top)) && inside(&(frame.right, frame.bottom)),
                            "{text:?}"
                        );
                    }
                    _ => {}
                }
            }
            assert_eq!(figure.hovers.len(), 3);
        }
    }

    #[test]
    fn one_evaluation_is_a_curve_too() {
        let figure = on_page(&Progress { shares: vec![1.0], uniform: None }, Size::Narrow);
        assert_eq!(figure.hovers.len(), 1);
    }
}
