//! Figures as SVG inside a page: colors follow the page's theme, and places answer who points at them.

use std::fmt::Write as _;

use super::figure::{Align, Figure, Frame, Point, Shape, Text};
use super::palette::{BLUE, Color, GRID, INK, MUTED, ORANGE, VERMILION, WHITE};

/// The figure as an `svg` element of the given classes; `label` is what a screen reader says of it.
pub(super) fn svg(figure: &Figure, class: &str, label: &str) -> String {
    let (width, height) = (figure.width.ceil(), figure.height.ceil());
    let mut out = format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
         aria-label=\"{}\">",
        escape(label)
    );
    figure.shapes.iter().for_each(|shape| out.push_str(&element(shape)));
    for (frame, text) in &figure.hovers {
        out.push_str(&hover(frame, text));
    }
    out + "</svg>"
}

fn element(shape: &Shape) -> String {
    match shape {
        Shape::Line { points, color, width, alpha } => format!(
            "<polyline points=\"{}\" fill=\"none\" style=\"stroke:{}\" stroke-width=\"{}\"{}/>",
            list(points),
            themed(*color),
            number(*width),
            if *alpha < 1.0 { format!(" stroke-opacity=\"{}\"", number(*alpha)) } else { String::new() }
        ),
        Shape::Fill { points, color } => {
            format!("<polygon points=\"{}\" style=\"fill:{}\"/>", list(points), themed(*color))
        }
        Shape::Disk { center, radius, color } => format!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" style=\"fill:{}\"/>",
            number(center.0),
            number(center.1),
            number(*radius),
            themed(*color)
        ),
        Shape::Text(text) => lettering(text),
    }
}

fn lettering(text: &Text) -> String {
    let anchor = match text.align {
        Align::Left => "start",
        Align::Middle => "middle",
        Align::Right => "end",
    };
    let (x, y) = (number(text.at.0), number(text.at.1));
    let turned = if text.upright { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
    let weight = if text.bold { " font-weight=\"600\"" } else { "" };
    // Text on a colored cell is black or white in any theme; all other text follows it.
    let color = if text.color == WHITE { hex(WHITE) } else { themed(text.color) };
    // Whatever font is there, a text is as long as it was measured to be.
    let length =
        if text.text.len() > 3 { format!(" textLength=\"{}\"", number(text.width())) } else { String::new() };
    format!(
        "<text x=\"{x}\" y=\"{y}\" dy=\"0.36em\" text-anchor=\"{anchor}\" font-size=\"{}\"{weight}{length}{turned} \
         style=\"fill:{color}\">{}</text>",
        number(text.size),
        escape(&text.text)
    )
}

fn hover(frame: &Frame, text: &str) -> String {
    let mut out = format!("<rect class=\"hover\" x=\"{}\" y=\"{}\" ", number(frame.left), number(frame.top));
    let (width, height) = (frame.right - frame.left, frame.bottom - frame.top);
    let _ = write!(out, "width=\"{}\" height=\"{}\">", number(width), number(height));
    out + "<title>" + &escape(text) + "</title></rect>"
}

/// The page's own color where it has one of that meaning.
fn themed(color: Color) -> String {
    let names = [
        (INK, "ink"),
        (MUTED, "muted"),
        (GRID, "grid"),
        (WHITE, "paper"),
        (BLUE, "blue"),
        (ORANGE, "orange"),
        (VERMILION, "vermilion"),
    ];
    match names.into_iter().find(|&(known, _)| known == color) {
        Some((_, name)) => format!("var(--{name})"),
        None => hex(color),
    }
}

fn hex(Color(red, green, blue): Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn list(points: &[Point]) -> String {
    let points: Vec<String> = points.iter().map(|&(x, y)| format!("{},{}", number(x), number(y))).collect();
    points.join(" ")
}

/// A tenth of a pixel is enough.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_element() {
        let mut figure = Figure::new(10.0, 10.0);
        figure.text(Text::new("<b>&", (1.0, 2.25), Align::Left, 12.0, INK));
        figure.hover(Frame::around((5.0, 5.0), 2.0, 1.0), String::from("a\"<script>"));
        let svg = svg(&figure, "wide", "\"front\"");
        assert!(
            svg.contains("aria-label=\"&quot;front&quot;\"") && svg.contains(">&lt;b&gt;&amp;</text>"),
            "{svg}"
        );
        assert!(svg.contains("<rect class=\"hover\" x=\"3\" y=\"4\" width=\"4\" height=\"2\">"), "{svg}");
        assert!(!svg.contains("<script>"), "{svg}");
    }

    #[test]
    fn ink_follows_the_theme_and_colors_of_data_do_not() {
        let mut figure = Figure::new(10.0, 10.0);
        figure.fill(vec![(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)], Color(68, 1, 84));
        figure.text(Text::new("1", (0.0, 0.0), Align::Left, 9.0, WHITE));
        figure.text(Text::new("2", (0.0, 0.0), Align::Left, 9.0, INK));
        let svg = svg(&figure, "", "");
        for text in ["fill:#440154", "fill:#ffffff\">1", "fill:var(--ink)\">2"] {
            assert!(svg.contains(text), "{text} is missing from {svg}");
        }
    }
}
