//! The embedded font: Inter, Latin letters only, under the SIL Open Font License (`font/OFL.txt`).

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, PxScale, ScaleFont, point};

static REGULAR: LazyLock<FontRef<'static>> =
    LazyLock::new(|| embedded(include_bytes!("font/Inter-Regular-latin.ttf")));
static SEMI_BOLD: LazyLock<FontRef<'static>> =
    LazyLock::new(|| embedded(include_bytes!("font/Inter-SemiBold-latin.ttf")));

/// Families that an SVG asks for, best first.
pub(super) const FAMILY: &str = "Inter, Helvetica, Arial, sans-serif";

/// Height of capitals and digits, in em.
pub(super) const CAP_HEIGHT: f64 = 0.727;

fn embedded(bytes: &'static [u8]) -> FontRef<'static> {
    FontRef::try_from_slice(bytes).expect("the embedded fonts are read by a test")
}

fn font(bold: bool) -> &'static FontRef<'static> {
    if bold { &SEMI_BOLD } else { &REGULAR }
}

/// ab_glyph measures a size from ascender to descender; ours is in em, as everywhere else.
fn scale(font: &FontRef<'_>, size: f64) -> PxScale {
    let per_em = font.units_per_em().unwrap_or(1000.0);
    PxScale::from(size as f32 * font.height_unscaled() / per_em)
}

/// How wide a text is, in the unit of `size`.
pub(super) fn width(text: &str, size: f64, bold: bool) -> f64 {
    pen_positions(text, size, bold).1
}

/// Where each glyph begins, and where the last one ends.
fn pen_positions(text: &str, size: f64, bold: bool) -> (Vec<(char, f32)>, f64) {
    let font = font(bold);
    let scaled = font.as_scaled(scale(font, size));
    let mut pen = 0.0;
    let mut previous = None;
    let mut positions = Vec::new();
    for c in text.chars() {
        let glyph = scaled.glyph_id(c);
        pen += previous.map_or(0.0, |previous| scaled.kern(previous, glyph));
        positions.push((c, pen));
        pen += scaled.h_advance(glyph);
        previous = Some(glyph);
    }
    (positions, f64::from(pen))
}

/// Covers pixels: `pixel(x, y, coverage)`, with the text's left end at x = 0 and its baseline at y = 0.
pub(super) fn rasterize<E>(
    text: &str,
    size: f64,
    bold: bool,
    mut pixel: impl FnMut(i32, i32, f64) -> Result<(), E>,
) -> Result<(), E> {
    let font = font(bold);
    let scale = scale(font, size);
    for (c, pen) in pen_positions(text, size, bold).0 {
        let glyph = font.glyph_id(c).with_scale_and_position(scale, point(pen, 0.0));
        let Some(outline) = font.outline_glyph(glyph) else { continue };
        let corner = outline.px_bounds().min;
        let mut covered = Vec::new();
        outline.draw(|x, y, coverage| covered.push((x, y, coverage)));
        for (x, y, coverage) in covered {
            pixel(corner.x as i32 + x as i32, corner.y as i32 + y as i32, f64::from(coverage.min(1.0)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_fonts_hold_what_figures_write() {
        for bold in [false, true] {
            for c in ('!'..='~').chain(['×', '−', '–', '²']) {
                assert_ne!(font(bold).glyph_id(c).0, 0, "{c} is missing");
            }
        }
    }

    #[test]
    fn width_grows_with_text_size_and_weight() {
        let plain = width("KV8", 12.0, false);
        assert!((15.0..35.0).contains(&plain), "{plain}");
        assert!((width("KV8", 24.0, false) - 2.0 * plain).abs() < 0.01);
        assert!(width("KV8", 12.0, true) > plain);
        assert!(width("", 12.0, false).abs() < 1e-9);
    }

    #[test]
    fn a_capital_stands_on_the_baseline() {
        let (mut top, mut bottom) = (0, 0);
        let drawn: Result<(), ()> = rasterize("H", 100.0, false, |_, y, coverage| {
            if coverage > 0.5 {
                (top, bottom) = (top.min(y), bottom.max(y));
            }
            Ok(())
        });
        assert_eq!(drawn, Ok(()));
        assert!((f64::from(-top) - 100.0 * CAP_HEIGHT).abs() < 2.0, "{top}");
        assert!(bottom <= 0, "{bottom}");
    }
}
