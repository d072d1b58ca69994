//! Shapes to bytes, by plotters' backends.

use std::convert::Infallible;

use plotters_backend::text_anchor::{HPos, Pos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, FontFamily, FontStyle,
    FontTransform,
};
use plotters_bitmap::BitMapBackend;
use plotters_svg::SVGBackend;

use super::figure::{Align, Figure, Point, Shape, Text};
use super::font;
use super::palette::Color;

/// The figure as SVG.
pub(super) fn svg(figure: &Figure) -> Result<String, String> {
    let mut text = String::new();
    let size = (figure.width.ceil() as u32, figure.height.ceil() as u32);
    render(figure, &mut SVGBackend::with_string(&mut text, size), 1.0)?;
    Ok(text)
}

/// Pixels of the PNG per pixel of the figure, and pixels drawn per pixel of the PNG and side: the backend draws
/// hard edges, so four times as many pixels are drawn as are kept, averaged.
const DENSITY: usize = 2;
const OVERSAMPLING: usize = 2;

/// The figure as PNG.
pub(super) fn png(figure: &Figure) -> Result<Vec<u8>, String> {
    let kept = |length: f64| length.ceil() as usize * DENSITY;
    let (width, height) = (kept(figure.width), kept(figure.height));
    let (fine_width, fine_height) = (width * OVERSAMPLING, height * OVERSAMPLING);
    let mut fine = vec![255; fine_width * fine_height * 3];
    let size = (fine_width as u32, fine_height as u32);
    render(figure, &mut BitMapBackend::with_buffer(&mut fine, size), (DENSITY * OVERSAMPLING) as f64)?;
    encode(&averaged(&fine, width, height), width, height).map_err(|error| error.to_string())
}

/// `[height * OVERSAMPLING, width * OVERSAMPLING, 3]` to `[height, width, 3]`.
fn averaged(fine: &[u8], width: usize, height: usize) -> Vec<u8> {
    let fine_width = width * OVERSAMPLING;
    let mean = |row: usize, column: usize, channel: usize| {
        let samples = (0..OVERSAMPLING * OVERSAMPLING).map(|i| {
            let (y, x) = (row * OVERSAMPLING + i / OVERSAMPLING, column * OVERSAMPLING + i % OVERSAMPLING);
            usize::from(fine[(y * fine_width + x) * 3 + channel])
        });
        (samples.sum::<usize>() / (OVERSAMPLING * OVERSAMPLING)) as u8
    };
    let pixels = (0..height).flat_map(|row| (0..width).map(move |column| (row, column)));
    pixels.flat_map(|(row, column)| (0..3).map(move |channel| mean(row, column, channel))).collect()
}

fn encode(pixels: &[u8], width: usize, height: usize) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}

fn render<B: DrawingBackend>(figure: &Figure, backend: &mut B, scale: f64) -> Result<(), String> {
    let background = [(0.0, 0.0), (figure.width, 0.0), (figure.width, figure.height), (0.0, figure.height)];
    let white = Shape::Fill { points: background.to_vec(), color: super::palette::WHITE };
    std::iter::once(&white)
        .chain(&figure.shapes)
        .try_for_each(|shape| render_shape(shape, backend, scale))
        .and_then(|()| backend.present())
        .map_err(|error| error.to_string())
}

fn render_shape<B: DrawingBackend>(
    shape: &Shape,
    backend: &mut B,
    scale: f64,
) -> Result<(), plotters_backend::DrawingErrorKind<B::ErrorType>> {
    let pixel = |(x, y): Point| ((x * scale).round() as i32, (y * scale).round() as i32);
    match shape {
        Shape::Line { points, color, width, alpha } => {
            let width = ((width * scale).round() as u32).max(1);
            backend
                .draw_path(points.iter().map(|&p| pixel(p)), &Paint { color: *color, width, alpha: *alpha })
        }
        Shape::Fill { points, color } => {
            let paint = Paint { color: *color, width: 1, alpha: 1.0 };
            backend.fill_polygon(points.iter().map(|&p| pixel(p)), &paint)
        }
        Shape::Disk { center, radius, color } => {
            let paint = Paint { color: *color, width: 1, alpha: 1.0 };
            backend.draw_circle(pixel(*center), (radius * scale).round() as u32, &paint, true)
        }
        Shape::Text(text) => {
            backend.draw_text(&text.text, &Lettering { text, scale }, pixel(baseline_box(text)))
        }
    }
}

struct Paint {
    color: Color,
    width: u32,
    alpha: f64,
}

impl BackendStyle for Paint {
    fn color(&self) -> BackendColor {
        BackendColor { alpha: self.alpha, rgb: (self.color.0, self.color.1, self.color.2) }
    }

    fn stroke_width(&self) -> u32 {
        self.width
    }
}

/// Where plotters' SVG backend puts the baseline below the point it is given, in em, for text that hangs from it.
const HANG: f64 = 0.76;

/// The point to hang a text from so that its capitals are centered on `text.at`.
fn baseline_box(text: &Text) -> Point {
    let up = text.size * (HANG - font::CAP_HEIGHT / 2.0);
    let (x, y) = text.at;
    if text.upright { (x - up, y) } else { (x, y - up) }
}

struct Lettering<'a> {
    text: &'a Text,
    scale: f64,
}

impl Lettering<'_> {
    fn em(&self) -> f64 {
        self.text.size * self.scale
    }
}

impl BackendTextStyle for Lettering<'_> {
    type FontError = Infallible;

    fn color(&self) -> BackendColor {
        let Color(red, green, blue) = self.text.color;
        BackendColor { alpha: 1.0, rgb: (red, green, blue) }
    }

    /// plotters' sizes are 1.24 em.
    fn size(&self) -> f64 {
        self.em() * 1.24
    }

    fn transform(&self) -> FontTransform {
        if self.text.upright { FontTransform::Rotate270 } else { FontTransform::None }
    }

    fn style(&self) -> FontStyle {
        if self.text.bold { FontStyle::Bold } else { FontStyle::Normal }
    }

    fn anchor(&self) -> Pos {
        let horizontal = match self.text.align {
            Align::Left => HPos::Left,
            Align::Middle => HPos::Center,
            Align::Right => HPos::Right,
        };
        Pos::new(horizontal, VPos::Top)
    }

    fn family(&self) -> FontFamily<'_> {
        FontFamily::Name(font::FAMILY)
    }

    fn layout_box(&self, text: &str) -> Result<(BackendCoord, BackendCoord), Infallible> {
        let width = font::width(text, self.em(), self.text.bold);
        Ok(((0, 0), (width.round() as i32, self.em().round() as i32)))
    }

    fn draw<E, F: FnMut(i32, i32, BackendColor) -> Result<(), E>>(
        &self,
        text: &str,
        (left, top): BackendCoord,
        mut draw: F,
    ) -> Result<Result<(), E>, Infallible> {
        let baseline = top + (self.em() * HANG).round() as i32;
        Ok(font::rasterize(text, self.em(), self.text.bold, |x, y, coverage| {
            draw(left + x, baseline + y, BackendColor { alpha: coverage, ..self.color() })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::palette::{BLUE, INK};
    use super::*;

    fn figure() -> Figure {
        let mut figure = Figure::new(40.0, 30.0);
        figure.fill(vec![(0.0, 0.0), (20.0, 0.0), (20.0, 30.0), (0.0, 30.0)], BLUE);
        figure.text(Text::new("a<b", (30.0, 10.0), Align::Middle, 8.0, INK));
        figure
    }

    #[test]
    fn text_in_an_svg_is_escaped() {
        let svg = svg(&figure()).expect("drawn");
        assert!(svg.contains("a&lt;b") && svg.trim_end().ends_with("</svg>"), "{svg}");
    }

    #[test]
    fn a_png_shows_what_was_drawn() {
        let bytes = png(&figure()).expect("drawn");
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("a PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
        let info = reader.next_frame(&mut pixels).expect("an image");
        assert_eq!((info.width, info.height), (80, 60));
        assert_eq!(pixels[..3], [BLUE.0, BLUE.1, BLUE.2]);
        assert_eq!(pixels[79 * 3..80 * 3], [255, 255, 255]);
        assert!(pixels.chunks(3).any(|p| p == [INK.0, INK.1, INK.2]), "no pixel of the text is dark");
    }
}
