//! This process, its threads and its child processes.

use std::ffi::OsString;
use std::io;
use std::process::{Child, Command};

use super::super::Background;

/// Has no effect: threads keep their priority, and may delay the measurement.
pub const fn yield_to_measurement(_work: Background) {}

/// Kills `child`, since signals that it could handle are not available.
pub fn terminate(child: &mut Child) -> io::Result<()> {
    child.kill()
}

/// Does nothing: groups of processes are not supported.
pub const fn lead_group(_command: &mut Command) {}

/// Kills `child`; processes that it has started may go on.
pub fn terminate_group(child: &mut Child) -> io::Result<()> {
    child.kill()
}

/// Returns false, since processes that `child` has started are not known.
pub const fn has_group(_child: &Child) -> bool {
    false
}

/// Kills `child`; processes that it has started may go on.
pub fn kill_group(child: &mut Child) -> io::Result<()> {
    child.kill()
}

/// Returns the path that this program was started from.
#[must_use]
pub fn own_program() -> OsString {
    std::env::current_exe().map_or_else(|_| "aiperf".into(), OsString::from)
}
