//! The terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

/// A stream that may be a terminal.
pub trait Terminal: IsTerminal {
    /// Returns nothing: the number of columns and rows is not available.
    fn size(&self) -> Option<(u16, u16)>;
}

impl<S: IsTerminal> Terminal for S {
    fn size(&self) -> Option<(u16, u16)> {
        None
    }
}

/// The keys of the terminal, which are not available.
#[derive(Debug)]
pub struct Keyboard;

impl Keyboard {
    /// Fails: the terminal cannot be changed.
    pub fn take() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns no keys.
    pub fn wait(&self, _timeout: Duration) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Does nothing.
    pub fn give_back(&self) {}
}
