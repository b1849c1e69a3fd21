//! The terminal.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// A stream that may be a terminal.
pub(crate) trait Terminal: IsTerminal {
    /// Returns the number of columns, if the terminal reports one.
    fn columns(&self) -> Option<u16>;
}

impl<S: IsTerminal + AsFd> Terminal for S {
    fn columns(&self) -> Option<u16> {
        tcgetwinsize(self).ok().map(|size| size.ws_col).filter(|columns| *columns > 0)
    }
}
