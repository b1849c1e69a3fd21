//! Waits with a finer resolution than the runtime's timer wheel, which is one millisecond.
//!
//! One alarm of the operating system serves all waits of a thread.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::lock::Lock;
use crate::platform::alarm::Alarm;
use crate::units::{Clock, Nanos};

/// The waits of one thread.
#[derive(Debug, Clone)]
pub struct Timer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    alarm: Alarm,
    waits: Lock<Waits>,
}

#[derive(Debug, Default)]
struct Waits {
    wakers: BTreeMap<WaitId, Waker>,
    next_number: u64,
    alarm_set_to: Option<Nanos>,
}

/// Deadline, and a number that makes it unique.
type WaitId = (Nanos, u64);

impl Timer {
    /// Creates a timer within the runtime of the thread. It works while [`Timer::run`] runs.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(Shared { alarm: Alarm::new()?, waits: Lock::default() })))
    }

    /// Creates a wait without a deadline yet.
    #[must_use]
    pub fn wait(&self) -> Wait {
        Wait { timer: self.clone(), id: None }
    }

    /// Waits until `at`.
    pub async fn until(&self, at: Nanos) {
        if Clock::now() >= at {
            return;
        }
        let mut wait = self.wait();
        poll_fn(|cx| wait.poll_until(at, cx)).await;
    }

    /// Waits until `at`; forever if there is none.
    pub async fn until_some(&self, at: Option<Nanos>) {
        match at {
            Some(at) => self.until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Wakes the tasks that are due. Returns only if the alarm fails.
    pub async fn run(self) -> io::Error {
        loop {
            if let Err(error) = self.0.alarm.rings().await {
                return error;
            }
            self.0.waits.lock().alarm_set_to = None;
            self.wake_due();
        }
    }

    fn wake_due(&self) {
        let now = Clock::now();
        loop {
            let mut waits = self.0.waits.lock();
            let Some(entry) = waits.wakers.first_entry() else { return };
            let (at, _) = *entry.key();
            if at > now {
                self.set_alarm(&mut waits, at);
                return;
            }
            let waker = entry.remove();
            drop(waits);
            waker.wake();
        }
    }

    fn set_alarm(&self, waits: &mut Waits, at: Nanos) {
        if waits.alarm_set_to.replace(at) != Some(at) {
            self.0.alarm.set(at.0);
        }
    }
}

/// A wait for one deadline at a time. Dropping it cancels it.
#[derive(Debug)]
pub struct Wait {
    timer: Timer,
    /// The registered deadline, if any.
    id: Option<WaitId>,
}

impl Wait {
    /// Returns ready from `at` on; before, registers the task to be woken at `at`.
    pub fn poll_until(&mut self, at: Nanos, cx: &Context<'_>) -> Poll<()> {
        if Clock::now() >= at {
            self.forget();
            return Poll::Ready(());
        }
        if self.id.is_some_and(|(noted, _)| noted != at) {
            self.forget();
        }
        let mut waits = self.timer.0.waits.lock();
        let id = *self.id.get_or_insert_with(|| {
            waits.next_number += 1;
            (at, waits.next_number)
        });
        let replaced = waits.wakers.insert(id, cx.waker().clone());
        if waits.wakers.first_key_value().is_some_and(|(first, _)| *first == id) {
            self.timer.set_alarm(&mut waits, at);
        }
        // Dropping a waker may drop other waits, which need the lock.
        drop(waits);
        drop(replaced);
        Poll::Pending
    }

    fn forget(&mut self) {
        if let Some(id) = self.id.take() {
            let waker = self.timer.0.waits.lock().wakers.remove(&id);
            drop(waker);
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    use tokio::task::LocalSet;

    use super::*;

    fn run<T>(test: impl AsyncFnOnce(Timer) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let timer = Timer::new().unwrap();
            tokio::spawn(timer.clone().run());
            tokio::time::timeout(Duration::from_secs(20), test(timer)).await.unwrap()
        })
    }

    #[test]
    fn waits_end_in_order_of_their_deadlines_and_never_early() {
        let ended = run(async |timer| {
            let start = Clock::now();
            let ended = Rc::new(RefCell::new(Vec::new()));
            let wait = |micros: u64| {
                let (timer, ended) = (timer.clone(), Rc::clone(&ended));
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
            assert!(timer.0.waits.lock().wakers.is_empty());
        });
    }

    /// A wait that comes behind longer ones must move the alarm forward, and one place may
    /// wait again.
    #[test]
    fn a_place_waits_for_one_instant_after_another() {
        run(async |timer| {
            let start = Clock::now();
            let hour = timer.clone();
            tokio::spawn(async move { hour.until(start + Nanos::from_seconds(3600.0)).await });
            tokio::task::yield_now().await;
            let mut wait = timer.wait();
            for after in [3_000_000, 1_000_000, 5_000_000, 0] {
                let at = start + Nanos(after);
                poll_fn(|cx| wait.poll_until(at, cx)).await;
                assert!(Clock::now() >= at);
            }
            assert_eq!(timer.0.waits.lock().wakers.len(), 1);
        });
    }
}
