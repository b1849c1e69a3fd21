//! A picture as PNG.

use flate2::Compression;
use tiny_skia::{
    FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform,
};
use ttf_parser::OutlineBuilder;

use base::png;

use super::font::Font;
use super::scene::{Anchor, DASH, HALO, Item, Line, Position, Scene, Text};
use crate::report::theme::Colour;

/// Pixels per pixel of the SVG, for screens and paper with a high resolution.
const RESOLUTION: f32 = 2.0;

/// Returns the PNG file of `scene`; `None` if its size is not valid.
pub(super) fn file(scene: &Scene, font: &Font) -> Option<Vec<u8>> {
    let width = (scene.width as f32 * RESOLUTION) as u16;
    let height = (scene.height as f32 * RESOLUTION) as u16;
    let mut canvas = Canvas { pixels: Pixmap::new(width.into(), height.into())?, font };
    canvas.pixels.fill(colour(scene.ground, 1.0));
    for item in scene.parts.iter().flat_map(|part| &part.items) {
        canvas.draw(item);
    }
    // All pixels are opaque.
    let mut pixels = Vec::with_capacity(usize::from(width) * usize::from(height) * 3);
    for pixel in canvas.pixels.data().chunks_exact(4) {
        pixels.extend_from_slice(&pixel[..3]);
    }
    Some(png::file(&pixels, width, height, Compression::default()))
}

struct Canvas<'a> {
    pixels: Pixmap,
    font: &'a Font,
}

impl Canvas<'_> {
    fn draw(&mut self, item: &Item) {
        match item {
            Item::Line(Line { places, colour, width, is_dashed }) => {
                let dash = DASH.map(|length| length as f32).to_vec();
                let dash = if *is_dashed { StrokeDash::new(dash, 0.0) } else { None };
                let width = *width as f32;
                let stroke =
                    Stroke { width, dash, line_join: LineJoin::Round, ..Stroke::default() };
                if let Some(path) = path(places, false) {
                    self.stroke(&path, colour, &stroke);
                }
            }
            Item::Area { places, colour, opacity } => {
                if let Some(path) = path(places, true) {
                    self.fill(&path, colour, *opacity);
                }
            }
            Item::Dots { places, radius, colour, opacity } => {
                for (x, y) in places {
                    let circle = PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32);
                    if let Some(path) = circle {
                        self.fill(&path, colour, *opacity);
                    }
                }
            }
            Item::Text(text) => self.text(text),
        }
    }

    fn text(&mut self, text: &Text) {
        let scale = self.font.scale(text.size) as f32;
        let width = self.font.width(&text.content, text.size) as f32;
        let start = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let mut outline = Outline(PathBuilder::new(), 0.0);
        for (glyph, at) in self.font.letters(&text.content) {
            outline.1 = at as f32;
            self.font.face.outline_glyph(glyph, &mut outline);
        }
        let turn = if text.is_upright { -90.0 } else { 0.0 };
        // In a font, y points up.
        let place = Transform::from_scale(scale, -scale)
            .post_translate(-start, 0.0)
            .post_concat(Transform::from_rotate(turn))
            .post_translate(text.at.0 as f32, text.at.1 as f32);
        let Some(path) = outline.0.finish().and_then(|path| path.transform(place)) else { return };
        if let Some(halo) = text.halo {
            let width = 2.0 * HALO as f32;
            let stroke = Stroke { width, line_join: LineJoin::Round, ..Stroke::default() };
            self.stroke(&path, halo, &stroke);
        }
        self.fill(&path, text.colour, 1.0);
    }

    fn fill(&mut self, path: &Path, colour: Colour, opacity: f32) {
        self.pixels.fill_path(path, &paint(colour, opacity), FillRule::Winding, transform(), None);
    }

    fn stroke(&mut self, path: &Path, colour: Colour, stroke: &Stroke) {
        self.pixels.stroke_path(path, &paint(colour, 1.0), stroke, transform(), None);
    }
}

/// The outlines of letters, each moved to the right by the second member.
struct Outline(PathBuilder, f32);

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.move_to(x + self.1, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.0.line_to(x + self.1, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.0.quad_to(x1 + self.1, y1, x + self.1, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.0.cubic_to(x1 + self.1, y1, x2 + self.1, y2, x + self.1, y);
    }

    fn close(&mut self) {
        self.0.close();
    }
}

fn transform() -> Transform {
    Transform::from_scale(RESOLUTION, RESOLUTION)
}

fn path(places: &[Position], is_closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (at, (x, y)) in places.iter().enumerate() {
        let (x, y) = (*x as f32, *y as f32);
        if at == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
    }
    if is_closed {
        path.close();
    }
    path.finish()
}

fn paint(name: Colour, opacity: f32) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color(colour(name, opacity));
    paint
}

fn colour(name: Colour, opacity: f32) -> tiny_skia::Color {
    let value = u32::from_str_radix(name.trim_start_matches('#'), 16).unwrap_or(0);
    let [_, red, green, blue] = value.to_be_bytes();
    tiny_skia::Color::from_rgba8(red, green, blue, (opacity * 255.0).round() as u8)
}
