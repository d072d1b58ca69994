//! Colors that people with any color vision tell apart.

/// Red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Color(pub(super) u8, pub(super) u8, pub(super) u8);

pub(super) const WHITE: Color = Color(255, 255, 255);
const BLACK: Color = Color(0, 0, 0);
pub(super) const INK: Color = Color(33, 37, 41);
pub(super) const MUTED: Color = Color(108, 117, 125);
pub(super) const GRID: Color = Color(233, 236, 239);
/// Okabe and Ito's blue, orange-brown, vermilion, green, purple and sky blue, somewhat darker where white is near.
pub(super) const BLUE: Color = Color(0, 114, 178);
pub(super) const ORANGE: Color = Color(200, 130, 0);
pub(super) const VERMILION: Color = Color(213, 94, 0);
pub(super) const GREEN: Color = Color(0, 138, 100);
pub(super) const PURPLE: Color = Color(184, 91, 147);
pub(super) const SKY: Color = Color(62, 158, 210);

/// Small to large: anchors of viridis (CC0), light first so that small errors recede on white.
const SEQUENTIAL: [Color; 9] = [
    Color(253, 231, 37),
    Color(171, 220, 50),
    Color(92, 200, 99),
    Color(39, 173, 129),
    Color(33, 144, 140),
    Color(44, 114, 142),
    Color(59, 82, 139),
    Color(71, 45, 123),
    Color(68, 1, 84),
];

/// The color of a share between 0 (least) and 1 (most); outside it the nearer end.
pub(super) fn sequential(share: f64) -> Color {
    let last = SEQUENTIAL.len() - 1;
    let at = share.clamp(0.0, 1.0) * last as f64;
    let below = (at as usize).min(last - 1);
    let mix =
        |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * (at - below as f64)).round() as u8;
    let (a, b) = (SEQUENTIAL[below], SEQUENTIAL[below + 1]);
    Color(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

impl Color {
    /// Black or white, whichever reads better on this color (relative luminance, WCAG).
    pub(super) fn ink_on(self) -> Self {
        let linear = |c: u8| (f64::from(c) / 255.0).powf(2.2);
        let luminance = 0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2);
        // Black and white contrast alike with a luminance of 0.179.
        if luminance > 0.179 { BLACK } else { WHITE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_scale_are_its_anchors() {
        assert_eq!(sequential(0.0), SEQUENTIAL[0]);
        assert_eq!(sequential(1.0), SEQUENTIAL[8]);
        assert_eq!(sequential(-3.0), SEQUENTIAL[0]);
        assert_eq!(sequential(0.125), SEQUENTIAL[1]);
    }

    #[test]
    fn text_is_dark_on_light_and_light_on_dark() {
        assert_eq!(sequential(0.0).ink_on(), BLACK);
        assert_eq!(sequential(1.0).ink_on(), WHITE);
    }
}
