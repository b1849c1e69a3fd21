//! The width and the colours of text.

/// Width of the text, and whether it is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Width in columns.
    pub width: u16,
    /// Whether titles are coloured; only on terminals.
    pub colour: bool,
}

impl Style {
    /// The style of `profile_export_console.txt`.
    pub const FILE: Self = Self { width: 140, colour: false };

    pub(super) fn bold(self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(super) fn green(self, text: &str) -> String {
        self.coloured(32, text)
    }

    pub(super) fn yellow(self, text: &str) -> String {
        self.coloured(33, text)
    }

    pub(super) fn red(self, text: &str) -> String {
        self.coloured(31, text)
    }

    fn coloured(self, code: u8, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
