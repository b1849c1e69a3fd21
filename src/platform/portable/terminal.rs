//! The terminal.

use std::io::IsTerminal;

/// A stream that may be a terminal.
pub(crate) trait Terminal: IsTerminal {
    /// Returns nothing: the number of columns is not available.
    fn columns(&self) -> Option<u16>;
}

impl<S: IsTerminal> Terminal for S {
    fn columns(&self) -> Option<u16> {
        None
    }
}
