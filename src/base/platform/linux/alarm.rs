//! A timer with a finer resolution than the runtime's, which is one millisecond.

use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// A timer of the kernel (timerfd).
#[derive(Debug)]
pub struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    /// Creates an alarm that is not set, within the runtime of the thread.
    #[expect(
        deprecated,
        reason = "its successor is unsafe to call; an OwnedFd keeps its descriptor as long as needed"
    )]
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(AsyncFd::new(timer)?))
    }

    /// Sets the only time at which it rings, in nanoseconds of the monotonic clock.
    pub fn set(&self, at_ns: u64) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero disarms a timerfd.
        let at_ns = at_ns.max(1);
        let value = Timespec {
            tv_sec: (at_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (at_ns % 1_000_000_000).cast_signed(),
        };
        let when = Itimerspec { it_interval: zero, it_value: value };
        // The kernel rejects only invalid descriptors and times.
        let set = timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &when);
        debug_assert_eq!(set.map(|_| ()), Ok(()), "{at_ns}");
    }

    /// Waits until it has rung.
    pub(crate) async fn rings(&self) -> io::Result<()> {
        // Setting it again makes it unreadable, so nothing has to be read.
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}
