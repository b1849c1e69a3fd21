//! Errors caused by exhausted resources of this machine.

use std::io;

use super::limits;

/// An exhausted resource of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// File descriptors of the process.
    Descriptors,
    /// File descriptors of the system.
    SystemDescriptors,
    /// Local ports towards one server.
    Ports,
}

impl Exhausted {
    /// Returns the exhausted resource that caused `error`, if any.
    #[must_use]
    pub fn from_error(error: &io::Error) -> Option<Self> {
        limits::exhausted_by(error)
    }
}
