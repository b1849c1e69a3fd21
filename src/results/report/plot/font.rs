//! The font of pictures.

use ttf_parser::{Face, GlyphId};

/// Arimo, whose licence is beside it. Its letters are as wide as those of Arial, Helvetica and
/// Liberation Sans, so that text takes the same room wherever an SVG is shown.
const ARIMO: &[u8] = include_bytes!("../../../../assets/arimo/Arimo-Regular.ttf");

/// The font, as an SVG names it.
pub(super) const FAMILY: &str = "Arimo, Arial, Helvetica, Liberation Sans, sans-serif";

/// A font.
pub(super) struct Font {
    pub(super) face: Face<'static>,
}

impl Font {
    /// Returns the embedded font; `None` if it cannot be read.
    pub(super) fn embedded() -> Option<Self> {
        Face::parse(ARIMO, 0).ok().map(|face| Self { face })
    }

    /// Returns the factor from the units of the font to a text of this `size`.
    pub(super) fn scale(&self, size: f64) -> f64 {
        size / f64::from(self.face.units_per_em())
    }

    /// Returns each letter of `text`, with its distance from the start in units of the font. A
    /// letter that the font does not have is a box.
    pub(super) fn letters(&self, text: &str) -> impl Iterator<Item = (GlyphId, f64)> {
        text.chars().scan(0.0, |end, letter| {
            let glyph = self.face.glyph_index(letter).unwrap_or(GlyphId(0));
            let start = *end;
            *end += self.advance(glyph);
            Some((glyph, start))
        })
    }

    fn advance(&self, glyph: GlyphId) -> f64 {
        f64::from(self.face.glyph_hor_advance(glyph).unwrap_or(0))
    }

    /// Returns the width of a text of this `size`.
    pub(super) fn width(&self, text: &str, size: f64) -> f64 {
        let last = self.letters(text).last();
        last.map_or(0.0, |(glyph, start)| (start + self.advance(glyph)) * self.scale(size))
    }

    /// Returns `text`, shortened if it is wider than `width`.
    pub(super) fn fitted(&self, text: &str, size: f64, width: f64) -> String {
        if self.width(text, size) <= width {
            return text.to_owned();
        }
        let room = width - self.width("…", size);
        let scale = self.scale(size);
        let ends = self.letters(text).map(|(glyph, start)| (start + self.advance(glyph)) * scale);
        let fitting = ends.take_while(|end| *end <= room).count();
        let kept: String = text.chars().take(fitting).collect();
        format!("{}…", kept.trim_end())
    }

    /// Divides `text` into at most `lines` lines that are not wider than `width`; what does not fit
    /// is left out.
    pub(super) fn wrapped(&self, text: &str, size: f64, width: f64, lines: usize) -> Vec<String> {
        let mut wrapped: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            let can_grow = wrapped.len() == lines;
            match wrapped.last_mut() {
                Some(line) if can_grow || self.width(&format!("{line} {word}"), size) <= width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => wrapped.push(word.to_owned()),
            }
        }
        wrapped.iter().map(|line| self.fitted(line, size, width)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_as_wide_as_those_of_arial() {
        let font = Font::embedded().unwrap();
        // Widths of Helvetica and Arial in thousandths: digits 556, full stop 278, m 833.
        for (text, width) in [("0", 556.0), (".", 278.0), ("m", 833.0), ("10.5", 1946.0)] {
            assert!((font.width(text, 1000.0) - width).abs() < 1.0, "{text}");
        }
        assert_eq!(font.width("", 14.0), 0.0);
    }

    #[test]
    fn long_texts_are_shortened() {
        let font = Font::embedded().unwrap();
        assert_eq!(font.fitted("00000", 1000.0, 3000.0), "00000");
        assert_eq!(font.fitted("00000", 1000.0, 2700.0), "000…");
        assert_eq!(font.fitted("00000", 1000.0, 0.0), "…");
        assert_eq!(font.wrapped("00 00 00", 1000.0, 3000.0, 2), ["00 00", "00"]);
        assert_eq!(font.wrapped("00 00 00 00 00", 1000.0, 3000.0, 2), ["00 00", "00 0…"]);
    }
}
