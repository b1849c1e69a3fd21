//! Waking at an instant, to the microsecond: tokio's own timers tick in
//! milliseconds. One timerfd serves all waits of a runtime.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use crate::units::{Clock, Nanos};

/// The waits of one runtime. A wait that is given up stays until it is due, and
/// then wakes nobody.
#[derive(Debug, Clone)]
pub(super) struct Alarm {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    timer: AsyncFd<OwnedFd>,
    waits: Mutex<BinaryHeap<Reverse<Wait>>>,
}

#[derive(Debug)]
struct Wait {
    deadline: Nanos,
    waker: Waker,
}

/// A wait that was asked for; one for each place that waits.
#[derive(Debug, Default)]
pub(super) struct Pending(Option<Wait>);

impl Alarm {
    /// Must be called, and used, on the runtime that waits.
    pub(super) fn new() -> io::Result<Self> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe to call; an OwnedFd keeps its descriptor as long as needed"
        )]
        let timer = AsyncFd::new(timer)?;
        Ok(Self { shared: Arc::new(Shared { timer, waits: Mutex::default() }) })
    }

    /// Wakes whom it must, for as long as it is polled.
    pub(super) async fn run(self) -> io::Result<()> {
        loop {
            let mut ready = self.shared.timer.readable().await?;
            let mut expirations = [0; 8];
            // Whether or not it had expired, what is due decides.
            let _ = rustix::io::read(ready.get_inner(), &mut expirations);
            ready.clear_ready();
            drop(ready);
            for waker in self.take_due() {
                waker.wake();
            }
        }
    }

    /// Ready from `deadline` on; until then the task is woken at that time.
    pub(super) fn poll_until(
        &self,
        pending: &mut Pending,
        deadline: Nanos,
        cx: &Context<'_>,
    ) -> Poll<()> {
        if Clock::now() >= deadline {
            pending.0 = None;
            return Poll::Ready(());
        }
        let asked = pending
            .0
            .as_ref()
            .is_some_and(|wait| wait.deadline == deadline && wait.waker.will_wake(cx.waker()));
        if !asked {
            pending.0 = Some(Wait { deadline, waker: cx.waker().clone() });
            self.ask(Wait { deadline, waker: cx.waker().clone() });
        }
        Poll::Pending
    }

    /// Waits until `deadline`.
    pub(super) async fn until(&self, deadline: Nanos) {
        let mut pending = Pending::default();
        poll_fn(|cx| self.poll_until(&mut pending, deadline, cx)).await;
    }

    fn ask(&self, wait: Wait) {
        let deadline = wait.deadline;
        let mut waits = self.waits();
        let first = waits.peek().is_none_or(|Reverse(first)| deadline < first.deadline);
        waits.push(Reverse(wait));
        if first {
            self.arm(deadline);
        }
    }

    fn take_due(&self) -> Vec<Waker> {
        let now = Clock::now();
        let mut waits = self.waits();
        let mut due = Vec::new();
        while waits.peek().is_some_and(|Reverse(first)| first.deadline <= now) {
            due.extend(waits.pop().map(|Reverse(wait)| wait.waker));
        }
        if let Some(Reverse(next)) = waits.peek() {
            self.arm(next.deadline);
        }
        due
    }

    fn arm(&self, deadline: Nanos) {
        // Zero would disarm the timer; a second beyond i64 is never reached.
        let ns = deadline.0.max(1);
        let at = Timespec {
            tv_sec: (ns / 1_000_000_000).cast_signed(),
            tv_nsec: (ns % 1_000_000_000).cast_signed(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        // It can fail only for a descriptor or a time that is not valid: both are.
        let _ = timerfd_settime(self.shared.timer.get_ref(), TimerfdTimerFlags::ABSTIME, &once);
    }

    fn waits(&self) -> MutexGuard<'_, BinaryHeap<Reverse<Wait>>> {
        self.shared.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Wait {
    fn eq(&self, other: &Self) -> bool {
        self.deadline == other.deadline
    }
}

impl Eq for Wait {}

impl PartialOrd for Wait {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Wait {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.deadline.cmp(&other.deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wait asked for behind longer ones must move the timer forward.
    #[test]
    fn a_shorter_wait_ends_first_and_none_ends_early() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let alarm = Alarm::new().unwrap();
            tokio::spawn(alarm.clone().run());
            let start = Clock::now();
            let hour = alarm.clone();
            tokio::spawn(async move { hour.until(start + Nanos::from_seconds(3600.0)).await });
            tokio::task::yield_now().await;
            for after in [3_000_000, 1_000_000, 2_000_000, 0] {
                let deadline = start + Nanos(after);
                let wait = alarm.until(deadline);
                tokio::time::timeout(std::time::Duration::from_secs(30), wait).await.unwrap();
                assert!(Clock::now() >= deadline);
            }
        });
    }
}
