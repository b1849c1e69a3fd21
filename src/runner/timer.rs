//! Waits that are finer than the runtime's millisecond wheel.
//!
//! One timer of the kernel serves all the waits of a worker.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::units::{Clock, Nanos};

/// The waits of one worker thread.
#[derive(Debug)]
pub(super) struct Timer {
    alarm: imp::Alarm,
    waits: RefCell<BTreeMap<WaitId, Waker>>,
    next_number: Cell<u64>,
}

/// Deadline, and a number that makes it unique.
type WaitId = (Nanos, u64);

impl Timer {
    /// A timer; needs the runtime of the thread. It works while [`Timer::run`] does.
    pub(super) fn new() -> io::Result<Rc<Self>> {
        let timer = Self {
            alarm: imp::Alarm::new()?,
            waits: RefCell::default(),
            next_number: Cell::new(0),
        };
        Ok(Rc::new(timer))
    }

    /// Waits until the instant `at`.
    pub(super) async fn until(&self, at: Nanos) {
        if Clock::now() >= at {
            return;
        }
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        let wait = Wait { timer: self, id: (at, number) };
        poll_fn(|cx| wait.poll(cx)).await;
    }

    /// Waits until the instant `at`; for ever without one.
    pub(super) async fn until_some(&self, at: Option<Nanos>) {
        match at {
            Some(at) => self.until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Wakes those whose time has come, for ever.
    pub(super) async fn run(self: Rc<Self>) -> io::Error {
        loop {
            if let Err(error) = self.alarm.rings().await {
                return error;
            }
            self.wake_due();
        }
    }

    fn wake_due(&self) {
        let now = Clock::now();
        loop {
            let mut waits = self.waits.borrow_mut();
            let Some(entry) = waits.first_entry() else { return };
            if entry.key().0 > now {
                self.alarm.set(entry.key().0);
                return;
            }
            let waker = entry.remove();
            drop(waits);
            waker.wake();
        }
    }
}

/// A wait that has been noted; forgotten when it is dropped.
struct Wait<'a> {
    timer: &'a Timer,
    id: WaitId,
}

impl Wait<'_> {
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if Clock::now() >= self.id.0 {
            return Poll::Ready(());
        }
        let mut waits = self.timer.waits.borrow_mut();
        waits.insert(self.id, cx.waker().clone());
        if waits.first_key_value().is_some_and(|(first, _)| *first == self.id) {
            self.timer.alarm.set(self.id.0);
        }
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.timer.waits.borrow_mut().remove(&self.id);
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::cell::Cell;
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;

    use super::Nanos;

    /// A timer of the kernel's.
    #[derive(Debug)]
    pub(super) struct Alarm {
        timer: AsyncFd<OwnedFd>,
        set_to: Cell<Option<Nanos>>,
    }

    impl Alarm {
        #[expect(
            deprecated,
            reason = "its successor is unsafe to call; an OwnedFd keeps its descriptor as long as needed"
        )]
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            Ok(Self { timer: AsyncFd::new(timer)?, set_to: Cell::new(None) })
        }

        /// Lets it ring at the instant `at`, and not before.
        pub(super) fn set(&self, at: Nanos) {
            if self.set_to.replace(Some(at)) == Some(at) {
                return;
            }
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let value = Timespec {
                tv_sec: (at.0 / 1_000_000_000).cast_signed(),
                tv_nsec: (at.0 % 1_000_000_000).cast_signed(),
            };
            let when = Itimerspec { it_interval: zero, it_value: value };
            // The kernel refuses only descriptors and times that are none.
            let set = timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::ABSTIME, &when);
            debug_assert_eq!(set.map(|_| ()), Ok(()), "{at:?}");
        }

        /// Waits until it has rung.
        pub(super) async fn rings(&self) -> io::Result<()> {
            // Setting it again makes it unreadable, so nothing has to be read.
            self.timer.readable().await?.clear_ready();
            self.set_to.set(None);
            Ok(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;

    use tokio::sync::Notify;

    use super::{Cell, Clock, Nanos};

    /// The runtime's timer: a millisecond's grain.
    #[derive(Debug)]
    pub(super) struct Alarm {
        set_to: Cell<Option<Nanos>>,
        changed: Notify,
    }

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self { set_to: Cell::new(None), changed: Notify::new() })
        }

        /// Lets it ring at the instant `at`, and not before.
        pub(super) fn set(&self, at: Nanos) {
            self.set_to.set(Some(at));
            self.changed.notify_one();
        }

        /// Waits until it has rung.
        pub(super) async fn rings(&self) -> io::Result<()> {
            loop {
                let wait = self.set_to.get().map(|at| at.since(Clock::now()));
                tokio::select! {
                    () = self.changed.notified() => {}
                    () = sleep(wait) => {
                        self.set_to.set(None);
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn sleep(wait: Option<Nanos>) {
        match wait {
            Some(wait) => tokio::time::sleep(wait.into()).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::LocalSet;

    use super::*;

    fn run<T>(test: impl AsyncFnOnce(Rc<Timer>) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let timer = Timer::new().unwrap();
            tokio::task::spawn_local(Rc::clone(&timer).run());
            tokio::time::timeout(Duration::from_secs(20), test(timer)).await.unwrap()
        })
    }

    #[test]
    fn waits_end_in_order_of_their_deadlines_and_never_early() {
        let ended = run(async |timer| {
            let start = Clock::now();
            let ended = Rc::new(RefCell::new(Vec::new()));
            let wait = |micros: u64| {
                let (timer, ended) = (Rc::clone(&timer), Rc::clone(&ended));
                tokio::task::spawn_local(async move {
                    let at = start + Nanos(micros * 1000);
                    timer.until(at).await;
                    assert!(Clock::now() >= at);
                    ended.borrow_mut().push(micros);
                })
            };
            // The later ones are there first, and two have the same deadline.
            for task in [9000, 3000, 3000, 6000, 0, 100].map(wait) {
                task.await.unwrap();
            }
            ended.take()
        });
        assert_eq!(ended, [0, 100, 3000, 3000, 6000, 9000]);
    }

    #[test]
    fn a_wait_that_is_given_up_holds_no_other_up_and_leaves_nothing() {
        run(async |timer| {
            let now = Clock::now();
            let later = now + Nanos::from_millis(5.0);
            tokio::select! {
                biased;
                () = timer.until(now + Nanos::from_millis(2.0)) => {}
                () = timer.until(now + Nanos::from_seconds(3600.0)) => {}
            }
            timer.until(later).await;
            assert!(Clock::now() >= later);
            assert!(timer.waits.borrow().is_empty());
        });
    }
}
