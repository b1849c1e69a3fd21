//! Limits of the process: none are set.

use std::io;
use std::process::ExitStatus;

use super::super::exhaustion::Exhausted;

/// Has no effect.
pub const fn without_core_dump() {}

/// Has no effect.
pub const fn allow(_bytes: u64, _seconds: u64) {}

/// Has no effect.
pub const fn lift() {}

/// Returns false: CPU time is not limited.
#[must_use]
pub const fn exceeded_cpu_time(_status: ExitStatus) -> bool {
    false
}

/// Returns nothing: the limit of open files is neither changed nor available.
#[must_use]
pub const fn raise_open_files() -> Option<u64> {
    None
}

/// Returns nothing: the limit of open files is not known.
#[must_use]
pub const fn open_files() -> Option<u64> {
    None
}

/// Returns nothing: the available memory is not known.
#[must_use]
pub const fn memory_bytes() -> Option<u64> {
    None
}

/// See [`Exhausted::from_error`]. The numbers are the same on every Unix.
#[must_use]
pub(crate) fn exhausted_by(error: &io::Error) -> Option<Exhausted> {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    match error.raw_os_error() {
        Some(EMFILE) => Some(Exhausted::Descriptors),
        Some(ENFILE) => Some(Exhausted::SystemDescriptors),
        Some(_) if error.kind() == io::ErrorKind::AddrNotAvailable => Some(Exhausted::Ports),
        _ => None,
    }
}

/// Returns the exhausted resource that prevents the process from opening files, if any.
#[must_use]
pub fn exhausted_for_files() -> Option<Exhausted> {
    exhausted_by(&std::fs::File::open(std::env::current_exe().ok()?).err()?)
}
