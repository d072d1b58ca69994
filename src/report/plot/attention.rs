//! Attention of one head, averaged over blocks.

use super::figure::{Align, Figure, Frame, Text};
use super::palette::{INK, MUTED, sequential};
use super::scale::short;

const SIDE: f64 = 512.0;
const PLOT: Frame = Frame { left: 78.0, top: 70.0, right: 78.0 + SIDE, bottom: 70.0 + SIDE };
const BAR_WIDTH: f64 = 16.0;
/// Shares below this look like none at all.
const LEAST: f64 = 1e-4;

/// What is drawn.
#[derive(Clone, Debug)]
pub struct AttentionPicture<'a> {
    /// Above the figure.
    pub title: String,
    /// Tokens of the sequence.
    pub tokens: usize,
    /// Tokens of a block.
    pub block: usize,
    /// `[blocks, blocks]`: share of attention that a block of queries (row) has on a block of keys.
    pub cells: &'a [f32],
    /// Blocks along each side.
    pub blocks: usize,
}

/// Queries downwards, keys to the right, shares by color on a logarithmic scale.
pub(super) fn figure(picture: &AttentionPicture<'_>) -> Figure {
    let mut figure = Figure::new(PLOT.right + 96.0, PLOT.bottom + 56.0);
    figure.text(Text::new(picture.title.clone(), (PLOT.left, 26.0), Align::Left, 15.0, INK).bold());
    cells(&mut figure, picture);
    axes(&mut figure, picture);
    bar(&mut figure);
    figure
}

fn cells(figure: &mut Figure, picture: &AttentionPicture<'_>) {
    let side = SIDE / picture.blocks as f64;
    for (row, cells) in picture.cells.chunks_exact(picture.blocks).enumerate() {
        for (column, &cell) in cells.iter().enumerate().take(row + 1) {
            let (left, top) = (PLOT.left + side * column as f64, PLOT.top + side * row as f64);
            let frame = Frame { left, top, right: left + side, bottom: top + side };
            figure.fill(frame.corners(), sequential(share(f64::from(cell))));
        }
    }
}

fn share(cell: f64) -> f64 {
    (cell.max(LEAST) / LEAST).ln() / (1.0 / LEAST).ln()
}

fn axes(figure: &mut Figure, picture: &AttentionPicture<'_>) {
    let frame = vec![(PLOT.left, PLOT.top), (PLOT.left, PLOT.bottom), (PLOT.right, PLOT.bottom)];
    figure.line(frame, MUTED, 1.0);
    let covered = (picture.blocks * picture.block) as f64;
    for quarter in 0..=4 {
        let token = picture.tokens * quarter / 4;
        let offset = SIDE * token as f64 / covered;
        let label = || token.to_string();
        let below = (PLOT.left + offset, PLOT.bottom + 16.0);
        figure.text(Text::new(label(), below, Align::Middle, 11.5, MUTED));
        let beside = (PLOT.left - 8.0, PLOT.top + offset);
        figure.text(Text::new(label(), beside, Align::Right, 11.5, MUTED));
    }
    let middle = SIDE / 2.0;
    let keys = format!("key token, blocks of {}", picture.block);
    figure.text(Text::new(keys, (PLOT.left + middle, PLOT.bottom + 38.0), Align::Middle, 12.5, INK));
    figure.text(Text::new("query token", (22.0, PLOT.top + middle), Align::Middle, 12.5, INK).upright());
}

fn bar(figure: &mut Figure) {
    const STEPS: usize = 128;
    let left = PLOT.right + 24.0;
    let y = |share: f64| PLOT.bottom - SIDE * share;
    for step in 0..STEPS {
        let (low, high) = (step as f64 / STEPS as f64, (step + 1) as f64 / STEPS as f64);
        let frame = Frame { left, top: y(high), right: left + BAR_WIDTH, bottom: y(low) };
        figure.fill(frame.corners(), sequential((low + high) / 2.0));
    }
    for tick in [1e-4, 1e-3, 1e-2, 0.1, 1.0] {
        let text = Text::new(short(tick), (left + BAR_WIDTH + 6.0, y(share(tick))), Align::Left, 11.0, MUTED);
        figure.text(text);
    }
    figure.text(Text::new("share", (left, PLOT.top - 16.0), Align::Left, 11.5, INK));
}

#[cfg(test)]
mod tests {
    use super::super::figure::Shape;
    use super::*;

    #[test]
    fn only_cells_that_a_query_can_see_are_drawn() {
        let cells = [1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.3, 0.3, 0.4];
        let picture =
            AttentionPicture { title: "head".into(), tokens: 6, block: 2, cells: &cells, blocks: 3 };
        let figure = figure(&picture);
        let inside = |shape: &&Shape| matches!(shape, Shape::Fill { points, .. } if points[0].0 < PLOT.right);
        assert_eq!(figure.shapes.iter().filter(inside).count(), 6);
    }

    #[test]
    fn the_color_is_of_the_logarithm() {
        assert!((share(0.01) - 0.5).abs() < 1e-12);
        assert!(share(0.0).abs() < 1e-12 && (share(1.0) - 1.0).abs() < 1e-12);
    }
}
