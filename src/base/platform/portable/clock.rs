//! Clocks, in nanoseconds.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Returns the time of a monotonic clock that starts at the wall time of its first use. The
/// clocks of two processes differ by as much as the wall clock changed in between.
#[inline]
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn monotonic_ns() -> u64 {
    static BEGIN: LazyLock<(u64, Instant)> = LazyLock::new(|| {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (wall.as_nanos() as u64, Instant::now())
    });
    let (wall_ns, begin) = *BEGIN;
    wall_ns.saturating_add(begin.elapsed().as_nanos() as u64)
}

/// Returns 0: CPU time is not available.
#[must_use]
pub(crate) const fn thread_cpu_ns() -> u64 {
    0
}

/// Returns 0: CPU time is not available.
#[must_use]
pub(crate) const fn process_cpu_ns() -> u64 {
    0
}

/// Returns `None`: the time that a thread waited for a core is not available.
#[must_use]
pub(crate) const fn thread_waited_ns() -> Option<u64> {
    None
}
