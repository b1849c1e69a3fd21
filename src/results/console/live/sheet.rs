//! The screen of the live view: lines with colours, and charts.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};

/// Heights of a chart's bars.
const BARS: &[char] = &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A screen that is filled from the top. What does not fit is left out.
pub(super) struct Sheet {
    pub(super) buffer: Buffer,
    row: u16,
    has_colour: bool,
}

impl Sheet {
    /// Creates an empty screen of a width and a height.
    pub(super) fn new((width, height): (u16, u16), has_colour: bool) -> Self {
        Self { buffer: Buffer::empty(Rect::new(0, 0, width, height)), row: 0, has_colour }
    }

    pub(super) fn width(&self) -> usize {
        self.buffer.area.width.into()
    }

    /// Rows that are still free; the last row of the screen is not among them.
    pub(super) fn left(&self) -> usize {
        self.buffer.area.height.saturating_sub(1).saturating_sub(self.row).into()
    }

    pub(super) fn line<'a>(&mut self, spans: impl IntoIterator<Item = Span<'a>>) {
        if self.left() > 0 {
            let line = Line::from_iter(spans);
            let width = self.buffer.area.width;
            self.buffer.set_line(0, self.row, &line, width);
            if line.width() > width.into() && width > 0 {
                self.buffer.set_string(width - 1, self.row, "…", Style::new());
            }
            self.row += 1;
        }
    }

    pub(super) fn skip(&mut self) {
        self.line([]);
    }

    pub(super) fn foot(&mut self, text: &str) {
        if let Some(row) = self.buffer.area.height.checked_sub(1) {
            self.buffer.set_line(0, row, &Line::from(dim(text)), self.buffer.area.width);
        }
    }

    fn coloured<'a>(&self, text: impl Into<String>, colour: Color) -> Span<'a> {
        let style = Style::new().add_modifier(Modifier::BOLD);
        Span::styled(text.into(), if self.has_colour { style.fg(colour) } else { style })
    }

    pub(super) fn good<'a>(&self, text: impl Into<String>) -> Span<'a> {
        self.coloured(text, Color::Green)
    }

    pub(super) fn warning<'a>(&self, text: impl Into<String>) -> Span<'a> {
        self.coloured(text, Color::Yellow)
    }

    pub(super) fn bad<'a>(&self, text: impl Into<String>) -> Span<'a> {
        self.coloured(text, Color::Red)
    }

    pub(super) fn bar<'a>(&self, text: String) -> Span<'a> {
        let style = Style::new();
        Span::styled(text, if self.has_colour { style.fg(Color::Cyan) } else { style })
    }
}

pub(super) fn plain<'a>(text: impl Into<String>) -> Span<'a> {
    Span::raw(text.into())
}

pub(super) fn bold<'a>(text: impl Into<String>) -> Span<'a> {
    Span::styled(text.into(), Style::new().add_modifier(Modifier::BOLD))
}

pub(super) fn dim<'a>(text: impl Into<String>) -> Span<'a> {
    Span::styled(text.into(), Style::new().add_modifier(Modifier::DIM))
}

/// The last values as bars up to the largest of them; blank without a value.
pub(super) struct Chart {
    /// From the top.
    pub(super) rows: Vec<String>,
    /// The largest value.
    pub(super) most: Option<f64>,
}

impl Chart {
    /// Draws the last `width` of the `values` in some `rows`.
    pub(super) fn draw(values: &[Option<f64>], width: usize, rows: usize) -> Self {
        let shown = &values[values.len().saturating_sub(width)..];
        let most = shown.iter().flatten().copied().reduce(f64::max);
        let steps = rows * BARS.len();
        let height = |value: &Option<f64>| match (value, most) {
            (Some(value), Some(most)) if most > 0.0 => {
                ((value / most * steps as f64).ceil() as usize).clamp(1, steps)
            }
            (Some(_), _) => 1,
            (None, _) => 0,
        };
        let heights: Vec<usize> = shown.iter().map(height).collect();
        let row = |below: usize| -> String {
            let left = heights.iter().map(|height| height.saturating_sub(below * BARS.len()));
            left.map(|left| match left.min(BARS.len()) {
                0 => ' ',
                steps => BARS[steps - 1],
            })
            .collect()
        };
        Self { rows: (0..rows).rev().map(row).collect(), most }
    }
}

/// Cuts a text to `most` characters.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}
