//! CPU affinity: the system chooses.

use std::io;

/// Returns no cores: their numbers are not available.
#[must_use]
pub const fn allowed() -> Vec<usize> {
    Vec::new()
}

/// Has no effect.
pub const fn keep_to(_cores: &[usize]) -> io::Result<()> {
    Ok(())
}
