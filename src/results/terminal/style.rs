//! How tables and lines are written to a terminal.

use std::io;

use base::platform::terminal::Terminal;

use crate::console::Style;

/// The terminal's width, with colour; the style of files without a terminal.
pub fn terminal_style() -> Style {
    let Some(width) = terminal_width(&io::stdout()) else { return Style::FILE };
    Style { width, colour: std::env::var_os("NO_COLOR").is_none() }
}

/// Width of the terminal `stream`; `None` if it is not a terminal.
pub fn terminal_width(stream: &impl Terminal) -> Option<u16> {
    stream.is_terminal().then(|| stream.size().map_or(Style::FILE.width, |(columns, _)| columns))
}
