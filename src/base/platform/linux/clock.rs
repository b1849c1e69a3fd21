//! Clocks, in nanoseconds.

use std::fs::File;
use std::os::unix::fs::FileExt;

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

/// Returns how long the calling thread has waited for a core while it could have run; `None` if the
/// kernel does not count it.
#[must_use]
pub(crate) fn thread_waited_ns() -> Option<u64> {
    thread_local! {
        static COUNTS: Option<File> = File::open("/proc/thread-self/schedstat").ok();
    }
    let mut text = [0; 80];
    let read = COUNTS.with(|counts| counts.as_ref()?.read_at(&mut text, 0).ok())?;
    waited_ns(text.get(..read)?)
}

/// Returns the time from the kernel's text, which is the time that the thread ran, the time that it
/// waited, and the number of times that it began to run. All are zero if they are not counted; of a
/// thread that has just begun, only the last one may not be.
fn waited_ns(text: &[u8]) -> Option<u64> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let mut next = || numbers.next()?.parse::<u64>().ok();
    let [ran, waited, times] = [next()?, next()?, next()?];
    (ran > 0 || times > 0).then_some(waited)
}

#[inline]
fn read(clock: ClockId) -> u64 {
    let at = clock_gettime(clock);
    at.tv_sec.cast_unsigned() * 1_000_000_000 + at.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_a_core_is_the_second_number() {
        assert_eq!(waited_ns(b"287245 47260 3\n"), Some(47_260));
        assert_eq!(waited_ns(b"0 0 1\n"), Some(0));
        assert_eq!(waited_ns(b"0 0 0\n"), None);
        assert_eq!(waited_ns(b"12\n"), None);
        assert_eq!(waited_ns(b"\xff 1 2"), None);
    }
}
