//! Where labels go: beside their points, on nothing else.

use super::figure::{Align, Figure, Frame, Point, Text};
use super::palette::{Color, MUTED};

/// Places labels one after another; each takes the first place that is free.
pub(super) struct Labels {
    inside: Frame,
    taken: Vec<Frame>,
}

/// A label found a place.
pub(super) struct Placed {
    pub(super) text: Text,
    /// From point to label, where the label does not stand right beside its point.
    pub(super) leader: Option<[Point; 2]>,
}

impl Placed {
    pub(super) fn draw(self, figure: &mut Figure) {
        if let Some([from, to]) = self.leader {
            figure.faint_line(vec![from, to], MUTED, 1.0, 0.6);
        }
        figure.text(self.text);
    }
}

/// Directions to try, in the order of preference: above and to the right first, where a falling front leaves room.
const DIRECTIONS: [Point; 8] =
    [(1.0, -1.0), (1.0, 0.0), (0.0, -1.0), (1.0, 1.0), (-1.0, 1.0), (-1.0, 0.0), (0.0, 1.0), (-1.0, -1.0)];

/// Distances from the point to try, nearest first, in pixels; from the third on with a leader line.
const DISTANCES: [f64; 6] = [11.0, 15.0, 23.0, 33.0, 46.0, 62.0];
const WITH_LEADER: f64 = 23.0;

impl Labels {
    pub(super) fn new(inside: Frame) -> Self {
        Self { inside, taken: Vec::new() }
    }

    /// Keeps labels off a frame.
    pub(super) fn block(&mut self, frame: Frame) {
        self.taken.push(frame);
    }

    /// Keeps labels off a line, by small frames along it.
    pub(super) fn block_line(&mut self, points: &[Point]) {
        const EVERY: f64 = 6.0;
        for pair in points.windows(2) {
            let (dx, dy) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
            let count = (dx.hypot(dy) / EVERY).ceil().max(1.0) as usize;
            for i in 0..=count {
                let share = i as f64 / count as f64;
                self.block(Frame::around((pair[0].0 + dx * share, pair[0].1 + dy * share), 2.0, 2.0));
            }
        }
    }

    /// A free place for the label of `point`, or none: a label missing is better than two on each other.
    pub(super) fn place(&mut self, text: &str, point: Point, size: f64, color: Color) -> Option<Placed> {
        let places = DISTANCES.iter().flat_map(|&distance| DIRECTIONS.iter().map(move |&d| (distance, d)));
        let found = places
            .map(|(distance, direction)| {
                (distance, direction, beside(text, point, size, color, distance, direction))
            })
            .find(|(_, _, text)| self.free(&text.frame()))?;
        let (distance, direction, text) = found;
        self.block(text.frame());
        let leader = (distance >= WITH_LEADER).then(|| leader(point, distance, direction));
        Some(Placed { text, leader })
    }

    fn free(&self, frame: &Frame) -> bool {
        self.inside.holds(frame) && !self.taken.iter().any(|taken| taken.overlaps(frame))
    }
}

fn beside(text: &str, point: Point, size: f64, color: Color, distance: f64, (dx, dy): Point) -> Text {
    let align = match dx {
        dx if dx > 0.0 => Align::Left,
        dx if dx < 0.0 => Align::Right,
        _ => Align::Middle,
    };
    let at = (point.0 + dx * distance, point.1 + dy * (distance + size / 4.0));
    Text::new(text, at, align, size, color)
}

/// From just outside the marker to just before the label.
fn leader(point: Point, distance: f64, (dx, dy): Point) -> [Point; 2] {
    let at = |d: f64| (point.0 + dx * d, point.1 + dy * d);
    [at(8.0), at(distance - 4.0)]
}

#[cfg(test)]
mod tests {
    use super::super::palette::INK;
    use super::*;

    const INSIDE: Frame = Frame { left: 0.0, top: 0.0, right: 300.0, bottom: 300.0 };

    #[test]
    fn labels_of_a_crowd_do_not_overlap() {
        let mut labels = Labels::new(INSIDE);
        let points: Vec<Point> =
            (0..9).map(|i| (140.0 + f64::from(i % 3) * 6.0, 150.0 + f64::from(i / 3) * 6.0)).collect();
        points.iter().for_each(|&point| labels.block(Frame::around(point, 4.0, 4.0)));
        let placed: Vec<Frame> = points
            .iter()
            .filter_map(|&point| labels.place("K8V4", point, 11.0, INK))
            .map(|placed| placed.text.frame())
            .collect();
        assert!(placed.len() >= 7, "only {} of 9 labels found a place", placed.len());
        for (i, a) in placed.iter().enumerate() {
            assert!(INSIDE.holds(a));
            assert!(placed[..i].iter().all(|b| !a.overlaps(b)), "label {i} lies on another");
            assert!(
                points.iter().all(|&p| !a.overlaps(&Frame::around(p, 4.0, 4.0))),
                "label {i} lies on a point"
            );
        }
    }

    #[test]
    fn a_label_without_room_is_left_out() {
        let mut labels = Labels::new(Frame { left: 0.0, top: 0.0, right: 10.0, bottom: 10.0 });
        assert!(labels.place("K8V4", (5.0, 5.0), 11.0, INK).is_none());
    }
}
