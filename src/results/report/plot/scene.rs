//! What a picture consists of: the same for every format.

use crate::report::theme::Colour;

/// A picture. Lengths are in pixels of an SVG; y points down.
pub(super) struct Scene {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) title: String,
    pub(super) ground: Colour,
    pub(super) parts: Vec<Part>,
}

/// Items that belong together.
pub(super) struct Part {
    /// What they are, for readers of an SVG.
    pub(super) class: &'static str,
    /// The series.
    pub(super) name: Option<String>,
    pub(super) items: Vec<Item>,
}

/// A place: x and y.
pub(super) type Position = (f64, f64);

/// What is drawn.
pub(super) enum Item {
    Line(Line),
    /// A filled area, closed from its last place to the first.
    Area {
        places: Vec<Position>,
        colour: Colour,
        opacity: f32,
    },
    Dots {
        places: Vec<Position>,
        radius: f64,
        colour: Colour,
        opacity: f32,
    },
    Text(Text),
}

/// A line through places.
pub(super) struct Line {
    pub(super) places: Vec<Position>,
    pub(super) colour: Colour,
    pub(super) width: f64,
    pub(super) is_dashed: bool,
}

/// A line of text.
pub(super) struct Text {
    /// Where its baseline starts or ends, or its middle is.
    pub(super) at: Position,
    pub(super) anchor: Anchor,
    /// Whether it is read from the bottom to the top.
    pub(super) is_upright: bool,
    pub(super) size: f64,
    pub(super) colour: Colour,
    /// The colour around its letters, if it is on top of others.
    pub(super) halo: Option<Colour>,
    pub(super) content: String,
}

/// The part of a text that is at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Width of the halo of a text, to all sides.
pub(super) const HALO: f64 = 2.5;
/// Lengths of the strokes and the gaps of a dashed line.
pub(super) const DASH: [f64; 2] = [6.0, 4.0];

impl Part {
    pub(super) fn new(class: &'static str) -> Self {
        Self { class, name: None, items: Vec::new() }
    }

    pub(super) fn line(&mut self, places: Vec<Position>, colour: Colour, width: f64) {
        self.items.push(Item::Line(Line { places, colour, width, is_dashed: false }));
    }
}
