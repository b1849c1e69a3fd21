//! Clocks, in nanoseconds.

use rustix::time::{ClockId, clock_gettime};

/// Returns the time of the monotonic clock, which is the same in all processes.
#[inline]
#[must_use]
pub(crate) fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// Returns the CPU time of the calling thread.
#[must_use]
pub(crate) fn thread_cpu_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// Returns the CPU time of all threads of the process.
#[must_use]
pub(crate) fn process_cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

#[inline]
fn read(clock: ClockId) -> u64 {
    let at = clock_gettime(clock);
    at.tv_sec.cast_unsigned() * 1_000_000_000 + at.tv_nsec.cast_unsigned()
}
