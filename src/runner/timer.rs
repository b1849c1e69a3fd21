//! Waits that are finer than the runtime's millisecond wheel.

use crate::units::{Clock, Nanos};

pub(super) use imp::DueTimer;

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;

    use super::{Clock, Nanos};

    /// A timer of the kernel's, for one waiter at a time.
    #[derive(Debug)]
    pub(in crate::runner) struct DueTimer(AsyncFd<OwnedFd>);

    impl DueTimer {
        /// A timer; needs the runtime of the thread.
        #[expect(
            deprecated,
            reason = "its successor is unsafe to call; an OwnedFd keeps its descriptor as long as needed"
        )]
        pub(in crate::runner) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            Ok(Self(AsyncFd::new(timer)?))
        }

        /// Waits until the instant `at`.
        pub(in crate::runner) async fn until(&mut self, at: Nanos) -> io::Result<()> {
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let value = Timespec {
                tv_sec: (at.0 / 1_000_000_000).cast_signed(),
                tv_nsec: (at.0 % 1_000_000_000).cast_signed(),
            };
            let when = Itimerspec { it_interval: zero, it_value: value };
            timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::ABSTIME, &when)?;
            while Clock::now() < at {
                self.0.readable().await?.clear_ready();
            }
            Ok(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;

    use super::{Clock, Nanos};

    /// The runtime's timer: a millisecond's grain.
    #[derive(Debug)]
    pub(in crate::runner) struct DueTimer;

    impl DueTimer {
        /// A timer.
        pub(in crate::runner) const fn new() -> io::Result<Self> {
            Ok(Self)
        }

        /// Waits until the instant `at`.
        pub(in crate::runner) async fn until(&mut self, at: Nanos) -> io::Result<()> {
            tokio::time::sleep(at.since(Clock::now()).into()).await;
            Ok(())
        }
    }
}
